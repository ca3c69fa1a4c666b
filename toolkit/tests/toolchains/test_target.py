"""A build that needs more than the plan says the device has is an error naming both."""

from pathlib import Path
from typing import Any

import pytest

from phoneproof.errors import RecipeError
from phoneproof.recipes.table import TargetFloor
from phoneproof.toolchains.result import refuse_above_target
from tests.models.small_convolution import convolution
from tests.toolchains.built import built, request_for

FLOOR = TargetFloor(onnx_opset=17, onnx_ir=8, runtime_version="1.17.0", deployment_target="iOS16")


@pytest.mark.parametrize(
    ("target", "needs"),
    [
        ({"onnx_opset": 16}, "17"),
        ({"onnx_ir": 7}, "8"),
        ({"runtime_version": "1.9"}, "1.17.0"),
        ({"runtime_version": "1.16.99"}, "1.17.0"),
        ({"deployment_target": "iOS15"}, "iOS16"),
    ],
)
def test_less_than_the_build_needs_is_refused(target: dict[str, Any], needs: str) -> None:
    with pytest.raises(RecipeError) as caught:
        refuse_above_target(FLOOR, TargetFloor(**target), "a-recipe")
    ((key, has),) = target.items()
    assert caught.value.where == f"target: {key}"
    assert needs in caught.value.what
    assert str(has) in caught.value.what


@pytest.mark.parametrize(
    "target",
    [
        {},
        {"onnx_opset": 17},
        {"onnx_opset": 21, "onnx_ir": 8},
        {"runtime_version": "1.17"},
        {"deployment_target": "iOS18"},
    ],
)
def test_as_much_as_the_build_needs_passes(target: dict[str, Any]) -> None:
    refuse_above_target(FLOOR, TargetFloor(**target), "a-recipe")


def test_what_a_build_does_not_tell_is_not_compared() -> None:
    refuse_above_target(TargetFloor(), TargetFloor(onnx_opset=1, runtime_version="0"), "a-recipe")


@pytest.mark.parametrize(("opset", "is_made"), [(12, False), (100, True)])
def test_an_onnx_build_is_held_against_the_target(tmp_path: Path, opset: int, is_made: bool) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(convolution())
    request = request_for(path, "onnx-float32", target={"onnx_opset": opset})
    if is_made:
        assert built(request, tmp_path).manifest.floor.onnx_opset
    else:
        with pytest.raises(RecipeError, match="ONNX opset"):
            built(request, tmp_path)
