"""The first stage: what the source models are, the sample sets, and what the checks find in them."""

import json
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from phoneproof.builds.source_facts import EXPORTED_FILE, SourceFacts
from phoneproof.builds.store import Store, cache_key
from phoneproof.data.edge import check_fits
from phoneproof.data.materialization import Materialization, fingerprint
from phoneproof.data.set_specs import EntryPoint, set_to_dict
from phoneproof.data.sets import open_set
from phoneproof.data.store import SampleStore
from phoneproof.data.subset import Part, chosen
from phoneproof.devices.job_folder import sha256_of
from phoneproof.errors import DataError, StorageError
from phoneproof.findings import Finding, blocking, waive
from phoneproof.plan.data_section import DeclaredSet, Role, set_key
from phoneproof.plan.entry_points import entry_point_file
from phoneproof.plan.model import Plan
from phoneproof.plan.model_section import ModelSection
from phoneproof.protocol.codec import from_dict, to_dict
from phoneproof.protocol.job import FileRef
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.runtime_table import READER_OF
from phoneproof.recipes.table import SourceFormat
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.runs.handed_over import HandedOver
from phoneproof.runs.model_audit import model_findings
from phoneproof.runs.planned import inspect_step, samples_step
from phoneproof.runs.scoring import ScoredOutput, check_labels, class_findings, scored_output
from phoneproof.runs.selecting import check_selection
from phoneproof.runs.steps import RunContext
from phoneproof.workers.environments import environment_of

SIZE_CAP_KEY: Final = "data.max_gb"
FACTS_FILE: Final = "facts.json"
FACTS_REVISION: Final = 3
"""Raised when an inspection tells more than before: what is stored of an older one would lack it."""
_INSPECTION: Final = "phoneproof.sources.inspect"


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
    path: of the file or folder that the reference runs: the source, or the program it was exported to.
    request: how workers' requests name the source as the plan has it.
    """

    section: ModelSection
    path: Path
    request: Mapping[str, Any]
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
        """How worker requests name the source as the plan has it, unchanged since its inspection."""
        return {**self.request, "sha256": self.facts.sha256}

    @property
    def program_request(self) -> dict[str, Any]:
        """How worker requests name the source as an exported program. ValueError if it is none."""
        if self.facts.exported is None:
            if self.section.format is not SourceFormat.EXPORTED_PROGRAM:
                raise ValueError(f"{self.section.key} is no exported program")
            return self.source_request
        return {
            "format": SourceFormat.EXPORTED_PROGRAM.value,
            "path": str(self.path),
            "outputs": [tensor.name for tensor in self.facts.outputs],
            "shapes": {tensor.name: list(tensor.shape) for tensor in self.facts.inputs},
        }


@dataclass(frozen=True)
class Audit:
    """What the audit found; findings with the plan's waivers applied."""

    models: Mapping[str, AuditedModel]
    findings: tuple[Finding, ...]


def audit(context: RunContext, plan: Plan) -> Audit:
    """Inspect every model and store its sets.

    RecipeError where a build names operators that a model does not have; PlanError where a metric does not
    fit a model; DataError if labels do not, or if a severe finding is not
    waived.
    """
    with ThreadPoolExecutor(len(plan.models)) as pool:
        audited = list(pool.map(lambda section: _audit_model(context, plan, section), plan.models))
    models = {model.section.key: model for model in audited}
    findings: list[Finding] = []
    for key, model in models.items():
        findings += model_findings(key, model.facts)
        findings += [f for s in (model.judged_on, model.calibration) if s is not None for f in s.findings]
        if model.judged_on is not None:
            findings += class_findings(key, model.scored, model.judged_on.open().stored)
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
    request = source_request(plan, section)
    return cache_key({"request": request, "mark": _mark(plan, section), "revision": FACTS_REVISION})


def source_request(plan: Plan, section: ModelSection) -> dict[str, Any]:
    """How worker requests name a source model of the plan."""
    path = section.source if section.is_entry_point else str(plan.locate(section.source))
    state = None if section.state is None else str(plan.locate(section.state))
    return section.request(path, str(plan.folder), state)


def _mark(plan: Plan, section: ModelSection) -> list[list[Any]]:
    """Name, size and time of the files that a source model is made of.

    For a Python function: all modules in the folder of its own, and the state dict. What else those import
    is not looked at: after a change there, a run of another folder inspects the model again.
    """
    if not section.is_entry_point:
        path = plan.locate(section.source)
        return _marks([path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file()))
    module = entry_point_file(section.source, plan.folder)
    files = [] if module is None else sorted(module.parent.glob("*.py"))
    return _marks([*files, *([plan.locate(section.state)] if section.state is not None else [])])


def _marks(files: Sequence[Path]) -> list[list[Any]]:
    statuses = [(file, file.stat()) for file in files]
    return [[str(file), status.st_size, status.st_mtime_ns] for file, status in statuses]


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
    key = section.key
    request = source_request(plan, section)
    facts, path = _inspected(context, plan, section, request)
    check_selection(plan, section, facts)
    scored = scored_output(plan, facts.outputs)
    if plan.edge.run:
        check_fits(facts.inputs, plan.edge.kind, plan.edge.audio_input)
    evaluation = None
    if plan.declared_set("evaluation") is not None:
        step = samples_step("evaluation", key)
        evaluation = store_samples(context, plan, "evaluation", facts.inputs, step)
        check_labels(plan, scored, evaluation.open().stored)
    static = any(b.recipe.needs_calibration and b.model == section for b in plan.planned_builds())
    calibration = None
    if static and plan.declared_set("calibration") is not None:  # an audit can do without; a build cannot
        step = samples_step("calibration", key)
        other = None if evaluation is None else evaluation.path
        calibration = store_samples(context, plan, "calibration", facts.inputs, step, other)
    return AuditedModel(section, path, request, facts, evaluation, calibration, scored)


def _inspected(
    context: RunContext, plan: Plan, section: ModelSection, request: Mapping[str, Any]
) -> tuple[SourceFacts, Path]:
    """The facts of a source model, and the file or folder that the reference runs."""
    step = inspect_step(section.key)
    inspection = inspection_key(plan, section)

    where = environment_of(TOOLCHAINS[READER_OF[section.format]], context.store.root)

    def inspect() -> tuple[dict[str, Any], str]:
        memory = TOOLCHAINS[READER_OF[section.format]].memory_bytes
        found = context.call_in(where, step, _INSPECTION, request, memory)
        _keep_exported(context, step, from_dict(SourceFacts, dict(found)), where.versions)
        _remember_facts(context.store, inspection, found)
        return found, "made"

    facts = from_dict(SourceFacts, dict(context.step(step, inspection, inspect)))
    if section.is_entry_point:
        folder = context.stored("exports", _export_key(facts, where.versions), inspect)
        return facts, folder / EXPORTED_FILE
    path = plan.locate(section.source)
    if path.is_file() and not _are_there(facts.files[1:], path.parent.resolve()):
        facts = from_dict(SourceFacts, inspect()[0])
    return facts, path


def _export_key(facts: SourceFacts, versions: Mapping[str, str]) -> str:
    return cache_key({"source": facts.sha256, "versions": dict(versions)})


def _keep_exported(context: RunContext, step: str, facts: SourceFacts, versions: Mapping[str, str]) -> None:
    """Put the program that an inspection exported into the store: what workers read must not change."""
    if facts.exported is None:
        return
    answer = HandedOver(_INSPECTION, context.folder.work(step), {})
    made = answer.file(EXPORTED_FILE, facts.exported.sha256)

    def fill(staging: Path) -> None:
        shutil.move(made, staging / EXPORTED_FILE)

    context.from_store("exports", _export_key(facts, versions), fill)
    made.unlink(missing_ok=True)


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
    if not is_sound(Path(str(outcome["path"]))):
        outcome, _ = make()
    findings = tuple(from_dict(Finding, item) for item in outcome["findings"])
    return StoredSamples(Path(outcome["path"]), outcome["digest"], outcome["count"], findings)


def is_sound(path: Path) -> bool:
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
        "part": to_dict(part_of(plan, declared)),
        "evaluation_samples": None if evaluation is None else str(evaluation),
    }


def set_mark(plan: Plan, role: Role, inputs: tuple[TensorSpec, ...], root: Path) -> str | None:
    """A cheap stand-in for the content of a set; None for one that a function gives."""
    declared = plan.declared_set(role)
    if declared is None or isinstance(declared.spec, EntryPoint):
        return None
    opened = open_set(declared.spec, [tensor.name for tensor in inputs])
    indices = chosen([entry.label for entry in opened.entries], part_of(plan, declared), set_key(role))
    target = Materialization(inputs, plan.data.preprocess, root, int(plan.data.max_gb * 1e9))
    return fingerprint(declared.spec, opened, indices, target)


def part_of(plan: Plan, declared: DeclaredSet) -> Part:
    """The part of a set that is meant; of own edge inputs, all but what skip and take leave out."""
    counts = {"evaluation": plan.data.samples, "calibration": plan.data.calibration_samples, "edge": "all"}
    count = counts[declared.role]
    return Part(declared.skip, declared.take, None if count == "all" else count, plan.data.seed)


def _names_none(role: Role) -> DataError:
    key = set_key(role)
    return DataError(f"The plan names no {role} set.", where=key, next_step=f"Add [{key}].")


def _once(findings: list[Finding]) -> list[Finding]:
    """Two models share their sets: each finding counts once."""
    kept: list[Finding] = []
    for finding in findings:
        if finding not in kept:
            kept.append(finding)
    return kept
