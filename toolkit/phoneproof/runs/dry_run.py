"""What a run would do, without doing it: HIT, likely or MISS for each step.

HIT: the store, or this run, has it. likely: so it is if no file changed while its size and time stayed.
MISS: it will be made.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from phoneproof.builds.source_facts import SourceFacts
from phoneproof.builds.store import Store, default_store
from phoneproof.data.materialization import probable_digest
from phoneproof.errors import PhoneproofError
from phoneproof.plan.data_section import Role
from phoneproof.plan.model import Plan
from phoneproof.plan.sections import ModelSection
from phoneproof.protocol.codec import from_dict
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.runs.audit import inspection_key, set_mark, stored_facts
from phoneproof.runs.building import build_key
from phoneproof.runs.planned import build_step, inspect_step, job_step, samples_step
from phoneproof.runs.run import RunOptions, check
from phoneproof.runs.wanted import WantedBuild, model_key, wanted_builds
from phoneproof.workers.environments import environment_of

State = Literal["HIT", "likely", "MISS"]


@dataclass(frozen=True)
class ForeseenStep:
    """A step and what is known of it."""

    step: str
    state: State


def foresee(plan: Plan, out: Path, options: RunOptions) -> tuple[ForeseenStep, ...]:
    """The steps of a run. Raises what the preflight finds; writes nothing."""
    store = Store(options.store or default_store())
    check(plan, out, store, options)
    steps: list[ForeseenStep] = []
    facts: dict[str, SourceFacts | None] = {}
    calibration: dict[str, str | None] = {}
    for section in plan.models:
        key = model_key(section)
        found = facts[key] = _facts(plan, section, store, steps)
        inputs = () if found is None else found.inputs
        _samples(plan, "evaluation", key, inputs, store, steps)
        if plan.data.calibration is not None:
            calibration[key] = _samples(plan, "calibration", key, inputs, store, steps)
    for build in wanted_builds(plan):
        state = _build(plan, build, facts[build.model], calibration.get(build.model), store)
        steps.append(ForeseenStep(build_step(build.build_id), state))
    if options.until in ("verify", "report"):
        steps.append(ForeseenStep(job_step("host"), "MISS"))
    return tuple(steps)


def _facts(plan: Plan, section: ModelSection, store: Store, steps: list[ForeseenStep]) -> SourceFacts | None:
    found = stored_facts(store, inspection_key(plan, section))
    state: State = "MISS" if found is None else "likely"
    steps.append(ForeseenStep(inspect_step(model_key(section)), state))
    return None if found is None else from_dict(SourceFacts, found)


def _samples(
    plan: Plan,
    role: Role,
    key: str,
    inputs: tuple[TensorSpec, ...],
    store: Store,
    steps: list[ForeseenStep],
) -> str | None:
    mark = set_mark(plan, role, inputs, store.root) if inputs else None
    digest = probable_digest(mark, store.root) if mark is not None else None
    steps.append(ForeseenStep(samples_step(role, key), "likely" if digest else "MISS"))
    return digest


def _build(
    plan: Plan,
    build: WantedBuild,
    facts: SourceFacts | None,
    calibration: str | None,
    store: Store,
) -> State:
    needs = build.recipe.needs_calibration
    if facts is None or (needs and calibration is None):
        return "MISS"
    try:
        environment = environment_of(TOOLCHAINS[build.recipe.toolchain], store.root)
    except PhoneproofError:
        return "MISS"
    section = next(m for m in plan.models if model_key(m) == build.model)
    key = build_key(section, facts, build, calibration if needs else None, environment.versions)
    return "likely" if store.find("builds", key) is not None else "MISS"
