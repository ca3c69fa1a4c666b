"""The files that a source model consists of."""

import hashlib
from pathlib import Path

from phoneproof.protocol.job import FileRef


def file_reference(path: Path, folder: Path) -> FileRef:
    """The file with its digest, its name relative to `folder`, or alone where it lies elsewhere."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name
    return FileRef(name, digest, path.stat().st_size)
