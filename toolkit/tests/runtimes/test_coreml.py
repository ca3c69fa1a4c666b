"""Core ML behind the seam, as far as it can be tried without macOS: errors, and reading a compute plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phoneproof.errors import RuntimeUnavailableError
from phoneproof.runtimes.coreml import (
    COMPUTE_UNITS,
    CoreMlSession,
    accelerator_used,
    load,
    operators_per_accelerator,
    refuse_fallback,
    runtime,
)
from phoneproof.runtimes.runtime import LoadRequest


def request(accelerator: str = "ane", allow_fallback: bool = True, **options: str) -> LoadRequest:
    return LoadRequest(Path("m.mlpackage"), accelerator, allow_fallback, 1, options)


class MLCPUComputeDevice:
    """Named as the vendor's class, which only macOS can make."""


class MLNeuralEngineComputeDevice:
    """See above."""


@dataclass(frozen=True)
class Operation:
    device: Any
    blocks: Sequence[Any] = ()


@dataclass(frozen=True)
class Plan:
    """The part of MLComputePlan that is read."""

    operations: Sequence[Operation]
    model_structure: Any = field(init=False)

    def __post_init__(self) -> None:
        function = SimpleNamespace(block=SimpleNamespace(operations=self.operations))
        program = SimpleNamespace(functions={"main": function})
        object.__setattr__(self, "model_structure", SimpleNamespace(program=program))

    def get_compute_device_usage_for_mlprogram_operation(self, operation: Operation) -> Any:
        if operation.device is None:
            return None
        return SimpleNamespace(preferred_compute_device=operation.device, supported_compute_devices=[])


def test_it_opens_everywhere_and_loads_on_macos_only() -> None:
    assert runtime().name == "coreml"
    with pytest.raises(RuntimeUnavailableError, match="macOS only, and this system is linux") as caught:
        load(request(), platform="linux")
    assert "mil_interpreter" in (caught.value.next_step or "")


def test_what_core_ml_does_not_have_is_refused_before_anything_is_loaded() -> None:
    with pytest.raises(RuntimeUnavailableError, match="no accelerator 'npu'") as caught:
        load(request("npu"), platform="darwin")
    assert caught.value.facts["known"] == ("cpu", "gpu", "ane", "all")
    with pytest.raises(ValueError, match="no option 'threads'"):
        load(request(threads="2"), platform="darwin")


def test_the_compute_units_are_the_vendors() -> None:
    """Read as text: importing coremltools takes seconds."""
    from importlib.util import find_spec

    spec = find_spec("coremltools")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    for unit in COMPUTE_UNITS.values():
        assert f"    {unit} = " in source


def test_operators_are_counted_by_device_and_constants_are_not() -> None:
    inner = SimpleNamespace(operations=[Operation(MLCPUComputeDevice())])
    ane = MLNeuralEngineComputeDevice()
    plan = Plan([Operation(None), Operation(ane), Operation(ane, [inner])])
    assert operators_per_accelerator(plan) == {"ane": 2, "cpu": 1}
    assert operators_per_accelerator(Plan([Operation(None)])) is None


def test_a_device_of_another_kind_is_told_by_its_class() -> None:
    assert operators_per_accelerator(Plan([Operation(SimpleNamespace())])) == {"SimpleNamespace": 1}


@pytest.mark.parametrize(
    ("operators", "requested", "used"),
    [
        ({"ane": 9}, "ane", "ane"),
        ({"ane": 9, "cpu": 1}, "ane", "ane+cpu"),
        ({"cpu": 3}, "ane", "cpu"),
        ({"ane": 9, "cpu": 1}, "all", "ane+cpu"),
        (None, "cpu", None),
    ],
)
def test_the_accelerator_is_what_the_plan_says(
    operators: Mapping[str, int] | None, requested: str, used: str | None
) -> None:
    assert accelerator_used(operators, requested) == used


def test_operators_elsewhere_are_an_error_where_fallback_is_not_allowed() -> None:
    mixed = {"ane": 9, "cpu": 2}
    refuse_fallback(request("ane", allow_fallback=True), mixed)
    refuse_fallback(request("ane", allow_fallback=False), {"ane": 9})
    refuse_fallback(request("ane", allow_fallback=False), None)
    refuse_fallback(request("all", allow_fallback=False), mixed)
    with pytest.raises(RuntimeUnavailableError, match="2 on cpu"):
        refuse_fallback(request("ane", allow_fallback=False), mixed)


class Model:
    """A model as coremltools gives it on macOS: outputs by name, in any order."""

    def get_spec(self) -> Any:
        names = {"input": ("image",), "output": ("scores", "box")}
        return SimpleNamespace(
            description=SimpleNamespace(
                **{kind: [SimpleNamespace(name=n) for n in found] for kind, found in names.items()}
            )
        )

    def predict(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {"box": inputs["image"] * 2, "scores": inputs["image"] + 1}


def test_a_session_gives_outputs_in_the_order_of_the_package() -> None:
    session = CoreMlSession(Model(), "cpu", {"cpu": 3})
    scores, box = session.prepare({"image": np.ones((1, 2), np.float32)})()
    assert (scores.tolist(), box.tolist()) == ([[2, 2]], [[2, 2]])
    with pytest.raises(ValueError, match="the build has"):
        session.prepare({"picture": np.ones(1)})
    session.close()
    session.close()
    with pytest.raises(ValueError, match="closed"):
        session.prepare({"image": np.ones(1)})
