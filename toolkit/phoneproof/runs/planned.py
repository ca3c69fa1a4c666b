"""The names of a run's steps: what its journal lists first, and what each stage calls its own."""

from phoneproof.plan.data_section import Role
from phoneproof.plan.model import Plan
from phoneproof.runs.wanted import model_key, wanted_builds


def planned_steps(plan: Plan) -> tuple[str, ...]:
    """Every step that a run of this plan can have, up to the last stage, in the order of the stages.

    A step that turns out not to be needed is in it too: the journal says what could be done, before it is
    known what is in the store.
    """
    builds = wanted_builds(plan)
    static = [build for build in builds if build.recipe.needs_calibration]
    calibrated = {build.model for build in static}
    models = [model_key(section) for section in plan.models]
    audit = [
        step
        for key in models
        for step in (
            inspect_step(key),
            *([samples_step("evaluation", key)] if plan.data.evaluation is not None else []),
            *([samples_step("calibration", key)] if key in calibrated else []),
        )
    ]
    ranges = [ranges_step(key) for key in models if key in calibrated]
    quantized_inputs = [
        build_samples_step(build.build_id)
        for build in static
        if build.options.io == "int8" and plan.data.preprocess is None
    ]
    references = [step for key in models for step in (reference_step(key), reference_job_step(key))]
    jobs = sorted({job_step(section.kind) for section in plan.devices})
    made = [build_step(build.build_id) for build in builds]
    return (*audit, *ranges, *made, *references, *quantized_inputs, *jobs)


def inspect_step(key: str) -> str:
    """Inspection of a source model."""
    return f"inspect/{key}"


def samples_step(role: Role, key: str) -> str:
    """Storing a set as a source model takes it."""
    return f"samples/{role}/{key}"


def build_samples_step(build_id: str) -> str:
    """Storing the evaluation set as a build with quantized inputs takes it."""
    return f"samples/evaluation/{build_id.replace('/', '@')}"


def ranges_step(key: str) -> str:
    """Calibration of a source model."""
    return f"ranges/{key}"


def build_step(build_id: str) -> str:
    """Making a build."""
    return f"build/{folder_name(build_id)}"


def reference_step(key: str) -> str:
    """The reference's outputs."""
    return f"reference/{key}"


def reference_job_step(key: str) -> str:
    """The job that runs the reference."""
    return f"job/{reference_step(key)}"


def job_step(device: str) -> str:
    """The job of a device. device: its `kind` in the plan."""
    return f"job/{device}"


def folder_name(build_id: str) -> str:
    """Inner path of a build: model/source/recipe, and @variant, so that no build lies inside another."""
    model, source, recipe, *variant = build_id.split("/")
    return "/".join((model, source, "@".join((recipe, *variant))))
