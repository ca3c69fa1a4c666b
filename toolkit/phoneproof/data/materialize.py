"""The data worker: `python -m phoneproof.data.materialize REQUEST.json`.

Reads the request, stores the set, runs the checks that belong to its subject, and writes `result.json`, or
`error.json` with exit code 1, into the request's `out` folder. Lines of standard output are JSON:
{"stage": "hash" or "write", "progress": done, "total": n}. Whatever a user's entry point prints goes to
standard error.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TextIO

from phoneproof.data.checks import CheckedSet, run_checks
from phoneproof.data.materialization import Materialization, fingerprint, remember_fingerprint
from phoneproof.data.preprocessing import Preprocess
from phoneproof.data.set_specs import SetSpec, set_from_dict
from phoneproof.data.sets import open_set
from phoneproof.data.store import SampleStore
from phoneproof.data.store_writer import Progress, materialize
from phoneproof.data.subset import choose_subset
from phoneproof.errors import PhoneproofError, ProtocolError
from phoneproof.findings import Finding
from phoneproof.protocol import codec
from phoneproof.protocol.tensors import TensorSpec

REQUEST_VERSION: Final = 1
_PROGRESS_EVERY_S: Final = 0.1


@dataclass(frozen=True)
class Subset:
    """At most n samples, stratified by label, by this seed."""

    n: int
    seed: int


@dataclass(frozen=True)
class Request:
    """REQUEST.json. set, preprocess: as `set_to_dict` and `Preprocess.to_dict` write them.

    out: folder for result.json or error.json. root: the store. evaluation_samples: folder of the stored
    evaluation set, for the overlap check of a calibration set.
    """

    version: int
    subject: Literal["calibration", "evaluation"]
    set: Any
    preprocess: Any
    inputs: tuple[TensorSpec, ...]
    root: str
    out: str
    size_cap_bytes: int
    size_cap_key: str
    subset: Subset | None = None
    evaluation_samples: str | None = None
    threads: int = 2


@dataclass(frozen=True)
class Result:
    """result.json. path: folder of the stored set. hit: it was there already."""

    version: int
    path: str
    digest: str
    count: int
    skipped: int
    hit: bool
    findings: tuple[Finding, ...]


def carry_out(request: Request, progress: Progress) -> Result:
    """Store the set that a request names and check it. Raises what `open_set` and `materialize` raise."""
    spec: SetSpec = set_from_dict(request.set, f"data.{request.subject}")
    preprocess = None
    if request.preprocess is not None:
        preprocess = Preprocess.from_dict(request.preprocess, "data.preprocess")
    target = Materialization(
        inputs=request.inputs,
        preprocess=preprocess,
        root=Path(request.root),
        size_cap_bytes=request.size_cap_bytes,
        cap_key=request.size_cap_key,
        threads=request.threads,
    )
    opened = open_set(spec, [tensor.name for tensor in request.inputs])
    labels = [entry.label for entry in opened.entries]
    indices = range(len(labels))
    chosen = (
        indices if request.subset is None else choose_subset(labels, request.subset.n, request.subset.seed)
    )
    written = False

    def seen(stage: str, done: int, total: int) -> None:
        nonlocal written
        written = written or stage == "write"
        progress(stage, done, total)

    store = materialize(opened, chosen, target, seen)
    mark = fingerprint(spec, opened, chosen, target)
    if mark is not None:
        remember_fingerprint(mark, target.root, store.digest)
    other = request.evaluation_samples
    evaluation = None if other is None else SampleStore.open(Path(other))
    findings = run_checks(CheckedSet(request.subject, store, evaluation))
    skipped = len(store.stored.skipped)
    return Result(1, str(store.path), store.digest, store.count, skipped, not written, findings)


def read_request(path: Path) -> Request:
    """ProtocolError for a request that is not JSON, of another version, or not what `Request` says."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ProtocolError(f"The request cannot be read: {error}", where=str(path)) from error
    if not isinstance(content, dict) or content.get("version") != REQUEST_VERSION:
        raise ProtocolError("A request of another version.", where=str(path))
    return codec.from_dict(Request, content)


def error_dict(error: PhoneproofError) -> dict[str, Any]:
    """error.json: class, what, where, next_step, facts."""
    return {
        "class": type(error).__name__,
        "what": error.what,
        "where": error.where,
        "next_step": error.next_step,
        "facts": codec.to_dict(error.facts),
    }


def _write(path: Path, content: object) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(codec.to_dict(content), file, ensure_ascii=True, allow_nan=False, indent=1)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


@contextmanager
def _events() -> Iterator[TextIO]:
    """Standard output for progress alone; what else is printed, by native code too, goes to stderr."""
    sys.stdout.flush()
    private = os.dup(1)
    os.dup2(2, 1)
    try:
        with os.fdopen(os.dup(private), "w", encoding="utf-8", buffering=1) as events:
            yield events
    finally:
        sys.stdout.flush()
        os.dup2(private, 1)
        os.close(private)


def main(arguments: list[str]) -> int:
    """Carry out the request named by the one argument. 0 done, 1 error.json written, 2 wrong usage."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m phoneproof.data.materialize REQUEST.json\n")
        return 2
    path = Path(arguments[0])
    out = path.parent
    try:
        request = read_request(path)
        out = Path(request.out)
        out.mkdir(parents=True, exist_ok=True)
        for answer in ("result.json", "error.json"):  # of an earlier attempt
            (out / answer).unlink(missing_ok=True)
        with _events() as events:
            result = carry_out(request, _reporter(events))
    except PhoneproofError as error:
        _write(out / "error.json", error_dict(error))
        return 1
    _write(out / "result.json", result)
    return 0


def _reporter(events: TextIO) -> Progress:
    """Writes a line at most every tenth of a second, and the last of each stage always."""
    last = -_PROGRESS_EVERY_S

    def report(stage: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if done == total or now - last >= _PROGRESS_EVERY_S:
            last = now
            events.write(json.dumps({"stage": stage, "progress": done, "total": total}) + "\n")

    return report


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
