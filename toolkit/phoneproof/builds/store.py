"""The user's store: finished work under its cache key, shared by all runs.

`PHONEPROOF_STORE`, or the user's cache folder. An entry appears whole or not at all: it is made in a staging
folder and renamed. Builds, sample sets, ranges and reference outputs are kept here; latencies never are.
"""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from filelock import FileLock, Timeout

from phoneproof.errors import BusyError, StorageError

STORE_VARIABLE: Final = "PHONEPROOF_STORE"
Kind = Literal["builds", "ranges", "references", "samples", "facts", "demo"]
KINDS: Final[tuple[Kind, ...]] = ("builds", "ranges", "references", "samples", "facts", "demo")


@dataclass(frozen=True)
class StoreEntry:
    """What prune and doctor show: one entry, its size and when it was last used (seconds since 1970)."""

    kind: str
    key: str
    size_bytes: int
    last_used: float


def default_store() -> Path:
    """The store's folder: PHONEPROOF_STORE, else below XDG_CACHE_HOME, else ~/.cache/phoneproof."""
    chosen = os.environ.get(STORE_VARIABLE)
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "phoneproof"


def cache_key(parts: Mapping[str, object]) -> str:
    """sha256 over the canonical JSON of all that decides a result."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class Store:
    """A store on this disk. Safe for several threads and processes."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, kind: Kind, key: str) -> Path | None:
        """The folder of an entry, marked as used now; None if there is none."""
        folder = self.root / kind / key
        if not folder.is_dir():
            return None
        with contextlib.suppress(OSError):
            os.utime(folder)
        return folder

    @contextlib.contextmanager
    def locked(self, kind: Kind, key: str, timeout_s: float = 3_600.0) -> Iterator[None]:
        """Hold the lock of a key, so that two runs do not make the same entry. BusyError after timeout_s."""
        lock = self.root / "locks" / f"{kind}-{key}.lock"
        with storage_errors(self.root):
            lock.parent.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(lock, timeout=timeout_s):
                yield
        except Timeout:
            raise BusyError(
                "Another phoneproof has been making the same thing for too long.",
                where=str(lock),
                next_step="Wait for it or end it.",
            ) from None

    @contextlib.contextmanager
    def staging(self, kind: Kind, key: str) -> Iterator[Path]:
        """A new folder to fill; it becomes the entry when the block ends without an error.

        StorageError when the disk is full or read-only; nothing is left behind.
        """
        folder = self.root / "staging" / uuid.uuid4().hex
        with storage_errors(self.root):
            folder.mkdir(parents=True)
            try:
                yield folder
                self._publish(folder, self.root / kind / key)
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def discard(self, kind: Kind, key: str) -> None:
        """Remove an entry that turned out to be damaged."""
        folder = self.root / kind / key
        grave = self.root / "staging" / uuid.uuid4().hex
        grave.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            folder.rename(grave)
        shutil.rmtree(grave, ignore_errors=True)

    def entries(self) -> tuple[StoreEntry, ...]:
        """All entries, least recently used first."""
        found = []
        for kind in KINDS:
            for folder in sorted((self.root / kind).glob("*")):
                if folder.is_dir():
                    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
                    found.append(StoreEntry(kind, folder.name, size, folder.stat().st_mtime))
        return tuple(sorted(found, key=lambda entry: entry.last_used))

    def prune(self, keep_bytes: int, unused_for_s: float = 0.0) -> tuple[StoreEntry, ...]:
        """Remove least recently used entries until at most keep_bytes are left; what was removed.

        Entries used within unused_for_s stay. Runs keep their own links, so no run loses a file.
        """
        entries = self.entries()
        total = sum(entry.size_bytes for entry in entries)
        removed = []
        for entry in entries:
            if total <= keep_bytes:
                break
            if time.time() - entry.last_used < unused_for_s:
                continue
            shutil.rmtree(self.root / entry.kind / entry.key, ignore_errors=True)
            total -= entry.size_bytes
            removed.append(entry)
        return tuple(removed)

    def _publish(self, folder: Path, target: Path) -> None:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                _sync(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            folder.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return
        _sync(target.parent)


def link_folder(source: Path, target: Path) -> None:
    """Put a copy of a folder at `target`, by hard links where the disk allows it; appears whole."""
    if target.exists():
        return
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
    with storage_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copytree(source, temporary, copy_function=_link_or_copy)
            temporary.rename(target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def storage_errors(folder: Path) -> Iterator[None]:
    """Turn what a disk can refuse into a StorageError that names the folder and the way out."""
    try:
        yield
    except OSError as error:
        advice = {
            errno.ENOSPC: "Free some space on that disk and run the same command again.",
            errno.EDQUOT: "Free some of your quota and run the same command again.",
            errno.EROFS: "Choose a folder that can be written (--out, PHONEPROOF_STORE).",
            errno.EACCES: "Choose a folder that you may write to (--out, PHONEPROOF_STORE).",
            errno.EPERM: "Choose a folder that you may write to (--out, PHONEPROOF_STORE).",
        }
        if error.errno not in advice:
            raise
        where = str(error.filename or folder)
        raise StorageError(
            f"{os.strerror(error.errno)}.", where=where, next_step=advice[error.errno]
        ) from error


def _link_or_copy(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
            raise
        shutil.copy2(source, target)
    return target


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
