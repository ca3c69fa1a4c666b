"""The store: the same bytes come back, whole sets or nothing, once, within the cap."""

import contextlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tracemalloc
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from phoneproof.data.materialization import (
    fingerprint,
    probable_digest,
    remember_fingerprint,
)
from phoneproof.data.pixels import pixels
from phoneproof.data.preprocessing import ColourOrder, Layout
from phoneproof.data.set_specs import ImageFolder, NpzArchive, set_from_dict
from phoneproof.data.sets import open_set
from phoneproof.data.shards import table_bytes
from phoneproof.data.store import SAMPLES_FILE, SampleStore
from phoneproof.data.store_writer import materialize
from phoneproof.data.values import value_table
from phoneproof.errors import BusyError, DataError, StorageError
from phoneproof.protocol import codec
from phoneproof.protocol.job import FileRef, RawInput, SampleSet, TableInput, stored_path
from phoneproof.protocol.sample_files import SampleReader
from phoneproof.protocol.tensors import TensorSpec
from tests.data.builders import as_is, image_folder, noise, stored_folder, stretch, target, tensor

FLOAT = tensor((1, 3, 4, 4))
INT8_NHWC = tensor((1, 4, 4, 3), "int8", scale=1.0, zero_point=-128)


def npz_store(root: Path, arrays: dict[str, Any], *inputs: TensorSpec, **fields: Any) -> SampleStore:
    path = root / "set.npz"
    np.savez(path, **arrays)
    opened = open_set(NpzArchive("npz", str(path)), [t.name for t in inputs])
    return materialize(opened, range(len(opened.entries)), target(root, None, *inputs, **fields))


def leftovers(root: Path) -> list[str]:
    """What stands in the store beside locks."""
    return sorted(p.name for p in (root / "samples").glob("*") if p.suffix != ".lock")


@given(
    count=st.integers(1, 9),
    shard_bytes=st.integers(1, 200),
    dtype=st.sampled_from(["float32", "int64", "uint8", "float16", "bool"]),
    data=st.data(),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_raw_samples_come_back_bit_for_bit(
    tmp_path: Path, count: int, shard_bytes: int, dtype: str, data: st.DataObject
) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), max_size=3)))
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    values = generator.integers(0, 256, (count, *shape, 8), dtype=np.uint8)
    values = values.astype(bool) if dtype == "bool" else values.view(dtype)
    store = npz_store(
        tmp_path, {"image": values}, tensor((1, *values.shape[1:]), dtype), shard_bytes=shard_bytes
    )
    assert store.count == count
    first = data.draw(st.integers(0, count - 1))
    n = data.draw(st.integers(1, count - first))
    spec = tensor((1, *values.shape[1:]), dtype)
    found = store.read_inputs(first, n, [spec], None)["image"]
    assert found.dtype == values.dtype
    assert found.tobytes() == values[first : first + n].tobytes()


def test_scalar_samples_keep_their_shape(tmp_path: Path) -> None:
    store = npz_store(tmp_path, {"image": np.arange(3, dtype=np.float32)}, tensor((1,)))
    assert store.rows("image", 0, 3).shape == (3,)


@pytest.mark.parametrize("threads", [1, 3])
def test_pixels_are_stored_once_for_builds_of_every_layout_and_dtype(tmp_path: Path, threads: int) -> None:
    folder = image_folder(tmp_path / "set", {"a": 5, "b": 4}, size=(9, 7))
    preprocess = stretch(4, 4, scale=1 / 255, mean=(0.5, 0.4, 0.3), colour_order=ColourOrder.BGR)
    opened = open_set(ImageFolder("image_folder", str(folder)), ["image"])
    made = target(tmp_path, preprocess, FLOAT, threads=threads, shard_bytes=100)
    store = materialize(opened, range(9), made)
    expected = []
    for path in opened.contents(range(9)):
        assert isinstance(path, Path)
        with Image.open(path) as image:
            expected.append(pixels(image, preprocess))
    stacked = np.stack(expected)
    assert len(store.input("image").shards) == 5
    assert np.array_equal(store.rows("image", 0, 9), stacked)
    y = (stacked * np.float64(1 / 255) - np.array([0.5, 0.4, 0.3])).astype(np.float32)
    floats = store.read_inputs(3, 4, [FLOAT], preprocess)["image"]
    assert np.array_equal(floats, y[3:7].transpose(0, 3, 1, 2))
    quantized = store.read_inputs(3, 4, [INT8_NHWC], preprocess, Layout.NHWC)["image"]
    assert np.array_equal(quantized, np.clip(np.rint(y[3:7]) - 128, -128, 127))


def test_samples_json_says_what_is_stored(tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "set", {"ant": 2, "bee": 1})
    (folder / "bee" / "torn.png").write_bytes(b"not an image")
    (folder / "notes.txt").write_text("x")
    store = stored_folder(tmp_path, folder)
    written = json.loads((store.path / SAMPLES_FILE).read_text())
    assert written["version"] == 1
    assert written["digest"] == store.path.name
    assert written["count"] == 3
    assert written["labels"] == [0, 0, 1]
    assert written["class_names"] == ["ant", "bee"]
    assert written["ids"] == ["ant/000.png", "ant/001.png", "bee/000.png"]
    assert written["ignored_files"] == 1
    (skipped,) = written["skipped"]
    assert skipped["id"] == "bee/torn.png"
    assert "no readable image" in skipped["reason"]
    (one,) = written["inputs"]
    assert {k: one[k] for k in ("name", "encoding", "dtype", "shape")} == {
        "name": "image",
        "encoding": "u8+table",
        "dtype": "uint8",
        "shape": [4, 4, 3],
    }
    assert one["shards"][0]["file"]["size_bytes"] == 3 * 48
    assert len(set(written["source_digests"]) | set(written["content_digests"])) == 6


class TestReuse:
    def test_the_same_set_is_not_written_again(self, tmp_path: Path) -> None:
        folder = image_folder(tmp_path / "set", {"a": 3})
        first = stored_folder(tmp_path, folder)
        inode = (first.path / SAMPLES_FILE).stat().st_ino
        again = stored_folder(tmp_path, folder, stretch(4, 4, mean=(1, 2, 3), layout=Layout.NHWC))
        assert again.path == first.path
        assert (again.path / SAMPLES_FILE).stat().st_ino == inode

    def test_whatever_changes_the_bytes_changes_the_digest(self, tmp_path: Path) -> None:
        folder = image_folder(tmp_path / "set", {"a": 3, "b": 1})
        opened = open_set(ImageFolder("image_folder", str(folder)), ["image"])
        digests = [stored_folder(tmp_path, folder).digest]
        digests.append(stored_folder(tmp_path, folder, stretch(4, 5)).digest)
        digests.append(materialize(opened, [0, 2], target(tmp_path, stretch(4, 4))).digest)
        stat = (folder / "a" / "000.png").stat()
        Image.fromarray(noise(6, 5, seed=77)).save(folder / "a" / "000.png")
        os.utime(folder / "a" / "000.png", ns=(stat.st_atime_ns, stat.st_mtime_ns))
        digests.append(stored_folder(tmp_path, folder).digest)  # content counts, not its time
        shutil.move(folder / "a" / "001.png", folder / "b" / "001.png")
        digests.append(stored_folder(tmp_path, folder).digest)
        assert len(set(digests)) == 5

    def test_the_names_of_the_classes_belong_to_a_set(self, tmp_path: Path) -> None:
        folder = image_folder(tmp_path / "set", {"a": 1, "b": 1})
        stores = []
        for classes in (("a", "b"), ("a", "b", "c")):
            opened = open_set(ImageFolder("image_folder", str(folder), classes), ["image"])
            stores.append(materialize(opened, range(2), target(tmp_path, stretch(4, 4))))
        assert [store.stored.class_names for store in stores] == [("a", "b"), ("a", "b", "c")]

    def test_raw_values_depend_on_the_input_they_are_made_for(self, tmp_path: Path) -> None:
        values = {"image": np.arange(6, dtype=np.float32).reshape(2, 3)}
        floats = npz_store(tmp_path, values, tensor((1, 3)))
        quantized_input = tensor((1, 3), "int8", scale=2.0, zero_point=1)
        quantized = npz_store(tmp_path, values, quantized_input)
        assert floats.digest != quantized.digest
        assert quantized.rows("image", 0, 2).tolist() == [[1, 1, 2], [3, 3, 3]]

    def test_a_damaged_set_is_refused_by_readers_and_made_again_by_writers(self, tmp_path: Path) -> None:
        folder = image_folder(tmp_path / "set", {"a": 3})
        store = stored_folder(tmp_path, folder)
        shard = store.path / "0.0.bin"
        good = shard.read_bytes()
        shard.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        SampleStore.open(store.path)
        with pytest.raises(StorageError, match="checksum"):
            SampleStore.open(store.path, verify=True)
        stored_folder(tmp_path, folder)
        assert shard.read_bytes() == good
        for damage in (good[:-1], None):
            shard.unlink()
            if damage is not None:
                shard.write_bytes(damage)
            with pytest.raises(StorageError):
                SampleStore.open(store.path)
            stored_folder(tmp_path, folder)
            assert shard.read_bytes() == good

    @pytest.mark.parametrize(
        "change", [{"version": 2}, {"count": "3"}, {"inputs": [{}]}, {"extra": 1}, None, "outside"]
    )
    def test_a_foreign_samples_json_is_refused(self, tmp_path: Path, change: Any) -> None:
        store = stored_folder(tmp_path, image_folder(tmp_path / "set", {"a": 3}))
        path = store.path / SAMPLES_FILE
        content = json.loads(path.read_text())
        if change == "outside":
            content["inputs"][0]["shards"][0]["file"]["name"] = "../x.bin"
        elif change is not None:
            content |= change
        path.write_text("{" if change is None else json.dumps(content))
        with pytest.raises(StorageError):
            SampleStore.open(store.path)

    def test_another_preprocess_does_not_read_these_pixels(self, tmp_path: Path) -> None:
        store = stored_folder(tmp_path, image_folder(tmp_path / "set", {"a": 3}))
        with pytest.raises(DataError, match="another preprocess"):
            store.read_inputs(0, 1, [FLOAT], stretch(4, 4, colour_order=ColourOrder.BGR))
        with pytest.raises(DataError, match="need the preprocess"):
            store.read_inputs(0, 1, [FLOAT], None)

    @pytest.mark.parametrize(("first", "count"), [(-1, 1), (0, 4), (3, 1), (0, 0)])
    def test_ranges_outside_the_set(self, tmp_path: Path, first: int, count: int) -> None:
        store = stored_folder(tmp_path, image_folder(tmp_path / "set", {"a": 3}))
        with pytest.raises(DataError, match="not among the 3"):
            store.rows("image", first, count)


class TestJobInput:
    """A harness reads what job.json names, with no samples.json at hand."""

    @pytest.mark.parametrize(("spec", "layout"), [(FLOAT, Layout.NCHW), (INT8_NHWC, Layout.NHWC)])
    def test_pixels_with_a_table(self, tmp_path: Path, spec: TensorSpec, layout: Layout) -> None:
        preprocess = stretch(4, 4, mean=(1, 20, 90))
        store = stored_folder(tmp_path, image_folder(tmp_path / "set", {"a": 5}), preprocess)
        data = table_bytes(value_table(preprocess, spec))
        (store.path / "table.bin").write_bytes(data)
        made = store.job_input(spec, layout, FileRef("table.bin", sha256(data).hexdigest(), len(data)))
        read_back = codec.from_dict(TableInput, json.loads(json.dumps(codec.to_dict(made))))
        reader = self.pushed(store.path, tmp_path / "phone", read_back, 5)
        found = np.concatenate([reader.read(n)["image"] for n in (1, 2, 3)])
        assert np.array_equal(found, store.read_inputs(1, 3, [spec], preprocess, layout)["image"])

    def test_raw_values(self, tmp_path: Path) -> None:
        values = np.arange(12, dtype=np.float32).reshape(4, 3)
        store = npz_store(tmp_path, {"image": values}, tensor((1, 3)), shard_bytes=24)
        made = store.job_input(tensor((1, 3)))
        assert isinstance(made, RawInput)
        reader = self.pushed(store.path, tmp_path / "phone", made, 4)
        for number, row in enumerate(values):
            assert np.array_equal(reader.read(number)["image"], row[None])

    @staticmethod
    def pushed(store: Path, phone: Path, one: RawInput | TableInput, count: int) -> SampleReader:
        """The input's files where a device has them, and their reader."""
        for ref in [shard.file for shard in one.shards] + (
            [one.table] if isinstance(one, TableInput) else []
        ):
            place = phone / stored_path(ref)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(store / ref.name, place)
        return SampleReader(SampleSet("s", count, (one,)), phone)

    def test_a_device_never_converts(self, tmp_path: Path) -> None:
        store = npz_store(tmp_path, {"image": np.zeros((4, 3), np.float32)}, tensor((1, 3)))
        with pytest.raises(DataError, match="no device converts"):
            store.job_input(tensor((1, 3), "int8", scale=1.0, zero_point=0))

    def test_layout_and_table_have_to_fit(self, tmp_path: Path) -> None:
        store = stored_folder(tmp_path, image_folder(tmp_path / "set", {"a": 1}))
        table = FileRef("t", "0" * 64, 3 * 256 * 4)
        with pytest.raises(DataError, match="shape"):
            store.job_input(FLOAT, Layout.NHWC, table)
        with pytest.raises(DataError, match="not one of 3 channels of int8"):
            store.job_input(INT8_NHWC, Layout.NHWC, table)


class TestRefusals:
    def test_the_cap_names_size_and_key_before_writing(self, tmp_path: Path) -> None:
        folder = image_folder(tmp_path / "set", {"a": 3})
        opened = open_set(ImageFolder("image_folder", str(folder)), ["image"])
        small = target(tmp_path, stretch(4, 4), size_cap_bytes=143, cap_key="data.cap")
        with pytest.raises(DataError, match="144 bytes") as caught:
            materialize(opened, range(3), small)
        assert caught.value.where == "data.cap"
        assert caught.value.facts["predicted_bytes"] == 144
        assert leftovers(tmp_path) == []
        assert materialize(opened, range(3), target(tmp_path, stretch(4, 4), size_cap_bytes=144)).count == 3

    def test_nothing_readable(self, tmp_path: Path) -> None:
        folder = tmp_path / "set"
        folder.mkdir()
        (folder / "a.png").write_bytes(b"x")
        with pytest.raises(DataError, match=r"No sample .* can be read"):
            stored_folder(tmp_path, folder)
        assert leftovers(tmp_path) == []

    def test_images_of_different_shape_without_a_resize(self, tmp_path: Path) -> None:
        folder = image_folder(tmp_path / "set", {".": 2})
        Image.fromarray(noise(6, 6)).save(folder / "wide.png")
        with pytest.raises(DataError, match="shape") as caught:
            stored_folder(tmp_path, folder, as_is())
        assert "wide.png" in (caught.value.where or "")
        assert leftovers(tmp_path) == []

    def test_images_without_a_preprocess(self, tmp_path: Path) -> None:
        opened = open_set(ImageFolder("image_folder", str(image_folder(tmp_path / "s", {"a": 1}))), ["image"])
        with pytest.raises(DataError, match="declared preprocess"):
            materialize(opened, [0], target(tmp_path, None))

    def test_a_preprocess_for_several_inputs(self, tmp_path: Path) -> None:
        opened = open_set(ImageFolder("image_folder", str(image_folder(tmp_path / "s", {"a": 1}))), ["image"])
        two = (FLOAT, TensorSpec("ids", "int64", (1, 3)))
        with pytest.raises(DataError, match="'ids'"):
            materialize(opened, [0], target(tmp_path, stretch(4, 4), *two))

    def test_inputs_that_a_sample_lacks(self, tmp_path: Path) -> None:
        opened = open_set_of(tmp_path, np.zeros((2, 3), np.float32))
        two = (tensor((1, 3)), TensorSpec("ids", "int64", (1, 3)))
        with pytest.raises(DataError, match="the model takes 'image', 'ids'"):
            materialize(opened, [0], target(tmp_path, None, *two))

    def test_a_full_disk_leaves_nothing_behind(self, tmp_path: Path) -> None:
        """EFBIG from a limit on file size takes the same road as ENOSPC, and needs no mount."""
        values = np.zeros((64, 1024), np.float32)
        np.save(tmp_path / "x.npy", values)
        script = f"""
import resource, sys
from pathlib import Path
from phoneproof.data.set_specs import NpyArray
from phoneproof.data.sets import open_set
from phoneproof.data.store_writer import materialize
from phoneproof.errors import StorageError
from tests.data.builders import target, tensor
opened = open_set(NpyArray("npy", {str(tmp_path / "x.npy")!r}), ["image"])
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    materialize(opened, range(64), target(Path({str(tmp_path)!r}), None, tensor((1, 1024))))
except StorageError as error:
    sys.exit(error.what == "The disk is full." and 7)
"""
        done = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parents[2], timeout=60)
        assert done.returncode == 7
        assert leftovers(tmp_path) == []

    def test_a_real_full_disk(self, tmp_path: Path) -> None:
        disk = tmp_path / "disk"
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)]
        if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("mounting a small tmpfs is not allowed here")

        def fill(stage: str, done: int, total: int) -> None:
            if stage == "write" and done == 10:
                with contextlib.suppress(OSError):
                    (disk / "filler").write_bytes(bytes(600_000))

        try:
            opened = open_set_of(tmp_path, np.arange(64 * 1024, dtype=np.float32).reshape(64, 1024))
            with pytest.raises(StorageError, match="The disk is full"):
                materialize(opened, range(64), target(disk, None, tensor((1, 1024))), fill)
            assert leftovers(disk) == []
            with pytest.raises(StorageError, match=r"the disk has .* left"):
                materialize(opened, range(64), target(disk, None, tensor((1, 1024))))
            (disk / "filler").unlink()
            assert materialize(opened, range(64), target(disk, None, tensor((1, 1024)))).count == 64
        finally:
            subprocess.run(["umount", str(disk)], check=True)

    def test_a_folder_that_cannot_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "samples").write_text("in the way")
        with pytest.raises(StorageError, match="cannot be written"):
            stored_folder(tmp_path, image_folder(tmp_path / "set", {"a": 1}))

    def test_a_set_that_changes_while_it_is_read(self, tmp_path: Path) -> None:
        folder = image_folder(tmp_path / "set", {"a": 2})
        opened = open_set(ImageFolder("image_folder", str(folder)), ["image"])

        def change(stage: str, done: int, total: int) -> None:
            if stage == "hash" and done == total:
                Image.fromarray(noise(6, 5, seed=99)).save(folder / "a" / "001.png")

        with pytest.raises(DataError, match="changed while it was read"):
            materialize(opened, range(2), target(tmp_path, stretch(4, 4)), change)
        assert leftovers(tmp_path) == []

    def test_a_file_that_vanishes_between_its_digest_and_its_pixels(self, tmp_path: Path) -> None:
        folder = image_folder(tmp_path / "set", {"a": 2})
        opened = open_set(ImageFolder("image_folder", str(folder)), ["image"])

        def remove(stage: str, done: int, total: int) -> None:
            if stage == "hash" and done == total:
                (folder / "a" / "001.png").unlink()

        with pytest.raises(DataError, match="changed while it was read"):
            materialize(opened, range(2), target(tmp_path, stretch(4, 4)), remove)
        assert leftovers(tmp_path) == []


def open_set_of(folder: Path, values: np.ndarray) -> Any:
    np.save(folder / "values.npy", values)
    return open_set(set_from_dict({"kind": "npy", "path": str(folder / "values.npy")}), ["image"])


def _store_in_another_process(root: str, folder: str, barrier: Any, queue: Any) -> None:
    writes = []
    opened = open_set(ImageFolder("image_folder", folder), ["image"])
    barrier.wait()
    store = materialize(
        opened, range(40), target(Path(root), stretch(4, 4)), lambda stage, *_: writes.append(stage)
    )
    queue.put((store.digest, "write" in writes))


@pytest.mark.parametrize("kind", ["npz", "npy"])
def test_a_set_larger_than_memory_is_streamed(tmp_path: Path, kind: str) -> None:
    """48 MiB of values must not raise the peak of allocated memory by more than a few samples."""
    path = tmp_path / f"x.{kind}"
    values = np.zeros((48, 256, 1024), np.float32)
    if kind == "npz":
        np.savez_compressed(path, image=values)
    else:
        np.save(path, values)
    del values
    opened = open_set(set_from_dict({"kind": kind, "path": str(path)}), ["image"])
    tracemalloc.start()
    try:
        store = materialize(opened, range(48), target(tmp_path, None, tensor((1, 256, 1024)), threads=2))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert store.count == 48
    assert peak < 16 * 1024 * 1024
    shutil.rmtree(store.path)
    path.unlink()


class TestTwoProcesses:
    def test_one_writes_and_the_other_finds(self, tmp_path: Path) -> None:
        folder = image_folder(tmp_path / "set", {"a": 40}, size=(64, 64))
        context = multiprocessing.get_context("fork")
        barrier, queue = context.Barrier(2), context.Queue()
        arguments = (str(tmp_path), str(folder), barrier, queue)
        both = [context.Process(target=_store_in_another_process, args=arguments) for _ in range(2)]
        for process in both:
            process.start()
        results = [queue.get(timeout=60) for _ in both]
        for process in both:
            process.join(60)
        assert results[0][0] == results[1][0]
        assert sorted(wrote for _, wrote in results) == [False, True]
        assert leftovers(tmp_path) == [results[0][0]]

    def test_a_lock_that_is_not_given_up(self, tmp_path: Path) -> None:
        import filelock

        folder = image_folder(tmp_path / "set", {"a": 1})
        digest = stored_folder(tmp_path, folder).digest
        opened = open_set(ImageFolder("image_folder", str(folder)), ["image"])
        waiting = target(tmp_path, stretch(4, 4), lock_timeout_s=0.05)
        with (
            filelock.FileLock(tmp_path / "samples" / f"{digest}.lock"),
            pytest.raises(BusyError, match="Another process"),
        ):
            materialize(opened, [0], waiting)

    def test_what_a_killed_writer_left_is_cleared(self, tmp_path: Path) -> None:
        folder = image_folder(tmp_path / "set", {"a": 1})
        store = stored_folder(tmp_path, folder)
        shutil.rmtree(store.path)
        remains = tmp_path / "samples" / f".{store.digest}.tmp-0123"
        remains.mkdir()
        (remains / "0.0.bin").write_bytes(b"half")
        stored_folder(tmp_path, folder)
        assert leftovers(tmp_path) == [store.digest]


class TestDryRun:
    def test_probable_digest(self, tmp_path: Path) -> None:
        folder = image_folder(tmp_path / "set", {"a": 2})
        spec = ImageFolder("image_folder", str(folder))
        made = target(tmp_path, stretch(4, 4))

        def mark() -> str:
            opened = open_set(spec, ["image"])
            found = fingerprint(spec, opened, range(len(opened.entries)), made)
            assert found is not None
            return found

        assert probable_digest(mark(), tmp_path) is None
        store = stored_folder(tmp_path, folder)
        remember_fingerprint(mark(), tmp_path, store.digest)
        assert probable_digest(mark(), tmp_path) == store.digest
        Image.fromarray(noise(16, 5)).save(folder / "a" / "000.png")
        assert probable_digest(mark(), tmp_path) is None
        shutil.rmtree(store.path)
        assert probable_digest(mark(), tmp_path) is None
