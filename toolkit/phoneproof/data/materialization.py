"""The request to store a set, and the name it gets: a digest of all that decides the stored bytes."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import PIL
from PIL import features

from phoneproof.data.preprocessing import Preprocess, canonical_json
from phoneproof.data.samples import Entry, SampleSet
from phoneproof.data.set_specs import EntryPoint, SetSpec, set_to_dict
from phoneproof.data.shard_writer import storage_errors
from phoneproof.data.store import SAMPLES_FILE
from phoneproof.protocol import codec
from phoneproof.protocol.tensors import TensorSpec

REVISION: Final = 1
"""Part of every digest: raised when the same declaration begins to give other bytes."""

SHARD_BYTES: Final = 64 * 1024 * 1024

FINGERPRINTS: Final = "fingerprints"
"""Folder of the store with what `remember_fingerprint` notes; no set, so not among the sets."""


@dataclass(frozen=True)
class Materialization:
    """What is to be stored, and where.

    inputs: tensors of the model, as the stored values shall have them; with a preprocess exactly one.
    root: folder of the user-wide store. size_cap_bytes: most bytes of this set; cap_key: the plan's key for
    it, named in the error. threads: image decoders at work.
    """

    inputs: tuple[TensorSpec, ...]
    preprocess: Preprocess | None
    root: Path
    size_cap_bytes: int
    cap_key: str = "data.size_cap"
    threads: int = 2
    shard_bytes: int = SHARD_BYTES
    lock_timeout_s: float = 600.0


def store_digest(
    entries: Sequence[Entry],
    digests: Sequence[str | None],
    class_names: tuple[str, ...] | None,
    target: Materialization,
) -> str:
    """sha256 over everything that decides the stored bytes: samples and their contents, class names, the
    pixels' pipeline or the inputs' dtypes and parameters, decoder versions, and the revision of this code."""
    preprocess = target.preprocess
    content = {
        "revision": REVISION,
        "samples": [[e.id, e.label, d] for e, d in zip(entries, digests, strict=True)],
        "class_names": class_names,
        "geometry": None if preprocess is None else preprocess.geometry(),
        "inputs": [t.name if preprocess is not None else codec.to_dict(t) for t in target.inputs],
        "decoder": decoder_version() if preprocess is not None else None,
    }
    return hashlib.sha256(canonical_json(content)).hexdigest()


def decoder_version() -> str:
    """Pillow and its codecs: another libjpeg may decode a file to other levels."""
    parts = [f"Pillow {PIL.__version__}"]
    for codec_name in ("jpg", "webp", "avif", "jpg_2000"):
        if features.check(codec_name):
            parts.append(f"{codec_name} {features.version(codec_name)}")
    return ", ".join(parts)


def fingerprint(
    spec: SetSpec, opened: SampleSet, indices: Sequence[int], target: Materialization
) -> str | None:
    """A cheap stand-in for the digest: size and modification time instead of content. None for a set that
    a function gives, of which nothing can be told without calling it."""
    if isinstance(spec, EntryPoint):
        return None
    paths = getattr(opened, "paths", None)
    files = [Path(spec.path)] if paths is None else [paths[i] for i in indices]
    declared = {"set": set_to_dict(spec), "indices": list(indices), "files": [_mark(f) for f in files]}
    rest = store_digest(
        [opened.entries[i] for i in indices], [None] * len(indices), opened.class_names, target
    )
    return hashlib.sha256(canonical_json([declared, rest])).hexdigest()


def _mark(file: Path) -> tuple[str, int | None, int | None]:
    """Path, size and time of a file; of one that is not there, a broken sample, the path alone."""
    try:
        status = file.stat()
    except (OSError, ValueError):  # ValueError: a name with a NUL, as the row of a CSV file can hold it
        return str(file), None, None
    return str(file), status.st_size, status.st_mtime_ns


def probable_digest(mark: str, root: Path) -> str | None:
    """The digest that a set with this `fingerprint` had when it was last materialised, if it is still stored.

    Good for a dry run only: a file can change without changing its size and time.
    """
    try:
        digest = (root / FINGERPRINTS / mark).read_text("ascii").strip()
    except (OSError, ValueError):
        return None
    return digest if (root / "samples" / digest / SAMPLES_FILE).is_file() else None


def remember_fingerprint(mark: str, root: Path, digest: str) -> None:
    """Note for `probable_digest` what a fingerprint stood for. Raises StorageError."""
    path = root / FINGERPRINTS / mark
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{mark}.{secrets.token_hex(4)}")
        temporary.write_text(digest + "\n", "ascii")
        temporary.replace(path)
