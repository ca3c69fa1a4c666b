"""Opening sets of each kind, and what is said of those that cannot be used."""

import os
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from phoneproof.data.samples import UNNAMED, SampleSet
from phoneproof.data.set_specs import set_from_dict, set_to_dict
from phoneproof.data.sets import open_set
from phoneproof.errors import DataError
from tests.data.builders import image_folder, noise


def opened(inputs: tuple[str, ...] = ("image",), **declared: Any) -> SampleSet:
    return open_set(set_from_dict(declared), inputs)


def read_all(inputs: tuple[str, ...], **declared: Any) -> None:
    found = opened(inputs, **declared)
    list(found.contents(range(len(found.entries))))


def refused(match: str, inputs: tuple[str, ...] = ("image",), **declared: Any) -> DataError:
    with pytest.raises(DataError, match=match) as caught:
        read_all(inputs, **declared)
    assert caught.value.where
    return caught.value


def labels_of(found: SampleSet) -> list[Any]:
    return [entry.label for entry in found.entries]


class TestDeclaration:
    @pytest.mark.parametrize(
        "declared",
        [
            {"kind": "image_folder", "path": "a", "classes": ["x", "y"]},
            {"kind": "csv", "path": "a.csv", "label_column": None},
            {"kind": "npz", "path": "a.npz", "arrays": {"image": "x"}},
            {"kind": "npy", "path": "a.npy", "labels_path": "b.npy"},
            {"kind": "entry_point", "function": "m:f", "folder": "."},
        ],
    )
    def test_round_trip(self, declared: dict[str, Any]) -> None:
        spec = set_from_dict(declared)
        assert set_from_dict(set_to_dict(spec)) == spec

    @pytest.mark.parametrize(
        ("declared", "advice"),
        [
            ({"kind": "images", "path": "a"}, ""),
            ({"kind": "csv", "path": "a", "label_colum": "x"}, "label_column"),
            ({"kind": "npz"}, ""),
            ({"kind": "npy", "path": 3}, ""),
            ({"kind": "npy", "path": "a", "classes": []}, ""),
            ({"kind": "npy", "path": "a", "classes": ["x", "x"]}, ""),
        ],
    )
    def test_what_cannot_be_meant_is_refused(self, declared: dict[str, Any], advice: str) -> None:
        with pytest.raises(DataError) as caught:
            set_from_dict(declared)
        assert advice in (caught.value.next_step or "")


class TestImageFolder:
    def test_sub_folders_are_classes_in_order_of_name(self, tmp_path: Path) -> None:
        image_folder(tmp_path, {"cat": 2, "ant": 1, "bee": 1})
        found = opened(kind="image_folder", path=str(tmp_path))
        assert found.class_names == ("ant", "bee", "cat")
        assert [(e.id, e.label) for e in found.entries] == [
            ("ant/000.png", 0),
            ("bee/000.png", 1),
            ("cat/000.png", 2),
            ("cat/001.png", 2),
        ]
        assert list(found.contents([2])) == [tmp_path / "cat" / "000.png"]

    def test_explicit_classes_give_the_index_and_may_be_empty(self, tmp_path: Path) -> None:
        image_folder(tmp_path, {"cat": 1, "ant": 1})
        found = opened(kind="image_folder", path=str(tmp_path), classes=["cat", "dog", "ant"])
        assert labels_of(found) == [2, 0]

    def test_unknown_class_names_the_nearest(self, tmp_path: Path) -> None:
        image_folder(tmp_path, {"cats": 1})
        error = refused("'cats'", kind="image_folder", path=str(tmp_path), classes=["ant", "cat"])
        assert "'cat'" in (error.next_step or "")

    def test_flat_folder_has_no_labels(self, tmp_path: Path) -> None:
        image_folder(tmp_path, {".": 3})
        found = opened(kind="image_folder", path=str(tmp_path))
        assert labels_of(found) == [None] * 3
        assert found.class_names is None

    def test_number_names_whose_order_is_not_certain_are_refused(self, tmp_path: Path) -> None:
        image_folder(tmp_path, {str(k): 1 for k in range(11)})
        error = refused("order as text", kind="image_folder", path=str(tmp_path))
        assert "classes" in (error.next_step or "")
        names = [str(k) for k in range(11)]
        assert 10 in labels_of(opened(kind="image_folder", path=str(tmp_path), classes=names))

    def test_hidden_and_foreign_files_are_passed_over_and_counted(self, tmp_path: Path) -> None:
        image_folder(tmp_path, {"a": 1, ".ipynb_checkpoints": 1, "__MACOSX": 1})
        (tmp_path / "a" / "notes.txt").write_text("x")
        (tmp_path / "README").write_text("x")
        (tmp_path / "a" / ".DS_Store").write_text("x")
        found = opened(kind="image_folder", path=str(tmp_path))
        assert found.class_names == ("a",)
        assert found.ignored_files == 2

    @pytest.mark.parametrize(
        ("make", "match"),
        [
            (lambda root: root.rmdir(), "does not exist"),
            (lambda root: None, "holds no images"),
            (lambda root: (root.rmdir(), root.write_text("x")), "not a folder"),
            (lambda root: image_folder(root, {"a": 1, ".": 1}), "beside class folders"),
            (lambda root: (image_folder(root, {"a": 1}), (root / "b").mkdir()), "'b' holds no images"),
        ],
    )
    def test_unusable_folders(self, tmp_path: Path, make: Any, match: str) -> None:
        root = tmp_path / "set"
        root.mkdir()
        make(root)
        assert refused(match, kind="image_folder", path=str(root)).where == str(root)

    def test_a_loop_of_links_ends_and_links_elsewhere_are_read(self, tmp_path: Path) -> None:
        elsewhere = image_folder(tmp_path / "elsewhere", {"x": 1})
        root = image_folder(tmp_path / "set", {"a": 1})
        (root / "a" / "loop").symlink_to(root)
        (root / "b").symlink_to(elsewhere / "x")
        found = opened(kind="image_folder", path=str(root))
        assert [entry.id for entry in found.entries] == ["a/000.png", "b/000.png"]

    def test_names_that_are_not_utf8_stay_readable_and_harmless(self, tmp_path: Path) -> None:
        folder = os.fsencode(tmp_path) + b"/bad\xff"
        Path(os.fsdecode(folder)).mkdir()
        data = image_folder(tmp_path / "other", {"x": 1}) / "x" / "000.png"
        Path(os.fsdecode(folder + b"/<b>\n.png")).write_bytes(data.read_bytes())
        (data.parent / "000.png").unlink()
        (data.parent).rmdir()
        (tmp_path / "other").rmdir()
        found = opened(kind="image_folder", path=str(tmp_path))
        assert found.class_names == ("bad\\xff",)
        assert found.entries[0].id.encode() == b"bad\\xff/<b>\n.png"


class TestCsv:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        for name in ("a.png", "=b.png", "ü,c.png"):
            Image.fromarray(noise(3, 3)).save(tmp_path / name)
        return tmp_path

    def manifest(self, folder: Path, text: str, encoding: str = "utf-8") -> str:
        path = folder / "set.csv"
        path.write_bytes(text.encode(encoding))
        return str(path)

    def test_paths_are_relative_and_cells_are_text(self, folder: Path) -> None:
        text = 'label,path\r\ncat,a.png\r\ndog,=b.png\r\n\r\ncat,"ü,c.png"\r\n'
        found = opened(kind="csv", path=self.manifest(folder, text))
        assert [e.id for e in found.entries] == ["a.png", "=b.png", "ü,c.png"]
        assert labels_of(found) == [0, 1, 0]
        assert found.class_names == ("cat", "dog")
        assert list(found.contents([1])) == [folder / "=b.png"]

    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-8"])
    def test_byte_order_marks(self, folder: Path, encoding: str) -> None:
        path = self.manifest(folder, "path,label\n\u00fc,x\n".replace("ü", '"ü,c.png"'), encoding)
        assert opened(kind="csv", path=path).entries[0].id == "ü,c.png"

    def test_other_encodings_are_named_not_guessed(self, folder: Path) -> None:
        path = self.manifest(folder, 'path,label\n"ü,c.png",x\n', "cp1252")
        assert "encoding" in (refused("not utf-8", kind="csv", path=path).next_step or "")
        assert opened(kind="csv", path=path, encoding="cp1252").entries[0].id == "ü,c.png"
        refused("not an encoding", kind="csv", path=path, encoding="cp12522")

    def test_whole_numbers_are_indices_unless_classes_name_them(self, folder: Path) -> None:
        path = self.manifest(folder, "path,label\na.png,10\n=b.png,2\n")
        assert labels_of(opened(kind="csv", path=path)) == [10, 2]
        assert labels_of(opened(kind="csv", path=path, classes=["2", "10"])) == [1, 0]

    @pytest.mark.parametrize(
        ("text", "match", "where", "advice"),
        [
            ("file,label\na.png,x\n", "no column 'path'", "line 1", ""),
            ("paht,label\na.png,x\n", "no column 'path'", "line 1", "'paht'"),
            ("path;label\na.png;x\n", "no column 'path'", "line 1", "delimiter"),
            ("path,path\na.png,x\n", "twice", "line 1", ""),
            ("path,label\n", "no rows", "set.csv", ""),
            ("", "no column", "line 1", ""),
            ("path,label\na.png\n", "1 cells", "line 2", ""),
            ("path,label\na.png,x\n,x\n", "no path", "line 3", ""),
            ("path,label\nnone.png,x\nno.png,x\n", "None of the files .*'none.png'", "line 2", "relative"),
            ('path,label\n"a.png"x,x\n', "no CSV", "line 2", ""),
        ],
    )
    def test_faults_have_their_line(
        self, folder: Path, text: str, match: str, where: str, advice: str
    ) -> None:
        error = refused(match, kind="csv", path=self.manifest(folder, text))
        assert where in (error.where or "")
        assert advice in (error.next_step or "")

    def test_unknown_label(self, folder: Path) -> None:
        path = self.manifest(folder, "path,label\na.png,cta\n")
        error = refused("'cta'", kind="csv", path=path, classes=["cat", "dog"])
        assert "'cat'" in (error.next_step or "")

    def test_without_labels(self, folder: Path) -> None:
        path = self.manifest(folder, "file\na.png\n")
        assert labels_of(opened(kind="csv", path=path, path_column="file", label_column=None)) == [None]

    def test_missing_file(self, tmp_path: Path) -> None:
        refused("cannot be read", kind="csv", path=str(tmp_path / "none.csv"))


def contents(found: SampleSet, indices: list[int]) -> list[dict[str, np.ndarray]]:
    return [dict(content) for content in found.contents(indices)]  # type: ignore[arg-type]


class TestArrays:
    values = np.arange(24, dtype=np.float32).reshape(4, 2, 3)

    def test_npy_rows(self, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", self.values)
        np.save(tmp_path / "y.npy", np.array([3, 1, 2, 0]))
        found = opened(kind="npy", path=str(tmp_path / "x.npy"), labels_path=str(tmp_path / "y.npy"))
        assert labels_of(found) == [3, 1, 2, 0]
        assert np.array_equal(contents(found, [1, 3])[1][UNNAMED], self.values[3])

    @pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
    @pytest.mark.parametrize("order", ["C", "F"])
    def test_npz_rows_of_several_inputs(self, tmp_path: Path, save: Any, order: Any) -> None:
        path = str(tmp_path / "x.npz")
        second = np.arange(4, dtype=np.int64)
        save(
            path, image=np.array(self.values, order=order), ids=second, labels=np.array(["b", "a", "b", "b"])
        )
        found = opened(("image", "token"), kind="npz", path=path, arrays={"token": "ids"})
        assert labels_of(found) == [1, 0, 1, 1]
        assert found.class_names == ("a", "b")
        read = contents(found, [0, 2, 3])
        for k, index in enumerate([0, 2, 3]):
            assert np.array_equal(read[k]["image"], self.values[index])
            assert read[k]["token"] == index

    def test_labels_of_any_shape(self, tmp_path: Path) -> None:
        boxes = np.zeros((4, 2, 4), np.float32)
        np.savez(tmp_path / "x.npz", image=self.values, labels=boxes)
        assert labels_of(opened(kind="npz", path=str(tmp_path / "x.npz")))[0] == boxes[0].tolist()

    @pytest.mark.parametrize(
        ("arrays", "match", "advice"),
        [
            ({"imgae": values}, "no array 'image'", "'imgae'"),
            ({"image": values, "labels": np.zeros(3, int)}, "3 labels for 4 samples", ""),
            ({"image": values[:0]}, "number of samples", ""),
            ({"image": np.float32(1)}, "number of samples", ""),
            ({"image": np.array([{}, {}], object)}, "Python objects", ""),
            ({"image": values, "labels": np.array([0.0, np.nan, 1, 2])}, "label", ""),
        ],
    )
    def test_unusable_archives(self, tmp_path: Path, arrays: Any, match: str, advice: str) -> None:
        np.savez(tmp_path / "x.npz", **arrays)
        error = refused(match, kind="npz", path=str(tmp_path / "x.npz"))
        assert advice in (error.next_step or "")

    def test_inputs_of_different_lengths(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "x.npz", a=self.values, b=self.values[:3])
        refused("same number of samples", ("a", "b"), kind="npz", path=str(tmp_path / "x.npz"))

    def test_unknown_input_in_arrays(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "x.npz", image=self.values)
        error = refused("no input", kind="npz", path=str(tmp_path / "x.npz"), arrays={"imag": "image"})
        assert "'image'" in (error.next_step or "")

    def test_label_outside_the_classes(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "x.npz", image=self.values, labels=np.array([0, 1, 2, 3]))
        refused("not an index", kind="npz", path=str(tmp_path / "x.npz"), classes=["a", "b"])

    def test_named_labels_that_are_absent(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "x.npz", image=self.values)
        refused("no array of labels", kind="npz", path=str(tmp_path / "x.npz"), labels_array="y")

    def test_damaged_archives(self, tmp_path: Path) -> None:
        path = tmp_path / "x.npz"
        np.savez(path, image=self.values)
        whole = path.read_bytes()
        for damaged in (b"", b"PK\3\4", whole[:100], whole[: len(whole) // 2]):
            path.write_bytes(damaged)
            refused("archive", kind="npz", path=str(path))
        broken = bytearray(whole)
        broken[160] ^= 255  # within the elements: the checksum of the zip entry no longer fits
        path.write_bytes(bytes(broken))
        refused("damaged|CRC", kind="npz", path=str(path))

    def test_header_that_promises_more_than_there_is(self, tmp_path: Path) -> None:
        np.save(tmp_path / "image.npy", self.values)
        data = (tmp_path / "image.npy").read_bytes().replace(b"(4, 2, 3)", b"(9, 2, 3)")
        with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
            archive.writestr("image.npy", data)
        refused("ends in the middle", kind="npz", path=str(tmp_path / "x.npz"))
        (tmp_path / "image.npy").write_bytes(data)
        refused("no array", kind="npy", path=str(tmp_path / "image.npy"))

    def test_unusable_npy(self, tmp_path: Path) -> None:
        path = tmp_path / "x.npy"
        refused("does not exist", kind="npy", path=str(path))
        path.write_bytes(b"nothing")
        refused("without unpickling", kind="npy", path=str(path))
        np.save(path, np.array([{}], object), allow_pickle=True)
        refused("without unpickling", kind="npy", path=str(path))
        np.save(path, np.float32(1))
        refused("no samples", kind="npy", path=str(path))


class TestEntryPoint:
    def write(self, folder: Path, name: str, text: str) -> dict[str, Any]:
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
        return {"kind": "entry_point", "function": f"{name}:samples", "folder": str(folder)}

    def test_arrays_dicts_images_and_labels(self, tmp_path: Path) -> None:
        declared = self.write(
            tmp_path,
            "set_a",
            """
            import numpy as np
            from PIL import Image
            def samples():
                buffer = np.zeros((2, 2), np.float32)
                for k in range(3):
                    buffer[:] = k
                    yield buffer, "ab"[k % 2]
                yield {"image": buffer}, 1
                yield Image.new("L", (2, 2)), 0
            """,
        )
        found = opened(**declared, classes=["a", "b"])
        assert labels_of(found) == [0, 1, 0, 1, 0]
        read = list(found.contents([1, 3, 4]))
        assert isinstance(read[0], dict)
        assert (read[0][UNNAMED] == 1).all()
        assert isinstance(read[1], dict)
        assert list(read[1]) == ["image"]
        assert isinstance(read[2], Image.Image)

    @pytest.mark.parametrize(
        ("name", "body", "match"),
        [
            ("raises", "yield 1.0; raise KeyError('secret')", "failed with KeyError"),
            ("nothing", "return []", "no samples"),
            ("none", "return None", "failed with TypeError"),
            ("triple", "yield (1.0, 2.0, 3.0)", "tuple"),
            ("texts", "yield 'image.png'", "not an array of numbers"),
            ("ragged", "yield [[1.0], [1.0, 2.0]]", "no array"),
            ("some_labels", "yield 1.0, 1; yield 2.0", "some have none"),
            ("odd_label", "yield 1.0, object()", "label of type object"),
        ],
    )
    def test_faults_in_the_function(self, tmp_path: Path, name: str, body: str, match: str) -> None:
        declared = self.write(tmp_path, f"set_{name}", f"def samples():\n    {body}\n")
        error = refused(match, **declared)
        assert f"set_{name}:samples" in (error.where or "")

    def test_the_place_of_a_failure_is_named(self, tmp_path: Path) -> None:
        declared = self.write(tmp_path, "set_place", "def samples():\n    yield 1.0\n    1 / 0\n")
        assert "set_place.py line 3" in (refused("ZeroDivisionError", **declared).where or "")

    def test_samples_that_change_between_calls_are_refused(self, tmp_path: Path) -> None:
        declared = self.write(
            tmp_path,
            "set_random",
            """
            import numpy as np
            generator = np.random.default_rng()
            def samples():
                yield generator.random(4)
            """,
        )
        error = refused("another sample 0", **declared)
        assert "seed" in (error.next_step or "")

    def test_fewer_samples_on_the_second_call(self, tmp_path: Path) -> None:
        declared = self.write(
            tmp_path, "set_once", "values = iter([1.0, 2.0])\ndef samples():\n    return values\n"
        )
        refused("another sample", **declared)

    def test_missing_module_and_function(self, tmp_path: Path) -> None:
        declared = self.write(tmp_path, "set_names", "def sampels():\n    yield 1.0\n")
        assert "'sampels'" in (refused("no function", **declared).next_step or "")
        refused("no module", kind="entry_point", function="set_absent:f", folder=str(tmp_path))
        refused("not the name", kind="entry_point", function="set_names", folder=str(tmp_path))

    def test_label_outside_the_classes(self, tmp_path: Path) -> None:
        declared = self.write(tmp_path, "set_label", "def samples():\n    yield 1.0, 'caat'\n")
        assert "'cat'" in (refused("'caat'", **declared, classes=["cat", "dog"]).next_step or "")
