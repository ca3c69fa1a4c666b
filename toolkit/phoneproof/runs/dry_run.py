"""What a run would do, without doing it: HIT, likely or MISS for each step.

HIT: the store, or this run, has it. likely: so it is if no file changed while its size and time stayed.
MISS: it will be made.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from phoneproof.builds.model_files import model_sha256
from phoneproof.builds.source_facts import SourceFacts
from phoneproof.builds.store import Store, default_store
from phoneproof.data.materialization import probable_digest
from phoneproof.errors import PhoneproofError
from phoneproof.plan.data_section import Role
from phoneproof.plan.model import Plan
from phoneproof.plan.model_section import ModelSection
from phoneproof.protocol.codec import from_dict
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.runs.audit import inspection_key, samples_key, samples_request, set_mark, stored_facts
from phoneproof.runs.building import build_key, calibration_key, file_key
from phoneproof.runs.folder import read_journal
from phoneproof.runs.planned import build_step, folder_name, inspect_step, job_step, samples_step
from phoneproof.runs.run import RunOptions, check
from phoneproof.runs.scoring import scored_output
from phoneproof.runs.selecting import check_selection
from phoneproof.runs.wanted import WantedBuild, wanted_builds
from phoneproof.workers.environments import environment_of

State = Literal["HIT", "likely", "MISS"]


@dataclass(frozen=True)
class ForeseenStep:
    """A step and what is known of it."""

    step: str
    state: State


@dataclass
class _Foresight:
    """What is known of a run. kept: key of each step that this run has finished."""

    plan: Plan
    out: Path
    store: Store
    kept: Mapping[str | None, object]
    steps: list[ForeseenStep] = field(default_factory=list)

    def say(self, step: str, key: str | None, is_stored: bool) -> State:
        """Note a step by its key, None where that is not known."""
        state: State = "likely" if is_stored else "MISS"
        if key is not None and self.kept.get(step) == key:
            state = "HIT"
        self.steps.append(ForeseenStep(step, state))
        return state

    def facts(self, section: ModelSection) -> SourceFacts | None:
        """What an inspection found that is likely to find the same now. Raises what the audit does."""
        key = inspection_key(self.plan, section)
        found = stored_facts(self.store, key)
        self.say(inspect_step(section.key), key, found is not None)
        if found is None:
            return None
        facts = from_dict(SourceFacts, found)
        check_selection(self.plan, section, facts)
        scored_output(self.plan, facts.outputs)
        return facts

    def samples(
        self, role: Role, section: ModelSection, facts: SourceFacts | None, evaluation: str | None
    ) -> str | None:
        """The digest that the set is likely to have; None if it is not in the store."""
        step = samples_step(role, section.key)
        if facts is None:
            self.say(step, None, False)
            return None
        root = self.store.root
        mark = set_mark(self.plan, role, facts.inputs, root)
        digest = None if mark is None else probable_digest(mark, root)
        other = None if evaluation is None else root / "samples" / evaluation
        key = samples_key(samples_request(self.plan, role, facts.inputs, root, other), mark)
        self.say(step, key if digest is not None else None, digest is not None)
        return digest

    def build(self, build: WantedBuild, facts: SourceFacts | None, calibration: str | None) -> State:
        """A build by its key, where all that decides it is known."""
        step = build_step(build.build_id)
        needs = build.recipe.needs_calibration
        if facts is None or (needs and calibration is None):
            return self.say(step, None, False)
        try:
            environment = environment_of(TOOLCHAINS[build.toolchain], self.store.root)
        except PhoneproofError:
            return self.say(step, None, False)
        section = next(m for m in self.plan.models if m.key == build.model)
        used = None
        if needs and calibration is not None:
            used = calibration_key(calibration, self.plan.data.preprocess)
        if build.file is not None:
            key = file_key(facts, build, model_sha256(build.file), environment.versions)
        else:
            key = build_key(self.plan, section, facts, build, used, environment.versions)
        is_here = (self.out / "builds" / folder_name(build.build_id)).is_dir()
        return self.say(step, key if is_here else None, self.store.look_up("builds", key) is not None)


def foresee(plan: Plan, out: Path, options: RunOptions) -> tuple[ForeseenStep, ...]:
    """The steps of a run. Raises what the preflight finds; writes nothing.

    Left out are the ranges and the reference, which go with the steps around them.
    """
    store = Store(options.store or default_store())
    check(plan, out, store, options)
    kept = {line.step: line.facts.get("key") for line in read_journal(out) if line.entry == "step_finished"}
    foresight = _Foresight(plan, out, store, kept)
    builds = wanted_builds(plan)
    calibrated = {build.model for build in builds if build.recipe.needs_calibration}
    facts: dict[str, SourceFacts | None] = {}
    calibration: dict[str, str | None] = {}
    for section in plan.models:
        key = section.key
        found = facts[key] = foresight.facts(section)
        evaluation = None
        if plan.data.evaluation is not None:
            evaluation = foresight.samples("evaluation", section, found, None)
        if key in calibrated and plan.data.calibration is not None:
            calibration[key] = foresight.samples("calibration", section, found, evaluation)
    if options.until == "audit":
        return tuple(foresight.steps)
    states = [foresight.build(b, facts[b.model], calibration.get(b.model)) for b in builds]
    if options.until in ("verify", "report"):
        for name in sorted({build.runtime.name for build in builds}):
            step = job_step("host", name)
            is_done = step in kept and set(states) == {"HIT"}
            foresight.steps.append(ForeseenStep(step, "HIT" if is_done else "MISS"))
    return tuple(foresight.steps)
