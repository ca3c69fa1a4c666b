"""The source model on its edge inputs: what builds are compared with there, and what it does not survive."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from phoneproof.builds.store import cache_key
from phoneproof.errors import PhoneproofError
from phoneproof.jobs.planning import Placement, PlannedJob, RunnableBuild, plan_edge_job
from phoneproof.plan.model import Plan
from phoneproof.protocol.attempts import BadEnd, case_ends
from phoneproof.protocol.codec import from_dict, to_dict
from phoneproof.protocol.work import write_atomically
from phoneproof.recipes.runtime_table import READER_OF
from phoneproof.runs.audit import Audit, AuditedModel
from phoneproof.runs.building import STOPS_THE_RUN
from phoneproof.runs.edge_inputs import Edges, ModelEdges
from phoneproof.runs.hosts import SOURCE_RUNTIME, Hosts
from phoneproof.runs.job_inputs import JobInputs
from phoneproof.runs.planned import edge_reference_job_step, edge_reference_step
from phoneproof.runs.steps import RunContext
from phoneproof.runs.verifying import (
    limits_of,
    reference_key,
    run_job,
    source_files,
    source_options,
)
from phoneproof.verify.edge_outputs import bad_ends

ENDS_FILE: Final = "ends.json"
_KEPT: Final = frozenset({"passed", "failed"})
"""An error that a network raises is what it does with that input; a crash may be the machine's, so the next
run tries again."""


@dataclass(frozen=True)
class EdgeReference:
    """outputs: file of each set's label. bad: by label, the samples without an output, and why.

    error: why nothing was run at all.
    """

    outputs: Mapping[str, Path] = field(default_factory=dict)
    bad: Mapping[str, Mapping[int, BadEnd]] = field(default_factory=dict)
    error: PhoneproofError | None = None


def run_edge_references(
    context: RunContext, plan: Plan, audit: Audit, hosts: Hosts, edges: Edges
) -> dict[str, EdgeReference]:
    """What every source model does with its edge inputs, out of the store or by a job on the host."""
    found: dict[str, EdgeReference] = {}
    for key, model_edges in edges.items():
        try:
            found[key] = _reference(context, plan, audit.models[key], hosts, model_edges)
        except STOPS_THE_RUN:
            raise
        except PhoneproofError as error:
            found[key] = EdgeReference(error=error)
    return found


def _reference(
    context: RunContext, plan: Plan, model: AuditedModel, hosts: Hosts, edges: ModelEdges
) -> EdgeReference:
    if not edges.source:
        return EdgeReference()
    key = model.section.key
    host = hosts.of(READER_OF[model.section.format])
    step = edge_reference_step(key)
    samples = {one.label: one.digest for one in edges.source}
    store_key = cache_key({"reference": reference_key(plan, model, host), "edge": samples})
    own = context.folder.work(step) / "outputs"

    def fill(staging: Path) -> None:
        planned, outputs, bad = _job(context, plan, model, hosts, edges)
        for case in planned.cases:
            if case.case_id in outputs:
                shutil.copyfile(outputs[case.case_id], staging / f"{case.edge}.bin")
        write_atomically(staging / ENDS_FILE, json.dumps(bad, allow_nan=False))

    def copy(staging: Path) -> None:
        shutil.copytree(own, staging, dirs_exist_ok=True)

    def make() -> tuple[dict[str, Any], str]:
        if context.store.find("references", store_key) is not None:
            return {"stored": True}, "hit"
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir(parents=True)
        fill(own)
        if not _may_be_kept(_read(own)):
            return {"stored": False}, "made"
        _, how = context.from_store("references", store_key, copy)
        return {"stored": True}, how

    outcome = context.step(step, store_key, make)
    if not outcome["stored"]:
        return _read(own)
    return _read(context.stored("references", store_key, make))


def _job(
    context: RunContext, plan: Plan, model: AuditedModel, hosts: Hosts, edges: ModelEdges
) -> tuple[PlannedJob, Mapping[str, Path], dict[str, Any]]:
    """The job of one source model: its plan, output files by case, and bad ends by label and sample."""
    key = model.section.key
    step = edge_reference_step(key)
    inputs = JobInputs(plan, context.folder.work(step))
    sets = {one.label: inputs.set_for(one.open(), model.facts.inputs) for one in edges.source}
    files = source_files(context, step, model, inputs)
    first = next(iter(sets.values()))
    build = RunnableBuild(f"{key}/source", SOURCE_RUNTIME, files, first, None, source_options(model), sets)
    planned = plan_edge_job(build, Placement("cpu", False, 1), limits_of(plan))
    host = hosts.of(READER_OF[model.section.format])
    results = run_job(context, edge_reference_job_step(key), host.device, planned, inputs.files)
    ends = case_ends(planned.job, results.events)
    bad: dict[str, Any] = {}
    for case in planned.cases:
        if case.edge is not None:
            listed = bad_ends(ends[case.case_id], sets[case.edge].count)
            bad[case.edge] = {str(sample): to_dict(one) for sample, one in listed.items()}
    return planned, results.outputs, bad


def _read(folder: Path) -> EdgeReference:
    bad = json.loads((folder / ENDS_FILE).read_text(encoding="utf-8"))
    ends = {
        label: {int(sample): from_dict(BadEnd, end) for sample, end in listed.items()}
        for label, listed in bad.items()
    }
    outputs = {label: folder / f"{label}.bin" for label in ends}
    return EdgeReference({label: file for label, file in outputs.items() if file.exists()}, ends)


def _may_be_kept(found: EdgeReference) -> bool:
    return all(bad.outcome in _KEPT for listed in found.bad.values() for bad in listed.values())
