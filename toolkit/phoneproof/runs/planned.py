"""The names of a run's steps: what its journal lists first, and what each stage calls its own."""

from collections.abc import Sequence
from typing import Final

from phoneproof.plan.data_section import Role
from phoneproof.plan.model import Plan
from phoneproof.recipes.table import SourceFormat
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.runs.wanted import WantedBuild, wanted_builds

OF_EDGE: Final = "@edge"
"""Ends the steps of the reference that are about edge inputs. No model's name has an @."""


def planned_steps(plan: Plan) -> tuple[str, ...]:
    """Every step that a run of this plan can have, up to the last stage, in the order of the stages.

    A step that turns out not to be needed is in it too: the journal says what could be done, before it is
    known what is in the store.
    """
    builds = wanted_builds(plan)
    calibrated = {build.model for build in builds if build.recipe.needs_calibration}
    models = [section.key for section in plan.models]
    audit = [
        step
        for key in models
        for step in (
            inspect_step(key),
            *([samples_step("evaluation", key)] if plan.data.evaluation is not None else []),
            *([samples_step("calibration", key)] if key in calibrated else []),
        )
    ]
    exports = [export_step(build.model) for build in builds if is_through_onnx(build)]
    calibrating = [calibrated_by(build, builds) for build in builds if takes_ranges(build)]
    ranges = [ranges_step(build.model, build.toolchain) for build in calibrating]
    own_inputs = [] if plan.data.preprocess is not None else [build_samples_step(b.build_id) for b in builds]
    edge = [edge_inputs_step(key) for key in models] if plan.edge.run else []
    references = [step for key in models for step in _reference_steps(key, plan.edge.run)]
    runtimes = sorted({build.runtime.name for build in builds})
    jobs = [job_step(kind, name) for kind in sorted({d.kind for d in plan.devices}) for name in runtimes]
    made = [build_step(build.build_id) for build in builds]
    steps = (*audit, *exports, *ranges, *made, *edge, *references, *own_inputs, *jobs)
    return tuple(dict.fromkeys(steps))


def _reference_steps(key: str, edge: bool) -> tuple[str, ...]:
    own = (reference_step(key), reference_job_step(key))
    return (*own, edge_reference_step(key), edge_reference_job_step(key)) if edge else own


def takes_ranges(build: WantedBuild) -> bool:
    """Whether a calibration worker makes the ranges of this build, not its toolchain."""
    methods = TOOLCHAINS[build.toolchain].calibration
    return build.recipe.needs_calibration and build.options.method in methods


def calibration_of(build: WantedBuild) -> tuple[str, str]:
    """(model, module of the calibration worker): builds alike in both share their ranges."""
    return build.model, TOOLCHAINS[build.toolchain].calibration[build.options.method]


def calibrated_by(build: WantedBuild, builds: Sequence[WantedBuild]) -> WantedBuild:
    """The build in whose toolchain's environment the ranges are made that `build` shares with others.

    The first in the plan's order and not the first that asks: threads ask in any order, and a run that is
    gone on with must find what it made before.
    """
    shared = calibration_of(build)
    return next(one for one in builds if takes_ranges(one) and calibration_of(one) == shared)


def is_through_onnx(build: WantedBuild) -> bool:
    """Whether the source is exported to ONNX first."""
    return build.route is not None and build.route.through is SourceFormat.ONNX


def inspect_step(key: str) -> str:
    """Inspection of a source model."""
    return f"inspect/{key}"


def samples_step(role: Role, key: str) -> str:
    """Storing a set as a source model takes it."""
    return f"samples/{role}/{key}"


def build_samples_step(build_id: str) -> str:
    """Storing the evaluation set as a build with other input dtypes takes it."""
    return f"samples/evaluation/{build_id.replace('/', '@')}"


def export_step(key: str) -> str:
    """Export of a source model to ONNX."""
    return f"export/{key}"


def ranges_step(key: str, toolchain: str) -> str:
    """Calibration of a source model for a toolchain."""
    return f"ranges/{key}/{toolchain}"


def build_step(build_id: str) -> str:
    """Making a build."""
    return f"build/{folder_name(build_id)}"


def reference_step(key: str) -> str:
    """The reference's outputs."""
    return f"reference/{key}"


def reference_job_step(key: str) -> str:
    """The job that runs the reference."""
    return f"job/{reference_step(key)}"


def edge_inputs_step(key: str) -> str:
    """Storing the edge inputs of a source model and of its builds."""
    return samples_step("edge", key)


def edge_reference_step(key: str) -> str:
    """The reference's outputs for edge inputs."""
    return f"{reference_step(key)}{OF_EDGE}"


def edge_reference_job_step(key: str) -> str:
    """The job that runs the reference on edge inputs. Its model is that of the step without OF_EDGE."""
    return f"{reference_job_step(key)}{OF_EDGE}"


def job_step(device: str, runtime: str) -> str:
    """The job of a device for all builds of one runtime. device: its `kind` in the plan."""
    return f"job/{device}/{runtime}"


def folder_name(build_id: str) -> str:
    """Inner path of a build: model/source/recipe, and @variant, so that no build lies inside another."""
    model, source, recipe, *variant = build_id.split("/")
    return "/".join((model, source, "@".join((recipe, *variant))))
