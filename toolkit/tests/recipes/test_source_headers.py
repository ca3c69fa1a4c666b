"""Whether a file can be a source model of its form, seen without loading any vendor's package."""

import io
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from phoneproof.errors import SourceModelError
from phoneproof.recipes.source_headers import SOURCE_SUFFIXES, check_source, check_state
from phoneproof.recipes.table import SourceFormat

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"
HDF5 = b"\x89HDF\r\n\x1a\n" + bytes(100)
ONNX = b"\x08\x0a\x3a\x00"  # ir_version 10 and an empty graph


def archive(*names: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name in names:
            file.writestr(name, "content")
    return content.getvalue()


KERAS = archive("metadata.json", "config.json", "model.weights.h5")
PT2 = archive("net/archive_format", "net/models/model.json", "net/data/weights/weight_0")
STATE = archive("net/data.pkl", "net/data/0", "net/version")
TORCHSCRIPT = archive("net/data.pkl", "net/constants.pkl", "net/code/net.py")


def safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(4)


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def refusal(check: Callable[[], None], path: Path) -> SourceModelError:
    with pytest.raises(SourceModelError) as caught:
        check()
    assert caught.value.next_step
    assert (caught.value.where or "").startswith(str(path))
    return caught.value


@pytest.mark.parametrize(
    ("form", "content"),
    [
        (SourceFormat.ONNX, ONNX),
        (SourceFormat.KERAS, KERAS),
        (SourceFormat.EXPORTED_PROGRAM, PT2),
    ],
)
def test_a_file_of_its_form_passes(tmp_path: Path, form: SourceFormat, content: bytes) -> None:
    check_source(write(tmp_path / "net", content), form)


def test_a_folder_with_a_saved_model_passes(tmp_path: Path) -> None:
    write(tmp_path / "net" / "saved_model.pb", b"\x08\x01")
    check_source(tmp_path / "net", SourceFormat.SAVEDMODEL)


def test_a_python_function_has_no_file_to_look_at(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no file"):
        check_source(tmp_path, SourceFormat.PYTORCH)


KERAS_OR_PT2 = [
    (b"", "empty"),
    (LFS, "Git LFS"),
    (HDF5, "HDF5"),
    (b"<html>", "is no "),
    (ONNX, "is no "),
    (KERAS[: len(KERAS) // 2], "damaged archive"),
    (b"PK\x03\x04", "damaged archive"),
    (archive("readme.txt"), "is no "),
    (archive("inner/config.json", "models.json"), "is no "),
]


@pytest.mark.parametrize("form", [SourceFormat.KERAS, SourceFormat.EXPORTED_PROGRAM])
@pytest.mark.parametrize(("content", "what"), KERAS_OR_PT2)
def test_what_is_no_archive_of_the_form_is_refused(
    tmp_path: Path, form: SourceFormat, content: bytes, what: str
) -> None:
    path = write(tmp_path / "net", content)
    assert what in refusal(lambda: check_source(path, form), path).what


@pytest.mark.parametrize(
    ("form", "content", "other"),
    [
        (SourceFormat.KERAS, PT2, "exported_program"),
        (SourceFormat.EXPORTED_PROGRAM, KERAS, "keras"),
    ],
)
def test_an_archive_of_another_form_is_told_as_that(
    tmp_path: Path, form: SourceFormat, content: bytes, other: str
) -> None:
    path = write(tmp_path / "net", content)
    assert refusal(lambda: check_source(path, form), path).next_step == f"It is one of format = {other!r}."


@pytest.mark.parametrize(
    ("content", "what"), [(b"", ""), (LFS, "Git LFS"), (KERAS, ""), (HDF5, ""), (ONNX[:3], "")]
)
def test_what_is_no_onnx_model_is_refused(tmp_path: Path, content: bytes, what: str) -> None:
    path = write(tmp_path / "net.onnx", content)
    assert what in refusal(lambda: check_source(path, SourceFormat.ONNX), path).what


@pytest.mark.parametrize("form", [f for f in SourceFormat if f is not SourceFormat.PYTORCH], ids=str)
def test_a_source_that_is_not_there_is_refused(tmp_path: Path, form: SourceFormat) -> None:
    path = tmp_path / "missing"
    refusal(lambda: check_source(path, form), path)


@pytest.mark.parametrize("form", list(SOURCE_SUFFIXES.values()), ids=str)
def test_a_folder_is_no_file(tmp_path: Path, form: SourceFormat) -> None:
    refusal(lambda: check_source(tmp_path, form), tmp_path)


@pytest.mark.parametrize("content", [None, b"", LFS])
def test_a_folder_without_a_whole_saved_model_is_refused(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        write(tmp_path / "saved_model.pb", content)
    refusal(lambda: check_source(tmp_path, SourceFormat.SAVEDMODEL), tmp_path)


def test_the_pb_of_a_saved_model_is_not_its_folder(tmp_path: Path) -> None:
    path = write(tmp_path / "saved_model.pb", b"\x08\x01")
    assert "Name the folder" in (
        refusal(lambda: check_source(path, SourceFormat.SAVEDMODEL), path).next_step or ""
    )


@pytest.mark.parametrize(
    ("name", "content"), [("w.pt", STATE), ("w.pth", STATE), ("w.safetensors", safetensors())]
)
def test_a_state_dict_passes(tmp_path: Path, name: str, content: bytes) -> None:
    check_state(write(tmp_path / name, content))


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("w.pt", b"", "no archive of torch.save"),
        ("w.pt", b"\x80\x02}q\x00.", "no archive of torch.save"),
        ("w.pt", KERAS, "no archive of torch.save"),
        ("w.pt", TORCHSCRIPT, "TorchScript"),
        ("w.pt", STATE[:-30], "damaged archive"),
        ("w.pt", safetensors(), "no archive of torch.save"),
        ("w.pt", LFS, "Git LFS"),
        ("w.safetensors", b"", "not safetensors"),
        ("w.safetensors", STATE, "not safetensors"),
        ("w.safetensors", LFS, "Git LFS"),
        ("w.safetensors", safetensors()[:20], "truncated"),
        ("w.safetensors", struct.pack("<Q", 2**63) + b"{}", "not safetensors"),
    ],
)
def test_what_is_no_state_dict_is_refused(tmp_path: Path, name: str, content: bytes, what: str) -> None:
    path = write(tmp_path / name, content)
    assert what in refusal(lambda: check_state(path), path).what


def test_a_state_dict_that_is_not_there_or_a_folder_is_refused(tmp_path: Path) -> None:
    refusal(lambda: check_state(tmp_path / "w.pt"), tmp_path)
    refusal(lambda: check_state(tmp_path), tmp_path)
