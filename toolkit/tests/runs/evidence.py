"""What two runs of one plan must have in common, and what a run's folder must look like at its end."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

from phoneproof.builds.model_files import model_sha256
from phoneproof.builds.store import Kind, Store
from phoneproof.runs.handed_over import read_manifest
from tests.runs.project import journal_of, report_of

OF_THE_CLOCK = frozenset({"HOST-BUSY"})
"""Findings that depend on what else the machine does."""

CHECKED_KINDS: Final[tuple[Kind, ...]] = ("builds", "ranges", "references", "facts")
"""Kinds of the store's entries; sample sets have a check of their own, and locks beside them."""

ALWAYS_MADE = frozenset({"inspect", "samples", "ranges", "build", "reference", "job"})


def comparable(run: Path) -> dict[str, Any]:
    """All of a report that does not depend on the clock: builds, parity, accuracy, verdicts, findings."""
    report = report_of(run)
    results = {
        json.dumps([r["configuration"], r["device"]["id"]], sort_keys=True): {
            key: r[key] for key in ("parity", "accuracy", "verdict", "outcomes", "size", "gates")
        }
        for r in report["results"]
    }
    builds = {
        b["build_id"]: {key: b[key] for key in ("status", "sha256", "size_bytes", "operators", "calibration")}
        for b in report["builds"]
    }
    findings = [finding for finding in report["findings"] if finding["id"] not in OF_THE_CLOCK]
    hashes = report["reproduce"]["hashes"]
    return {"builds": builds, "results": results, "findings": findings, "hashes": hashes}


def check_journal(run: Path, interruptions: int) -> None:
    """Nothing is lost, and nothing that was finished was done again."""
    lines = journal_of(run)
    assert lines[0].entry == "planned"
    assert lines[-1].entry == "run_finished"
    assert sum(line.entry == "resumed" for line in lines) <= interruptions
    ended = Counter((line.step, line.facts["key"]) for line in lines if line.entry == "step_finished")
    assert set(ended.values()) == {1}
    under_way: set[tuple[str | None, Any]] = set()
    done: set[tuple[str | None, Any]] = set()
    for line in lines:
        mark = (line.step, line.facts.get("key"))
        if line.entry == "step_started":
            assert mark not in done, f"{line.step} began again after its end"
            assert mark not in under_way, f"{line.step} began twice in one process"
            under_way.add(mark)
        elif line.entry == "step_finished":
            under_way.discard(mark)
            done.add(mark)
        elif line.entry == "resumed":
            under_way.clear()
    steps = lines[0].facts["steps"]
    assert isinstance(steps, tuple)
    assert {step for step, _ in done} == set(steps)
    assert {step.partition("/")[0] for step in steps} == ALWAYS_MADE


def check_folder(run: Path, store: Path) -> None:
    """No file is half written, in the run or in the store."""
    check_run(run)
    for kind in CHECKED_KINDS:
        for entry in (store / kind).glob("*"):
            assert Store(store).find(kind, entry.name) is not None, entry


def check_run(run: Path) -> None:
    """No file of a run is half written or damaged."""
    assert [str(path) for path in run.rglob("*") if path.name.endswith(".tmp")] == []
    for path in run.rglob("*.json"):
        json.loads(path.read_text(encoding="utf-8"))
    for path in run.rglob("*.jsonl"):
        assert path.read_bytes().endswith(b"\n")
    for path in run.glob("builds/**/build.json"):
        manifest = read_manifest(path.parent)
        assert model_sha256(path.parent / manifest.model_file) == manifest.sha256
