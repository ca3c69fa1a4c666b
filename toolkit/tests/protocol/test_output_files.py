"""Output files: resumed after any cut, never trusted, and equal to the golden ones byte by byte."""

import hashlib
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from phoneproof.errors import ProtocolError, StorageError
from phoneproof.protocol.outputs import DTYPE_CODES, OutputWriter, missing_samples, read_outputs
from tests.protocol.golden_files import GOLDEN
from tests.protocol.output_bytes import HEADER, OUTPUT_FILES, record, tensor

OUTPUTS = GOLDEN / "outputs"
ARRAYS = st.sampled_from(sorted(DTYPE_CODES)).flatmap(
    lambda name: hnp.arrays(name, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
)
RECORDS = st.dictionaries(st.integers(0, 40), st.lists(ARRAYS, max_size=3), max_size=6).map(
    lambda by_sample: sorted(by_sample.items())
)


def written(path: Path, records: list[tuple[int, list[NDArray[Any]]]], next_sample: int = 0) -> str:
    writer = OutputWriter(path, next_sample)
    for sample, tensors in records:
        writer.append(sample, tensors)
    return writer.close().sha256


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("outputs")


def emptied(folder: Path) -> Path:
    path = folder / "case.bin"
    path.unlink(missing_ok=True)
    return path


def same(one: Any, other: Any) -> bool:
    return as_json(one) == as_json(other)


@settings(max_examples=40)
@given(records=RECORDS)
def test_what_was_written_is_read(records: list[Any], workplace: Path) -> None:
    path = emptied(workplace)
    digest = written(path, records)
    assert same(list(read_outputs(path)), records)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()


@settings(max_examples=40)
@given(records=RECORDS, data=st.data())
def test_a_cut_file_is_resumed_to_the_same_bytes(
    records: list[Any], data: st.DataObject, workplace: Path
) -> None:
    path = emptied(workplace)
    digest = written(path, records)
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut] + data.draw(st.sampled_from([b"", bytes(7), bytes(100)])))
    left = [sample for sample, _ in read_outputs(path, torn_tail=True)]
    assert left == [sample for sample, _ in records[: len(left)]]
    samples = [sample for sample, _ in records]
    never_stored = set(range(41)) - set(samples)
    lost = missing_samples(path, 0, 41, never_stored)
    assert list(lost) == samples[len(left) :]
    next_sample = min(lost, default=41)
    assert written(path, [r for r in records if r[0] >= next_sample], next_sample) == digest
    assert path.read_bytes() == whole


@settings(max_examples=40)
@given(records=RECORDS, next_sample=st.integers(0, 41))
def test_records_from_the_next_sample_on_are_dropped(
    records: list[Any], next_sample: int, workplace: Path
) -> None:
    path = emptied(workplace)
    written(path, records)
    OutputWriter(path, next_sample).close()
    assert same(list(read_outputs(path)), [r for r in records if r[0] < next_sample])


@settings(max_examples=40)
@given(records=RECORDS, data=st.data())
def test_hostile_bytes_are_refused_or_read_but_never_crash(
    records: list[Any], data: st.DataObject, workplace: Path
) -> None:
    path = emptied(workplace)
    written(path, records)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content))
    for torn_tail in (False, True):
        try:
            list(read_outputs(path, torn_tail=torn_tail))
        except ProtocolError:
            continue


@given(
    code=st.integers(0, 14),
    shape=st.lists(st.sampled_from([0, 1, 2, 2**31 - 1, 2**31, 2**63, 2**64 - 1]), max_size=34),
    length=st.sampled_from([0, 1, 4, 2**40, 2**64 - 1]),
    count=st.sampled_from([0, 1, 2, 2**32 - 1]),
)
def test_hostile_bodies_with_a_right_checksum(
    code: int, shape: list[int], length: int, count: int, workplace: Path
) -> None:
    body = struct.pack("<QI", 0, count) + struct.pack("<BBH", code, len(shape), 0)
    body += struct.pack(f"<{len(shape)}QQ", *shape, length)
    path = emptied(workplace)
    prefixed = struct.pack("<Q", len(body)) + body
    path.write_bytes(HEADER + prefixed + struct.pack("<I", zlib.crc32(prefixed)))
    empty = count == 1 and 1 <= code <= 12 and length == 0 and len(shape) <= 32
    if empty and 0 in shape and max(shape) < 2**31:
        try:
            assert [t.size for _, tensors in read_outputs(path) for t in tensors] == [0]
        except ProtocolError:
            assert len(shape) > 1  # numpy holds no array whose other lengths multiply beyond 2^63
    else:
        with pytest.raises(ProtocolError):
            list(read_outputs(path))


@pytest.mark.parametrize("name", sorted(OUTPUT_FILES))
def test_golden_file(name: str, tmp_path: Path) -> None:
    golden = OUTPUT_FILES[name]
    assert golden.kept(OUTPUTS / name) == golden.content
    path = tmp_path / name
    path.write_bytes(golden.content)
    expected = golden.expected
    for key, torn_tail in (("whole", False), ("torn_tail_allowed", True)):
        if expected[key] == "error":
            with pytest.raises(ProtocolError):
                list(read_outputs(path, torn_tail=torn_tail))
        else:
            assert as_json(list(read_outputs(path, torn_tail=torn_tail))) == expected[key]
    if expected["torn_tail_allowed"] != "error":
        OutputWriter(path, 2**40).close()
        assert path.stat().st_size == expected["bytes_kept"]


def as_json(records: list[Any]) -> list[dict[str, Any]]:
    def one(array: NDArray[Any]) -> dict[str, Any]:
        shape = list(array.shape)
        return {"dtype": array.dtype.name, "shape": shape, "hex": array.tobytes().hex()}

    return [{"sample": sample, "tensors": [one(t) for t in tensors]} for sample, tensors in records]


def test_the_index_of_the_golden_files_is_whole() -> None:
    index = json.loads((OUTPUTS / "expected.json").read_text(encoding="utf-8"))
    assert index == {name: golden.expected for name, golden in OUTPUT_FILES.items()}
    assert {path.name for path in OUTPUTS.iterdir()} == {*OUTPUT_FILES, "expected.json"}


def test_the_golden_whole_file_is_what_the_writer_writes(tmp_path: Path) -> None:
    tensors: list[NDArray[Any]] = [
        np.array([[1.5, -2.0]], np.float32),
        np.array(7, np.int32),
        np.zeros((0, 3), np.int8),
    ]
    written(tmp_path / "whole.bin", [(0, tensors), (2, []), (3, [np.array([True, False])])])
    assert (tmp_path / "whole.bin").read_bytes() == OUTPUT_FILES["whole.bin"].content


def test_big_endian_and_strided_arrays_are_stored_by_value(tmp_path: Path) -> None:
    values = np.arange(12, dtype=">f4").reshape(3, 4).T[::2]
    written(tmp_path / "a.bin", [(0, [values])])
    ((_, (read,)),) = read_outputs(tmp_path / "a.bin")
    assert np.array_equal(read, values)


def test_a_sample_out_of_order_or_of_a_strange_dtype_is_refused(tmp_path: Path) -> None:
    writer = OutputWriter(tmp_path / "a.bin", 3)
    with pytest.raises(ProtocolError):
        writer.append(2, [])
    writer.append(4, [])
    with pytest.raises(ProtocolError):
        writer.append(4, [])
    with pytest.raises(ProtocolError):
        writer.append(5, [np.array([1 + 2j])])
    first = writer.close()
    assert writer.close() == first
    assert first.name == "outputs/a.bin"
    with pytest.raises(ProtocolError):
        writer.append(6, [])


def test_a_foreign_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"something else entirely")
    with pytest.raises(ProtocolError):
        OutputWriter(path, 0)
    assert path.read_bytes() == b"something else entirely"


def test_a_damaged_record_before_others_is_no_torn_tail(tmp_path: Path) -> None:
    content = bytearray(HEADER + record(0, tensor("uint8", [2], b"\1\2")) + record(1))
    content[-40] ^= 1
    (tmp_path / "a.bin").write_bytes(bytes(content))
    with pytest.raises(ProtocolError):
        OutputWriter(tmp_path / "a.bin", 5)


def test_all_samples_are_missing_without_a_file(tmp_path: Path) -> None:
    assert missing_samples(tmp_path / "none.bin", 2, 6, {3}) == (2, 4, 5)


def test_a_full_disk_is_a_storage_error_and_leaves_whole_records(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    import multiprocessing

    path = tmp_path / "a.bin"

    def fill() -> None:
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        writer = OutputWriter(path, 0)
        writer.append(0, [np.zeros(100, np.float32)])
        try:
            writer.append(1, [np.zeros(200, np.float32)])
        except StorageError:
            writer.append(1, [np.zeros(1, np.float32)])
            writer.close()

    process = multiprocessing.get_context("fork").Process(target=fill)
    process.start()
    process.join()
    assert process.exitcode == 0
    assert [(sample, tensors[0].size) for sample, tensors in read_outputs(path)] == [(0, 100), (1, 1)]
