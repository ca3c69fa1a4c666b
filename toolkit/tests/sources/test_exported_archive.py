"""A .pt2 file is read only where it runs nobody's code, and says in one sentence what else it is."""

import contextlib
import json
import logging
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from phoneproof.errors import SourceModelError
from phoneproof.sources.exported_archive import check_archive
from phoneproof.sources.exported_program import read_program
from phoneproof.sources.plain_arithmetic import is_plain_arithmetic
from tests.sources.pt2_archives import Images, changed, pickled, program, saved, with_program

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

Write = Callable[[Path, Path, Path], Path]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(program(dynamic=True), tmp_path_factory.mktemp("whole") / "model.pt2")


def touch(marker: Path) -> str:
    return f"__import__('pathlib').Path({str(marker)!r}).touch()"


def in_sample_inputs(path: Path, out: Path, marker: Path) -> Path:
    return changed(path, out, lambda name, content: pickled(marker) if "sample_inputs" in name else content)


def in_a_length(path: Path, out: Path, marker: Path) -> Path:
    def change(one: Any) -> None:
        sizes = one["graph_module"]["graph"]["tensor_values"]["image"]["sizes"]
        sizes[0]["as_expr"]["expr_str"] = f"Integer(1) if {touch(marker)} else Integer(2)"

    return with_program(path, out, change)


def in_a_guard(path: Path, out: Path, marker: Path) -> Path:
    def change(one: Any) -> None:
        one["guards_code"] = [f"{touch(marker)} is None"]

    return with_program(path, out, change)


def in_a_name(path: Path, out: Path, marker: Path) -> Path:
    """The last input's name, which torch pastes into the signature of a forward that it compiles."""

    def change(one: Any) -> None:
        text = json.dumps(one["graph_module"])
        name = json.dumps(f"ids=({touch(marker)})")
        one["graph_module"] = json.loads(
            text.replace('"name": "ids"', f'"name": {name}').replace('"ids": {', f"{name}: {{")
        )

    return with_program(path, out, change)


ATTACKS: dict[str, Write] = {
    "sample inputs": in_sample_inputs,
    "length": in_a_length,
    "guard": in_a_guard,
    "name": in_a_name,
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_what_torchs_own_reader_would_run_is_refused(whole: Path, tmp_path: Path, attack: Write) -> None:
    marker = tmp_path / "marker"
    path = attack(whole, tmp_path / "attack.pt2", marker)
    with pytest.raises(SourceModelError, match="trust_pickle"):
        read_program(path, trust_pickle=False)
    assert not marker.exists()


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_torchs_own_reader_runs_it(whole: Path, tmp_path: Path, attack: Write) -> None:
    """The reason for the guards: none of these archives looks wrong to torch before it has run their code."""
    marker = tmp_path / "marker"
    path = attack(whole, tmp_path / "attack.pt2", marker)
    with contextlib.suppress(Exception):  # what it says afterwards does not matter
        module = torch.export.load(path).module()
        module(torch.randn(2, 3, 8, 8), torch.zeros(2, 6, dtype=torch.int64))
    assert marker.exists()


def test_an_archive_that_is_trusted_is_read(
    whole: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # torch's warning here has one argument too few, which pytest's log handler raises.
    caplog.set_level(logging.ERROR, logger="torch._export.serde.serialize")
    marker = tmp_path / "marker"
    path = in_sample_inputs(whole, tmp_path / "attack.pt2", marker)
    read_program(path, trust_pickle=True)
    assert marker.exists()


@pytest.mark.parametrize(
    ("record", "content"),
    [
        ("data__aotinductor__model__x.so", b"\x7fELF"),
        ("data__weights__model.pt", b"PK"),
        ("data__other__x", b"x"),
    ],
)
def test_records_that_hold_code_are_refused(whole: Path, tmp_path: Path, record: str, content: bytes) -> None:
    path = changed(whole, tmp_path / "a.pt2", lambda _, kept: kept, **{record: content})
    with pytest.raises(SourceModelError, match="trust_pickle"):
        check_archive(path, False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"use_pickle": false', b'"use_pickle": true'),
        (b'"path_name": "weight_0"', b'"path_name": "opaque_obj_0"'),
        (b'"path_name": "weight_0"', b'"path_name": "../weight_0"'),
    ],
)
def test_pickled_weights_are_refused(whole: Path, tmp_path: Path, old: bytes, new: bytes) -> None:
    path = changed(whole, tmp_path / "a.pt2", lambda _, content: content.replace(old, new))
    with pytest.raises(SourceModelError, match="trust_pickle"):
        check_archive(path, False)


def test_an_operator_that_is_none_is_refused(whole: Path, tmp_path: Path) -> None:
    def change(one: Any) -> None:
        one["graph_module"]["graph"]["nodes"][0]["target"] = "torch.hub.load"

    with pytest.raises(SourceModelError, match=r"torch\.hub\.load"):
        check_archive(with_program(whole, tmp_path / "a.pt2", change), False)


def test_a_structure_that_imports_a_module_is_refused(whole: Path, tmp_path: Path) -> None:
    def change(one: Any) -> None:
        call = one["graph_module"]["module_call_graph"][0]["signature"]
        call["in_spec"] = call["in_spec"].replace("builtins.dict", "default_factory_module")

    with pytest.raises(SourceModelError, match="imports code"):
        check_archive(with_program(whole, tmp_path / "a.pt2", change), False)


def zip_of(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return path


def other_files(folder: Path, whole: Path) -> dict[str, Path]:
    script = folder / "script.pt"
    torch.jit.script(nn_linear()).save(str(script))  # type: ignore[no-untyped-call]
    checkpoint = folder / "state.pt"
    torch.save(Images().state_dict(), checkpoint)
    content = whole.read_bytes()
    files = {
        "empty": b"",
        "Git LFS": b"version https://git-lfs.github.com/spec/v1\n",
        "HDF5": b"\x89HDF\r\n\x1a\n",
        "a pickle": b"\x80\x02x",
        "not a .pt2": b"# a program",
        "truncated": content[:-200],
        "damaged": content.replace(b'"graph_module"', b'"graph_moduel"', 1),
    }
    for name, data in files.items():
        (folder / name.replace(" ", "_")).write_bytes(data)
    return {
        **{name: folder / name.replace(" ", "_") for name in files},
        "TorchScript": script,
        "checkpoint": checkpoint,
        "2.7 or older": zip_of(folder / "old.pt2", "serialized_exported_program.json", "version"),
        "Keras": zip_of(folder / "k.pt2", "config.json", "model.weights.h5"),
        "no .pt2 archive": zip_of(folder / "z.pt2", "a/b"),
        "does not exist": folder / "missing.pt2",
        "is a folder": folder,
    }


def nn_linear() -> torch.nn.Module:
    return torch.nn.Linear(2, 2)


def test_one_sentence_for_each_other_kind_of_file(whole: Path, tmp_path: Path) -> None:
    for said, path in other_files(tmp_path, whole).items():
        with pytest.raises(SourceModelError, match=said) as raised:
            read_program(path, trust_pickle=False)
        assert raised.value.next_step


def test_an_archive_of_another_version_is_no_traceback(whole: Path, tmp_path: Path) -> None:
    def change(one: Any) -> None:
        one["schema_version"] = {"major": 99, "minor": 0}

    with pytest.raises(SourceModelError, match="cannot read the program") as raised:
        read_program(with_program(whole, tmp_path / "a.pt2", change), trust_pickle=False)
    assert "Export the model again" in str(raised.value.next_step)


@pytest.mark.parametrize(
    "text",
    [
        "Mul(Integer(8), Symbol('s53', positive=True, integer=True))",
        "Add(Integer(-1), FloorDiv(Symbol('s0', integer=True), Integer(2)))",
        "L['y'].size()[0] == L['x'].size()[0]",
        "4 <= L['image'].size()[2] and L['image'].size()[2] <= 64",
        "s17",
        "Max(1, 2*s0)",
        "Float('1.5', precision=53)",
    ],
)
def test_what_exporters_write_is_plain_arithmetic(text: str) -> None:
    assert is_plain_arithmetic(text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('x')",
        "exec(chr(120))",
        "sympify('x')",
        "Symbol('x').__class__",
        "L['x'].size.__globals__",
        "(lambda: 1)()",
        "[1 for _ in (1,)]",
        "L['a\"); import os; (\"'].size()[0] == 1",
        "print",
        "1; 2",
        "Symbol(Symbol('a', integer='__import__'))",
        "(" * 400,
    ],
)
def test_anything_else_is_not(text: str) -> None:
    assert not is_plain_arithmetic(text)
