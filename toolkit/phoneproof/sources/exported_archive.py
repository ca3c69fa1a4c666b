"""Is this file a .pt2 archive, is it whole, and can it be read without running code out of it?

torch.export.load (2.13) runs code of an archive's author in more ways than one (torch/export/pt2_archive and
torch/_export/serde/serialize.py):

- pickles: sample inputs (weights_only first, but without it when that fails), weights and constants with
  `use_pickle`, custom and opaque objects, and the .pt records of older archives;
- shared libraries of AOTInductor, which it opens;
- symbolic lengths, which sympy.sympify gives to Python's eval;
- names of nodes and arguments, which are pasted into the source of the graph's forward and compiled;
- tree specs, whose contexts may name a module to import.

Only what an exporter writes is let through; a plan that trusts the file (trust_pickle) lets the rest pass.
"""

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from phoneproof.errors import SourceModelError
from phoneproof.sources.plain_arithmetic import is_plain_arithmetic

EXPORT_AGAIN: Final = "Export the model again with torch.export.save."

_OTHER_FILES: Final = (
    (b"version https://git-lfs", "a Git LFS pointer, not the model itself", "Run `git lfs pull`."),
    (b"\x89HDF", "an HDF5 file, such as a Keras model", EXPORT_AGAIN),
    (b"\x80\x02", "a pickle, such as an old PyTorch checkpoint", EXPORT_AGAIN),
)
_RECORDS: Final = re.compile(
    r"models/[^/]+\.json|data/(weights|constants|sample_inputs|extra|executorch)/.*"
    r"|archive_format|archive_version|byteorder|\.data/.*|\.format_version|\.storage_alignment|version"
)
_LIBRARIES: Final = "data/aotinductor/"

_TREE_KEYS: Final = frozenset({"in_spec", "out_spec"})
_IMPORTING: Final = ("default_factory_module", "__enum__")
_TABLE_KEYS: Final = frozenset(
    f"{kind}_values" for kind in ("tensor", "sym_int", "sym_bool", "sym_float", "custom_obj")
)
_IDENTIFIER: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_PATH: Final = r"""[^"'\\\x00-\x1f]*"""
_OPERATOR: Final = (
    rf"torch\.ops\.{_IDENTIFIER}\.{_IDENTIFIER}(\.{_IDENTIFIER})?|torch\._?sym_[a-z]+|math\.[a-z]+"
    r"|_operator\.(add|sub|mul|floordiv|truediv|mod|pow|neg|pos|abs|and_|or_|xor|lshift|rshift|not_"
    r"|eq|ne|lt|le|gt|ge|getitem)"
)
_PATTERNS: Final[Mapping[str, re.Pattern[str]]] = {
    **{key: re.compile(_IDENTIFIER) for key in ("name", "as_name", "arg_name", "forward_arg_names")},
    **{key: re.compile(_PATH) for key in ("fqn", "parameter_name", "buffer_name", "tensor_constant_name")},
    **{key: re.compile(_OPERATOR) for key in ("target", "as_operator")},
}
"""What the strings of a program look like, by key, where torch makes code of them."""


def check_archive(path: Path, trust_pickle: bool) -> None:
    """SourceModelError unless the file is a whole .pt2 archive of one program, safe to read or trusted."""
    if not path.is_file():
        what = "is a folder, not a .pt2 file" if path.is_dir() else "does not exist"
        raise SourceModelError(
            f"The source model {what}.", where=str(path), next_step="Correct the path of the model."
        )
    try:
        with path.open("rb") as file:
            _refuse_other_files(file.read(32), path)
        with zipfile.ZipFile(path) as archive:
            _check(archive, path, trust_pickle)
    except OSError as error:
        raise SourceModelError(
            f"The source model cannot be read: {error.strerror or error}.",
            where=str(path),
            next_step="Check the permissions of the file.",
        ) from error
    except (zipfile.BadZipFile, NotImplementedError, EOFError, KeyError) as error:
        # What zipfile raises for a damaged directory, an unknown compression, a short record, a missing one.
        _refuse(path, "damaged or truncated", "Copy the file again, or export the model again.", error)


def _check(archive: zipfile.ZipFile, path: Path, trust_pickle: bool) -> None:
    records = {name.partition("/")[2]: name for name in archive.namelist() if "/" in name}
    _refuse_other_archives(archive, records, path)
    roots = {name.partition("/")[0] for name in archive.namelist()}
    if len(roots) != 1 or len(records) != len(archive.namelist()):
        _refuse(path, "a zip file with records of more than one archive")
    programs = [name for name in records if re.fullmatch(r"models/.+\.json", name)]
    if len(programs) != 1:
        _refuse(path, f"an archive of {len(programs)} programs; phoneproof takes one", "Save one program.")
    broken = archive.testzip()
    if broken is not None:
        _refuse(path, f"damaged: {broken!r} does not have its checksum", "Copy the file again.")
    if trust_pickle:
        return
    for record, name in records.items():
        if record.startswith(_LIBRARIES):
            _refuse_unsafe(path, "compiled code (AOTInductor)")
        if _RECORDS.fullmatch(record) is None:
            _refuse_unsafe(path, f"a record of unknown kind, {record[:80]!r}")
        if record.endswith("_config.json"):
            _check_payloads(_json(archive, name, path), path)
        elif re.fullmatch(r"data/(weights|constants)/.*\.pt", record):
            _refuse_unsafe(path, f"a pickle, {record[:80]!r}, of an older version of torch")
    _check_program(_json(archive, records[programs[0]], path), path)


def _refuse_other_files(start: bytes, path: Path) -> None:
    if not start:
        _refuse(path, "empty")
    for magic, what, next_step in _OTHER_FILES:
        if start.startswith(magic):
            _refuse(path, what, next_step)
    if not start.startswith(b"PK"):
        _refuse(path, "not a .pt2 archive of torch.export")


def _refuse_other_archives(archive: zipfile.ZipFile, records: Mapping[str, str], path: Path) -> None:
    """One sentence for each other kind of zip file that people have."""
    if "serialized_exported_program.json" in archive.namelist():
        _refuse(path, "an exported program of torch 2.7 or older", EXPORT_AGAIN)
    if "constants.pkl" in records:
        what = "a TorchScript file, which has no program of torch.export"
        _refuse(path, what, "Export the torch.nn.Module that it was made of with torch.export.")
    if "data.pkl" in records:
        what = "a PyTorch checkpoint: weights without a program"
        step = "Name the function that makes the module as the model (`module:function`), this as its state."
        _refuse(path, what, step)
    if "config.json" in archive.namelist() and "model.weights.h5" in archive.namelist():
        _refuse(path, "a Keras model", "Give it as a model of format keras.")
    if not {"archive_format", "archive_version"} <= set(records):
        _refuse(path, "a zip file, but no .pt2 archive of torch.export")
    form = archive.read(records["archive_format"]).strip()
    if form != b"pt2":
        _refuse(path, f"an archive of format {form[:20]!r}, not pt2")


def _check_payloads(config: Any, path: Path) -> None:
    """The list of weights or constants: each raw numbers, none a pickle."""
    entries = config.get("config", {}) if isinstance(config, dict) else {}
    for name, entry in entries.items():
        file = str(entry.get("path_name", ""))
        if entry.get("use_pickle") or not re.fullmatch(r"(weight|tensor)_[0-9]+", file):
            _refuse_unsafe(path, f"the pickled object {str(name)[:80]!r}")


def _check_program(program: Any, path: Path) -> None:
    """Every string of the program that torch turns into code is what an exporter writes."""
    for key, text in _strings(program, ""):
        if key in {"expr_str", "guards_code"}:
            if not is_plain_arithmetic(text):
                _refuse_unsafe(path, f"the condition or length {text[:80]!r}, which is not plain arithmetic")
        elif key in _TREE_KEYS:
            if any(mark in text for mark in _IMPORTING):
                _refuse_unsafe(path, f"a structure of inputs or outputs that imports code, {text[:80]!r}")
            for name in _keys_of_trees(text):
                _check_text("name", name, path)
        elif key in _PATTERNS:
            _check_text(key, text, path)
        elif key == "as_custom_obj":
            _refuse_unsafe(path, "an object of a class of its own")


def _check_text(key: str, text: str, path: Path) -> None:
    if text and _PATTERNS[key].fullmatch(text) is None:
        _refuse_unsafe(path, f"the {key} {text[:80]!r}, which is not one that an exporter writes")


def _strings(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """(key, text) of each string, and of each key of a table of values; texts for people are left out."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, key)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name == "metadata":
                continue
            if key in _TABLE_KEYS:
                yield "name", name
            elif key == "range_constraints":
                yield "expr_str", name
            yield from _strings(item, name)


def _keys_of_trees(text: str) -> Iterator[str]:
    """Keys of the dicts in a tree spec; those of keyword arguments become names in the graph's forward."""
    try:
        tree = json.loads(text)
    except ValueError:
        return
    for key, context in _strings(tree, ""):
        if key == "context" and context.startswith("["):
            yield from (name for name in json.loads(context) if isinstance(name, str))


def _json(archive: zipfile.ZipFile, name: str, path: Path) -> Any:
    try:
        return json.loads(archive.read(name))
    except ValueError as error:
        _refuse(path, f"damaged: {name!r} is not JSON", EXPORT_AGAIN, error)


def _refuse(path: Path, what: str, next_step: str = EXPORT_AGAIN, cause: Exception | None = None) -> NoReturn:
    raise SourceModelError(f"The file is {what}.", where=str(path), next_step=next_step) from cause


def _refuse_unsafe(path: Path, what: str) -> NoReturn:
    raise SourceModelError(
        f"The archive holds {what}; reading it may run code.",
        where=str(path),
        next_step="Export the model again from code you know, or set trust_pickle = true if you trust it.",
    )
