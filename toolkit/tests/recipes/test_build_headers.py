import json
import struct
from pathlib import Path

import pytest

from phoneproof.errors import BuildFileError
from phoneproof.recipes.build_headers import format_of_build, read_build_header
from phoneproof.recipes.table import Format

TFLITE = struct.pack("<I", 24) + b"TFL3" + bytes(120)


def pte(program: int = 96, segments: int = 128, length: int = 64, size: int = 192) -> bytes:
    header = struct.pack("<I4s4sIQQQ", 60, b"ET12", b"eh00", 32, program, segments, length)
    return header.ljust(size, b"\0")


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def package(path: Path, inner: str = "com.apple.CoreML/model.mlmodel") -> Path:
    (path / "Data" / "com.apple.CoreML").mkdir(parents=True)
    (path / "Data" / "com.apple.CoreML" / "model.mlmodel").write_bytes(b"\x08\x07")
    entries = {"one": {"path": inner}}
    (path / "Manifest.json").write_text(
        json.dumps({"rootModelIdentifier": "one", "itemInfoEntries": entries})
    )
    return path


def test_a_build_is_known_by_name_and_content(tmp_path: Path) -> None:
    assert read_build_header(write(tmp_path / "a.tflite", TFLITE)) is Format.TFLITE
    assert read_build_header(write(tmp_path / "a.pte", pte())) is Format.EXECUTORCH
    assert read_build_header(package(tmp_path / "a.mlpackage")) is Format.COREML
    onnx = b"\x08\x09" + b"\x3a\x02\x0a\x00"  # ir_version 9, a graph of one empty node
    assert read_build_header(write(tmp_path / "A.ONNX", onnx)) is Format.ONNX


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("a.mlmodel", "mlprogram"),
        ("a.pt2", "models"),
        ("a.keras", "models"),
        ("a.ptl", "ExecuTorch"),
        ("a.bin", ".tflite, .mlpackage, .pte, .onnx"),
    ],
)
def test_another_name_is_refused_with_what_it_is(tmp_path: Path, name: str, advice: str) -> None:
    with pytest.raises(BuildFileError) as caught:
        format_of_build(tmp_path / name)
    assert advice in str(caught.value.next_step)


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("a.tflite", b"", "empty"),
        ("a.tflite", b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        ("a.tflite", b"PK\x03\x04rest", "zip"),
        ("a.tflite", pte(), "not what its name says"),
        ("a.tflite", b"nonsense" * 9, "not what its name says"),
        ("a.tflite", TFLITE[:20], "truncated"),
        ("a.pte", TFLITE, "not what its name says"),
        ("a.pte", pte().replace(b"ET12", b"ET11"), "not what its name says"),
        ("a.pte", pte()[:150], "truncated"),
        ("a.pte", pte(program=200, segments=0, length=0), "truncated"),
        ("a.onnx", TFLITE, "not what its name says"),
        ("a.onnx", b"nonsense", "not an ONNX model"),
    ],
)
def test_a_file_that_is_no_such_build_is_refused(
    tmp_path: Path, name: str, content: bytes, what: str
) -> None:
    with pytest.raises(BuildFileError, match=what) as caught:
        read_build_header(write(tmp_path / name, content))
    assert caught.value.where == str(tmp_path / name)
    assert caught.value.next_step


def test_the_name_that_fits_the_content_is_suggested(tmp_path: Path) -> None:
    with pytest.raises(BuildFileError) as caught:
        read_build_header(write(tmp_path / "a.pte", TFLITE))
    assert ".tflite" in str(caught.value.next_step)


def test_a_package_is_a_folder_and_the_others_are_files(tmp_path: Path) -> None:
    (tmp_path / "a.tflite").mkdir()
    with pytest.raises(BuildFileError, match="folder"):
        read_build_header(tmp_path / "a.tflite")
    with pytest.raises(BuildFileError, match="a file"):
        read_build_header(write(tmp_path / "a.mlpackage", b"x"))
    with pytest.raises(BuildFileError, match="does not exist"):
        read_build_header(tmp_path / "b.tflite")


@pytest.mark.parametrize(
    ("inner", "words"),
    [
        ("../../elsewhere", "outside the package"),
        ("com.apple.CoreML/absent.mlmodel", r"specification 'com.*absent\.mlmodel' is missing"),
    ],
)
def test_a_package_whose_model_is_elsewhere_or_absent_is_refused(
    tmp_path: Path, inner: str, words: str
) -> None:
    (tmp_path / "elsewhere").write_bytes(b"x")
    with pytest.raises(BuildFileError, match=words):
        read_build_header(package(tmp_path / "a.mlpackage", inner))


def test_a_package_with_a_damaged_manifest_is_refused(tmp_path: Path) -> None:
    path = package(tmp_path / "a.mlpackage")
    (path / "Manifest.json").write_text("{")
    with pytest.raises(BuildFileError, match="does not name a model"):
        read_build_header(path)
    (path / "Manifest.json").unlink()
    with pytest.raises(BuildFileError, match=r"Manifest\.json is missing"):
        read_build_header(path)
