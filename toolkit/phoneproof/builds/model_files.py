"""The files of a model that may be a folder (an mlpackage, a SavedModel), and its digest."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from phoneproof.protocol.job import FileRef


def model_files(path: Path) -> tuple[FileRef, ...]:
    """Every file of the model at `path`, sorted, names relative to the folder that holds the model."""
    if path.is_file():
        return (_reference(path, path.parent),)
    return tuple(_reference(file, path.parent) for file in sorted(path.rglob("*")) if file.is_file())


def model_sha256(path: Path) -> str:
    """Digest of a model: of the bytes of a file, of the sorted list of files of a folder."""
    files = model_files(path)
    return files[0].sha256 if path.is_file() else folder_sha256(files, path.name)


def folder_sha256(files: Iterable[FileRef], folder: str) -> str:
    """SHA-256 over the lines `path NUL sha256 LF`, sorted; paths are relative to the model's folder."""
    lines = [f"{file.name.removeprefix(f'{folder}/')}\0{file.sha256}\n" for file in files]
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


def _reference(path: Path, root: Path) -> FileRef:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileRef(path.relative_to(root).as_posix(), digest, path.stat().st_size)
