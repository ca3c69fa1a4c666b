"""What to try with a build that lost accuracy, out of its measurement."""

from collections.abc import Sequence

from phoneproof.findings import Finding
from phoneproof.runs.measuring import Measurement
from phoneproof.verify.losses import remedies
from phoneproof.verify.verdicts import GateResult, Reason


def remedies_of(
    measured: Measurement, gates: Sequence[GateResult], findings: Sequence[Finding]
) -> tuple[Reason, ...]:
    """See verify/losses. Nothing for a build that is not quantized: no recipe can mend its loss."""
    recipe = measured.build.wanted.recipe
    if not recipe.is_quantized:
        return ()
    verdict = next((gate.verdict for gate in gates if gate.id == "accuracy"), None)
    found = {f.id for f in findings if f.subject == "calibration"} if recipe.needs_calibration else ()
    return remedies(measured.accuracy, verdict, sorted(found))
