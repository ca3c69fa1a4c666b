"""The first stage: what the source models are, the sample sets, and what the checks find in them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from phoneproof.builds.source_facts import SourceFacts
from phoneproof.builds.store import Store, cache_key
from phoneproof.data.materialization import Materialization, fingerprint
from phoneproof.data.set_specs import EntryPoint, set_to_dict
from phoneproof.data.sets import open_set
from phoneproof.data.store import SampleStore
from phoneproof.data.subset import Part, chosen
from phoneproof.devices.job_folder import sha256_of
from phoneproof.errors import DataError, StorageError
from phoneproof.findings import Finding, blocking, waive
from phoneproof.plan.data_section import DeclaredSet, Role
from phoneproof.plan.model import Plan
from phoneproof.plan.sections import ModelSection
from phoneproof.protocol.codec import from_dict, to_dict
from phoneproof.protocol.job import FileRef
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.table import SourceFormat
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.runs.planned import inspect_step, samples_step
from phoneproof.runs.scoring import ScoredOutput, check_labels, class_findings, scored_output
from phoneproof.runs.steps import RunContext
from phoneproof.runs.wanted import model_key
from phoneproof.workers.environments import environment_of

READER_OF: Final[Mapping[SourceFormat, str]] = {SourceFormat.ONNX: "onnxruntime"}
"""The toolchain whose environment can read a source model of each format."""

SIZE_CAP_KEY: Final = "data.max_gb"
FACTS_FILE: Final = "facts.json"


@dataclass(frozen=True)
class StoredSamples:
    """A sample set in the store."""

    path: Path
    digest: str
    count: int
    findings: tuple[Finding, ...]

    def open(self) -> SampleStore:
        """Access to the samples."""
        return SampleStore.open(self.path)


@dataclass(frozen=True)
class AuditedModel:
    """A source model with its sets.

    judged_on: the evaluation set; None where the plan names none, which is enough to build.
    calibration: None where no build of the plan uses it. scored: what built-in metrics score; None without.
    """

    section: ModelSection
    path: Path
    facts: SourceFacts
    judged_on: StoredSamples | None
    calibration: StoredSamples | None
    scored: ScoredOutput | None

    @property
    def evaluation(self) -> StoredSamples:
        """The evaluation set. DataError where the plan names none."""
        if self.judged_on is None:
            raise _names_none("evaluation")
        return self.judged_on

    @property
    def source_request(self) -> dict[str, Any]:
        """How worker requests name this source."""
        return {
            "format": self.section.format.value,
            "path": str(self.path),
            "sha256": self.facts.sha256,
            "shapes": {name: list(shape) for name, shape in self.section.shapes.items()},
        }


@dataclass(frozen=True)
class Audit:
    """What the audit found; findings with the plan's waivers applied."""

    models: Mapping[str, AuditedModel]
    findings: tuple[Finding, ...]


def audit(context: RunContext, plan: Plan) -> Audit:
    """Inspect every model and store its sets.

    PlanError where a metric does not fit a model; DataError if labels do not, or if a severe finding is not
    waived.
    """
    models: dict[str, AuditedModel] = {}
    findings: list[Finding] = []
    for section in plan.models:
        model = _audit_model(context, plan, section)
        models[model_key(section)] = model
        findings += [f for s in (model.judged_on, model.calibration) if s is not None for f in s.findings]
        if model.judged_on is not None:
            findings += class_findings(model_key(section), model.scored, model.judged_on.open().stored)
    waived = waive(_once(findings), plan.gates.waive)
    for finding in waived:
        context.observer.found(finding)
    stopping = blocking(waived)
    if stopping:
        ids = tuple(sorted({finding.id for finding in stopping}))
        raise DataError(
            f"The data cannot be used as they are: {', '.join(ids)}.",
            where=", ".join(sorted({finding.subject for finding in stopping})),
            next_step=f"Mend the data, or accept it with [gates] waive = {list(ids)}.",
            **{f"{f.subject} {f.id} {name}": value for f in stopping for name, value in f.facts.items()},
        )
    return Audit(models, waived)


def inspection_key(plan: Plan, section: ModelSection) -> str:
    """Key of a model's inspection, by size and time of its files: the inspection itself hashes them."""
    path = plan.locate(section.source)
    shapes = {name: list(shape) for name, shape in section.shapes.items()}
    status = path.stat()
    mark = [status.st_size, status.st_mtime_ns]
    return cache_key({"path": str(path), "mark": mark, "shapes": shapes})


def stored_facts(store: Store, inspection: str) -> dict[str, Any] | None:
    """What an inspection of that key found before; for a dry run, since it goes by size and time."""
    entry = store.look_up("facts", inspection)
    if entry is None:
        return None
    found: dict[str, Any] = json.loads((entry / FACTS_FILE).read_text(encoding="utf-8"))
    return found


def _remember_facts(store: Store, inspection: str, facts: Mapping[str, Any]) -> None:
    store.discard("facts", inspection)
    with store.staging("facts", inspection) as folder:
        (folder / FACTS_FILE).write_text(json.dumps(facts), encoding="utf-8")


def _audit_model(context: RunContext, plan: Plan, section: ModelSection) -> AuditedModel:
    path = plan.locate(section.source)
    key = model_key(section)
    request = {
        "format": section.format.value,
        "path": str(path),
        "shapes": {name: list(shape) for name, shape in section.shapes.items()},
    }
    step = inspect_step(key)
    inspection = inspection_key(plan, section)

    def inspect() -> tuple[dict[str, Any], str]:
        where = environment_of(TOOLCHAINS[READER_OF[section.format]], context.store.root)
        found = context.call(
            step, "phoneproof.sources.inspect", request, where.interpreter, where.python_path
        )
        _remember_facts(context.store, inspection, found)
        return found, "made"

    facts = from_dict(SourceFacts, dict(context.step(step, inspection, inspect)))
    if not _are_there(facts.files[1:], path.parent.resolve()):
        facts = from_dict(SourceFacts, inspect()[0])
    scored = scored_output(plan, facts.outputs)
    evaluation = None
    if plan.declared_set("evaluation") is not None:
        step = samples_step("evaluation", key)
        evaluation = store_samples(context, plan, "evaluation", facts.inputs, step)
        check_labels(plan, scored, evaluation.open().stored)
    static = any(b.recipe.needs_calibration and b.model == section for b in plan.planned_builds())
    calibration = None
    if static:
        step = samples_step("calibration", key)
        other = None if evaluation is None else evaluation.path
        calibration = store_samples(context, plan, "calibration", facts.inputs, step, other)
    return AuditedModel(section, path, facts, evaluation, calibration, scored)


def _are_there(files: Sequence[FileRef], folder: Path) -> bool:
    """Whether files with external data are as inspected; the step's key is of the model file alone."""
    paths = [folder / file.name for file in files]
    return all(p.is_file() and sha256_of(p) == f.sha256 for p, f in zip(paths, files, strict=True))


def store_samples(
    context: RunContext,
    plan: Plan,
    role: Role,
    inputs: tuple[TensorSpec, ...],
    step: str,
    evaluation: Path | None = None,
) -> StoredSamples:
    """Put a set of the plan into the store by a data worker, or find it there.

    evaluation: the stored evaluation set, for the overlap check of a calibration set.
    """
    request = samples_request(plan, role, inputs, context.store.root, evaluation)
    declared = plan.declared_set(role)
    python_path = (Path(declared.spec.folder),) if declared and isinstance(declared.spec, EntryPoint) else ()
    key = samples_key(request, set_mark(plan, role, inputs, context.store.root))

    def make() -> tuple[dict[str, Any], str]:
        answer = context.call(step, "phoneproof.data.materialize", request, python_path=python_path)
        return answer, "hit" if answer["hit"] else "made"

    outcome = context.step(step, key, make)
    if not _is_sound(Path(str(outcome["path"]))):
        outcome, _ = make()
    findings = tuple(from_dict(Finding, item) for item in outcome["findings"])
    return StoredSamples(Path(outcome["path"]), outcome["digest"], outcome["count"], findings)


def _is_sound(path: Path) -> bool:
    """Whether a stored set is there and has its digests: it may have been pruned or damaged since."""
    try:
        SampleStore.open(path, verify=True)
    except StorageError:
        return False
    return True


def samples_key(request: Mapping[str, Any], mark: str | None) -> str:
    """Key of storing a set in this run. mark: as `set_mark` gives it."""
    return cache_key({"request": request, "mark": mark})


def samples_request(
    plan: Plan, role: Role, inputs: tuple[TensorSpec, ...], store: Path, evaluation: Path | None
) -> dict[str, Any]:
    """The data worker's request for a set of the plan."""
    declared = plan.declared_set(role)
    if declared is None:
        raise _names_none(role)
    return {
        "version": 1,
        "subject": role,
        "set": set_to_dict(declared.spec),
        "preprocess": None if plan.data.preprocess is None else plan.data.preprocess.to_dict(),
        "inputs": to_dict(inputs),
        "root": str(store),
        "size_cap_bytes": int(plan.data.max_gb * 1e9),
        "size_cap_key": SIZE_CAP_KEY,
        "part": to_dict(_part(plan, declared)),
        "evaluation_samples": None if evaluation is None else str(evaluation),
    }


def set_mark(plan: Plan, role: Role, inputs: tuple[TensorSpec, ...], root: Path) -> str | None:
    """A cheap stand-in for the content of a set; None for one that a function gives."""
    declared = plan.declared_set(role)
    if declared is None or isinstance(declared.spec, EntryPoint):
        return None
    opened = open_set(declared.spec, [tensor.name for tensor in inputs])
    indices = chosen([entry.label for entry in opened.entries], _part(plan, declared))
    target = Materialization(inputs, plan.data.preprocess, root, int(plan.data.max_gb * 1e9))
    return fingerprint(declared.spec, opened, indices, target)


def _part(plan: Plan, declared: DeclaredSet) -> Part:
    count = plan.data.samples if declared.role == "evaluation" else plan.data.calibration_samples
    return Part(declared.skip, declared.take, None if count == "all" else count, plan.data.seed)


def _names_none(role: Role) -> DataError:
    return DataError(f"The plan names no {role} set.", where=f"data.{role}", next_step=f"Add [data.{role}].")


def _once(findings: list[Finding]) -> list[Finding]:
    """Two models share their sets: each finding counts once."""
    kept: list[Finding] = []
    for finding in findings:
        if finding not in kept:
            kept.append(finding)
    return kept
