"""Which checks belong to which set. A new one is written, and named here."""

from typing import Final

from phoneproof.data.checks.checked import Check, CheckedSet
from phoneproof.data.checks.copy_checks import (
    check_duplicates,
    check_near_duplicates,
    check_near_overlap,
    check_overlap,
)
from phoneproof.data.checks.label_checks import check_balance, check_one_class
from phoneproof.data.checks.sample_checks import (
    check_broken_files,
    check_constant,
    check_count,
    check_finite,
    check_layout,
)
from phoneproof.data.checks.value_checks import (
    check_borders,
    check_colour_order,
    check_noise,
    check_normalisation,
    check_ranges,
    check_statistics,
)
from phoneproof.findings import Finding

CALIBRATION_CHECKS: Final[tuple[Check, ...]] = (
    check_count,
    check_broken_files,
    check_finite,
    check_constant,
    check_layout,
    check_one_class,
    check_balance,
    check_duplicates,
    check_near_duplicates,
    check_overlap,
    check_near_overlap,
    check_noise,
    check_normalisation,
    check_ranges,
    check_statistics,
    check_colour_order,
    check_borders,
)
EVALUATION_CHECKS: Final[tuple[Check, ...]] = (
    check_broken_files,
    check_finite,
    check_constant,
    check_layout,
)
CHECKS: Final = {"calibration": CALIBRATION_CHECKS, "evaluation": EVALUATION_CHECKS}


def run_checks(checked: CheckedSet) -> tuple[Finding, ...]:
    """All findings of the checks that belong to the subject. ValueError for another subject."""
    if checked.subject not in CHECKS:
        raise ValueError(f"no checks for {checked.subject!r}")
    return tuple(finding for check in CHECKS[checked.subject] for finding in check(checked))
