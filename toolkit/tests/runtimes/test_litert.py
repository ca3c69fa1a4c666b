"""LiteRT behind the seam: nothing that is asked for is quietly replaced, and inputs are bound by name."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from phoneproof.errors import RuntimeUnavailableError, UnsupportedOperatorError
from phoneproof.runtimes.litert import load, runtime
from phoneproof.runtimes.runtime import LoadRequest
from tests.models.tflite_networks import sums


def request(path: Path, accelerator: str = "cpu", **options: str) -> LoadRequest:
    return LoadRequest(path, accelerator, False, 1, options)


def arrays(length: int = 4, scale: float = 1.0) -> dict[str, NDArray[np.float32]]:
    left = np.arange(length, dtype=np.float32)[None] * np.float32(scale)
    return {"left": left, "right": left * 10}


def test_it_adds_and_holds_inputs_against_the_build(tmp_path: Path) -> None:
    session = load(request(sums(tmp_path / "m.tflite", ["ABS"])))
    inputs = arrays(scale=-1.0)
    # In another order than the file's: they are bound by name.
    (result,) = session.prepare(dict(reversed(inputs.items())))()
    np.testing.assert_array_equal(result, [[0, 11, 22, 33]])
    with pytest.raises(ValueError, match="the build has"):
        session.prepare({"left": inputs["left"]})
    with pytest.raises(ValueError, match="the build has"):
        session.prepare({**inputs, "more": inputs["left"]})
    with pytest.raises(ValueError, match="float32"):
        session.prepare({name: value.astype(np.float64) for name, value in inputs.items()})
    with pytest.raises(ValueError, match="shape"):
        session.prepare(arrays(length=5))
    session.close()
    session.close()
    with pytest.raises(ValueError, match="closed"):
        session.prepare(inputs)


def test_each_invocation_keeps_its_own_inputs(tmp_path: Path) -> None:
    session = load(request(sums(tmp_path / "m.tflite", [])))
    first, second = session.prepare(arrays()), session.prepare(arrays(scale=2.0))
    (before,), (other,), (after,) = first(), second(), first()
    np.testing.assert_array_equal(before, [[0, 11, 22, 33]])
    np.testing.assert_array_equal(other, before * 2)
    np.testing.assert_array_equal(after, before)


def test_names_are_the_tensors_where_there_is_no_signature(tmp_path: Path) -> None:
    session = load(request(sums(tmp_path / "m.tflite", [], named=False)))
    given = {f"t_{name}": value for name, value in arrays().items()}
    np.testing.assert_array_equal(session.prepare(given)()[0], [[0, 11, 22, 33]])


def test_an_open_axis_takes_the_length_of_the_input(tmp_path: Path) -> None:
    session = load(request(sums(tmp_path / "m.tflite", [], open_axis=True)))
    for length in (3, 6):
        assert session.prepare(arrays(length))()[0].shape == (1, length)


def test_operators_that_the_delegate_took_are_counted(tmp_path: Path) -> None:
    path = sums(tmp_path / "m.tflite", ["ABS", "SIGN", "NEG"])
    assert counts(path) == {"cpu": 1, "xnnpack": 3}
    assert counts(path, xnnpack="0") == {"cpu": 4}
    assert load(request(path)).accelerator_actual == "cpu"


def counts(path: Path, **options: str) -> Mapping[str, int] | None:
    return load(request(path, **options)).operators


def test_an_accelerator_or_option_that_is_not_there(tmp_path: Path) -> None:
    path = sums(tmp_path / "m.tflite", [])
    with pytest.raises(RuntimeUnavailableError, match="gpu"):
        load(request(path, "gpu"))
    with pytest.raises(ValueError, match="no option"):
        load(request(path, xnpack="1"))
    with pytest.raises(ValueError, match="'0' or '1'"):
        load(request(path, xnnpack="yes"))


@pytest.mark.parametrize("kind", ["own_operator", "FlexErfinv"])
def test_an_operator_that_is_no_builtin_one_is_named(kind: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOperatorError) as caught:
        load(request(sums(tmp_path / "m.tflite", [kind])))
    assert caught.value.facts["operators"] == (kind,)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_truncated_file_is_an_error(share: float, tmp_path: Path) -> None:
    path = sums(tmp_path / "m.tflite", ["ABS"])
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises((ValueError, RuntimeUnavailableError)):
        load(request(path))


def test_the_version_is_that_of_what_executes() -> None:
    assert runtime().version.count(".") == 2
