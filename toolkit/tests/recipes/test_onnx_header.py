"""Telling an ONNX file from others without loading onnx."""

import subprocess
import sys
from pathlib import Path

import pytest

from phoneproof.errors import SourceModelError
from phoneproof.recipes.onnx_header import read_header
from tests.models.onnx_networks import classifier, saved
from tests.own_path import OWN_PATH


def test_the_header_says_ir_version_and_producer(tmp_path: Path) -> None:
    path = saved(classifier(), tmp_path / "m.onnx")
    header = read_header(path)
    assert (header.ir_version, header.producer, header.size_bytes) == (8, "test", path.stat().st_size)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"PK\x03\x04" + bytes(100), "zip archive"),
        (b"hello, this is a text file\n", "not an ONNX model"),
        (b"\x08\x08", "not an ONNX model, or is truncated"),
        (b"\xff" * 40, "not an ONNX model"),
    ],
)
def test_other_files_are_named_for_what_they_are(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(SourceModelError, match=message) as caught:
        read_header(path)
    assert caught.value.where == str(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceModelError, match="does not exist"):
        read_header(tmp_path / "m.onnx")
    with pytest.raises(SourceModelError, match="is a folder"):
        read_header(tmp_path)


def test_neither_header_nor_toolchain_table_loads_a_toolchain() -> None:
    code = (
        "import sys, phoneproof.recipes.onnx_header, phoneproof.recipes.toolchain_table as t;"
        "[t.installed_versions(x) for x in t.TOOLCHAINS.values()];"
        "sys.exit(bool({'onnx', 'onnxruntime', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], env=OWN_PATH).returncode == 0
