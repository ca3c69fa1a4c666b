"""The user's store: finished work under its cache key, shared by all runs.

`PHONEPROOF_STORE`, or the user's cache folder. An entry appears whole or not at all: it is made in a staging
folder and renamed. It holds the digests of its files, and a changed one is no entry. Builds, sample sets,
ranges and reference outputs are kept here; latencies never are.
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
from threading import Event
from typing import Final, Literal

from filelock import FileLock, Timeout

from phoneproof.errors import BusyError, Interrupted, StorageError
from phoneproof.protocol.work import write_atomically

DIGESTS_FILE: Final = "sha256.json"
"""In every entry: inner path and sha256 of each of its files."""

STORE_VARIABLE: Final = "PHONEPROOF_STORE"
Kind = Literal["builds", "exports", "ranges", "references", "samples", "facts", "demo"]
KINDS: Final[tuple[Kind, ...]] = ("builds", "exports", "ranges", "references", "samples", "facts", "demo")
EnvironmentKind = Literal["toolchain"]
ENVIRONMENTS: Final = "toolchains"
"""Folder of the managed environments, beside the entries. They are installed by command and not pruned."""

_LOCK_POLL_S: Final = 0.2
STAGING: Final = "staging"
ABANDONED_S: Final = 86_400.0
"""A staging folder of this age belongs to a process that was killed: no step takes a day."""


@dataclass(frozen=True)
class StoreEntry:
    """What is listed: an entry or a managed environment, its size and when it was last used (since 1970)."""

    kind: Kind | EnvironmentKind
    key: str
    size_bytes: int
    last_used: float


def default_store() -> Path:
    """The store's folder: PHONEPROOF_STORE, else below XDG_CACHE_HOME, else ~/.cache/phoneproof; absolute."""
    chosen = os.environ.get(STORE_VARIABLE)
    if chosen:
        return Path(chosen).absolute()
    return (Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "phoneproof").absolute()


def cache_key(parts: Mapping[str, object]) -> str:
    """sha256 over the canonical JSON of all that decides a result."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class Store:
    """A store on this disk. Safe for several threads and processes."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()  # workers are told paths in it, and run in folders of their own

    def find(self, kind: Kind, key: str) -> Path | None:
        """The folder of an entry, marked as used now; None if there is none, or a damaged one."""
        folder = self.look_up(kind, key)
        if folder is None:
            return None
        with contextlib.suppress(OSError):
            os.utime(folder)
        return folder

    def look_up(self, kind: Kind, key: str) -> Path | None:
        """As find, but nothing is marked: for who only wants to know."""
        folder = self.root / kind / key
        return folder if _is_sound(folder) else None

    @contextlib.contextmanager
    def locked(
        self, kind: Kind, key: str, timeout_s: float = 3_600.0, stop: Event | None = None
    ) -> Iterator[None]:
        """Hold the lock of a key, so that two runs do not make the same entry.

        BusyError after timeout_s, Interrupted once `stop` is set.
        """
        path = self.root / "locks" / f"{kind}-{key}.lock"
        # A lock of its own for each call: threads of one process exclude each other too.
        lock = FileLock(path, timeout=_LOCK_POLL_S, is_singleton=False)
        with storage_errors(self.root):
            path.parent.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + timeout_s
        while not lock.is_locked:
            if stop is not None and stop.is_set():
                raise Interrupted("The run was stopped.")
            try:
                with storage_errors(self.root):
                    lock.acquire()
            except Timeout:
                if time.monotonic() > deadline:
                    raise BusyError(
                        "Another phoneproof has been making the same thing for too long.",
                        where=str(path),
                        next_step="Wait for it or end it.",
                    ) from None
        try:
            yield
        finally:
            lock.release()

    @contextlib.contextmanager
    def staging(self, kind: Kind, key: str) -> Iterator[Path]:
        """A new folder to fill; it becomes the entry when the block ends without an error.

        StorageError when the disk is full or read-only; nothing is left behind.
        """
        folder = self.root / STAGING / uuid.uuid4().hex
        with storage_errors(self.root):
            folder.mkdir(parents=True)
            try:
                yield folder
                self._publish(folder, self.root / kind / key)
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def discard(self, kind: Kind, key: str) -> None:
        """Remove an entry that turned out to be damaged. It goes at once: no reader finds half of it.

        StorageError where the disk refuses.
        """
        self._remove(self.root / kind / key)

    def _remove(self, folder: Path) -> None:
        grave = self.root / STAGING / uuid.uuid4().hex
        with storage_errors(self.root), contextlib.suppress(FileNotFoundError):
            grave.parent.mkdir(parents=True, exist_ok=True)
            folder.rename(grave)
        shutil.rmtree(grave, ignore_errors=True)

    def open_for_writing(self) -> None:
        """Make the store's folder. StorageError if it cannot be made or written to."""
        step = f"Set {STORE_VARIABLE} to a folder that can be written."
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            # Any refusal: /proc, for one, has no such file where another place says that it is read-only.
            what = f"The store's folder cannot be made: {os.strerror(error.errno or 0)}."
            raise StorageError(what, where=str(self.root), next_step=step) from error
        if not os.access(self.root, os.W_OK | os.X_OK):
            raise StorageError("The store cannot be written to.", where=str(self.root), next_step=step)
        with storage_errors(self.root):
            self._sweep()

    def entries(self) -> tuple[StoreEntry, ...]:
        """All entries, least recently used first."""
        found = [entry for kind in KINDS for entry in _listed(self.root / kind, kind)]
        return tuple(sorted(found, key=lambda entry: entry.last_used))

    def environments(self) -> tuple[StoreEntry, ...]:
        """The managed environments of toolchains, which `prune` leaves alone."""
        return tuple(_listed(self.root / ENVIRONMENTS, "toolchain"))

    def prune(self, keep_bytes: int, unused_for_s: float = 0.0) -> tuple[StoreEntry, ...]:
        """Remove least recently used entries until at most keep_bytes are left; what was removed.

        Entries used within unused_for_s stay. Runs have builds by links of their own; samples and references
        that a run under way still reads are made again. What a killed process left half made goes too, once
        it is a day old. StorageError where the disk refuses.
        """
        self._sweep()
        entries = self.entries()
        total = sum(entry.size_bytes for entry in entries)
        removed = []
        for entry in entries:
            if total <= keep_bytes:
                break
            if time.time() - entry.last_used < unused_for_s:
                continue
            self._remove(self.root / entry.kind / entry.key)
            total -= entry.size_bytes
            removed.append(entry)
        return tuple(removed)

    def _sweep(self) -> None:
        left = [path for kind in KINDS for path in (self.root / kind).glob(".*")]
        for folder in [*(self.root / STAGING).glob("*"), *left]:
            with contextlib.suppress(FileNotFoundError):
                if time.time() - folder.stat().st_mtime > ABANDONED_S:
                    shutil.rmtree(folder, ignore_errors=True)

    def _publish(self, folder: Path, target: Path) -> None:
        write_atomically(folder / DIGESTS_FILE, json.dumps(_digests(folder)))
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


def _listed(folder: Path, kind: Kind | EnvironmentKind) -> Iterator[StoreEntry]:
    for entry in sorted(folder.glob("*")):
        # Another process may discard an entry while it is looked at. Dots are sets being written.
        with contextlib.suppress(FileNotFoundError):
            if entry.is_dir() and not entry.name.startswith("."):
                size = sum(f.stat().st_size for f in entry.rglob("*") if f.is_file())
                yield StoreEntry(kind, entry.name, size, entry.stat().st_mtime)


def link_folder(source: Path, target: Path) -> None:
    """Put a copy of a folder at `target`, by hard links where the disk allows it; appears whole."""
    if target.exists():
        return
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
    with storage_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.mkdir()
            for path in sorted(p for p in source.rglob("*") if p != source / DIGESTS_FILE):
                inner = temporary / path.relative_to(source)
                if path.is_dir():
                    inner.mkdir()
                else:
                    _link_or_copy(path, inner)
            temporary.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
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
            errno.EROFS: "Choose a place that can be written to (--out, -p, PHONEPROOF_STORE).",
            errno.EACCES: "Choose a place that you may write to (--out, -p, PHONEPROOF_STORE).",
            errno.EPERM: "Choose a place that you may write to (--out, -p, PHONEPROOF_STORE).",
            errno.ENOTDIR: "A file is in the way: choose another folder (--out, PHONEPROOF_STORE).",
            errno.EEXIST: "A file is in the way: choose another folder (--out, PHONEPROOF_STORE).",
        }
        if error.errno not in advice:
            raise
        # A file under its temporary name tells a user nothing.
        where = str(folder if str(error.filename or ".tmp").endswith(".tmp") else error.filename)
        raise StorageError(
            f"{os.strerror(error.errno)}.", where=where, next_step=advice[error.errno]
        ) from error


def _digests(folder: Path) -> dict[str, str]:
    """sha256 of each file of an entry by its inner path, without the file that holds them."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path != folder / DIGESTS_FILE:
            with path.open("rb") as file:
                found[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _is_sound(folder: Path) -> bool:
    try:
        noted = json.loads((folder / DIGESTS_FILE).read_text(encoding="utf-8"))
        return bool(noted == _digests(folder))
    except (OSError, ValueError):
        return False


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
            raise
        shutil.copy2(source, target)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
