"""The data worker: `python -m phoneproof.data.materialize REQUEST.json`.

Request: Request below. It stores the set, runs the checks that belong to its subject, and answers with
Result. Progress: step `hash` or `write`.
"""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from phoneproof.data.checks.checked import CheckedSet
from phoneproof.data.checks.registry import run_checks
from phoneproof.data.materialization import Materialization, fingerprint, remember_fingerprint
from phoneproof.data.preprocessing import Preprocess
from phoneproof.data.set_specs import SetSpec, set_from_dict
from phoneproof.data.sets import open_set
from phoneproof.data.store import SampleStore
from phoneproof.data.store_writer import Progress, materialize
from phoneproof.data.subset import ALL, Part, chosen
from phoneproof.errors import ProtocolError
from phoneproof.findings import Finding
from phoneproof.protocol import codec
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import Progress as WorkProgress
from phoneproof.protocol.work import run_worker

REQUEST_VERSION: Final = 1
_PROGRESS_EVERY_S: Final = 0.1


@dataclass(frozen=True)
class Request:
    """REQUEST.json. set, preprocess: as `set_to_dict` and `Preprocess.to_dict` write them.

    root: the store. part: which samples of the set. evaluation_samples: folder of the stored evaluation set,
    for the overlap check of a calibration set.
    """

    version: int
    subject: Literal["calibration", "evaluation"]
    set: Any
    preprocess: Any
    inputs: tuple[TensorSpec, ...]
    root: str
    size_cap_bytes: int
    size_cap_key: str
    part: Part = ALL
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
    indices = chosen(labels, request.part, f"data.{request.subject}")
    written = False

    def seen(stage: str, done: int, total: int) -> None:
        nonlocal written
        written = written or stage == "write"
        progress(stage, done, total)

    store = materialize(opened, indices, target, seen)
    mark = fingerprint(spec, opened, indices, target)
    if mark is not None:
        remember_fingerprint(mark, target.root, store.digest)
    other = request.evaluation_samples
    evaluation = None if other is None else SampleStore.open(Path(other))
    findings = run_checks(CheckedSet(request.subject, store, evaluation, preprocess))
    skipped = len(store.stored.skipped)
    return Result(1, str(store.path), store.digest, store.count, skipped, not written, findings)


def work(request: Mapping[str, Any], folder: Path, progress: WorkProgress) -> Mapping[str, Any]:
    """See protocol/work.py. ProtocolError for a request of another version."""
    if request.get("version") != REQUEST_VERSION:
        raise ProtocolError("A request of another version.", where="$.version")
    last = -_PROGRESS_EVERY_S

    def report(stage: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if done == total or now - last >= _PROGRESS_EVERY_S:
            last = now
            progress.say(stage, done, total)

    answer: Mapping[str, Any] = codec.to_dict(carry_out(codec.from_dict(Request, dict(request)), report))
    return answer


if __name__ == "__main__":
    sys.exit(run_worker(work))
