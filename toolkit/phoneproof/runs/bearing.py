"""Which findings bear on one result."""

from collections.abc import Iterable

from phoneproof.findings import Finding
from phoneproof.runs.measuring import Measurement


def bears_on(finding: Finding, measured: Measurement, device_id: str) -> bool:
    """Whether a finding is about the build, its model, its sets, its toolchain or its device."""
    wanted = measured.build.wanted
    builds = finding.facts.get("builds")
    if finding.subject == device_id and isinstance(builds, tuple):
        return wanted.build_id in builds
    if finding.subject in (wanted.build_id, wanted.model, device_id, wanted.toolchain):
        return True
    if finding.subject == "calibration":
        return wanted.recipe.needs_calibration
    return finding.subject == "evaluation"


def is_accuracy_telling(findings: Iterable[Finding], measured: Measurement) -> bool:
    """Whether the accuracy of a build can speak for its outputs.

    Not where the source model is at chance, waived or not: what is not right cannot get worse, so no drop
    shows any harm.
    """
    model = measured.build.wanted.model
    return not any(one.id == "ACCURACY-AT-CHANCE" and one.subject == model for one in findings)
