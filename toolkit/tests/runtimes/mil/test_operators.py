"""Every operator as coremltools writes it, against torch or numpy."""

from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from phoneproof.runtimes.mil.operators import CONTROL_FLOW, OPERATORS
from tests.runtimes.mil import (
    cases_elementwise,
    cases_index,
    cases_linear,
    cases_quantization,
    cases_recurrent,
    cases_resize,
    cases_shape,
)
from tests.runtimes.mil.building import Array, Case, operator_types, run_cases

_FAMILIES = (
    cases_elementwise,
    cases_index,
    cases_linear,
    cases_quantization,
    cases_recurrent,
    cases_resize,
    cases_shape,
)
CASES: list[Case] = [case for family in _FAMILIES for case in family.CASES]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packages")


@pytest.fixture(scope="module")
def results(packages: Path) -> dict[str, list[Array]]:
    """All cases of one target are one program: converting is what takes the time."""
    outputs: dict[str, list[Array]] = {}
    for target, cases in groupby(sorted(CASES, key=lambda c: c.target), key=lambda c: c.target):
        outputs |= run_cases(list(cases), packages / f"ios{target}.mlpackage")
    return outputs


def _arrays(expected: Any) -> list[Array]:
    several = expected if isinstance(expected, tuple | list) else (expected,)
    return [one.numpy() if isinstance(one, torch.Tensor) else np.asarray(one) for one in several]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_operator(case: Case, results: dict[str, list[Array]]) -> None:
    expected = _arrays(case.expected(**case.inputs))
    got = results[case.id]
    assert [one.shape for one in got] == [one.shape for one in expected]
    for ours, theirs in zip(got, expected, strict=True):
        if np.issubdtype(theirs.dtype, np.floating):
            np.testing.assert_allclose(ours, theirs, rtol=case.tolerance, atol=case.tolerance)
        else:
            np.testing.assert_array_equal(ours, theirs.astype(ours.dtype))


def test_ids_are_unique() -> None:
    assert len({case.id for case in CASES}) == len(CASES)


def test_every_operator_of_the_table_has_a_case(packages: Path, results: dict[str, list[Array]]) -> None:
    """Held against the programs that were run, not against what the cases say of themselves."""
    assert {case.id for case in CASES} == set(results)
    written = set().union(*(operator_types(package) for package in packages.iterdir()))
    wanted = {*OPERATORS, *CONTROL_FLOW}
    assert {case.operator for case in CASES} | {"const"} == wanted
    assert wanted <= written
