"""Builds of the ExecuTorch toolchain: made in one process, judged in ExecuTorch's runtime."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from phoneproof.protocol.tensors import TensorSpec
from phoneproof.runtimes.runtime import LoadRequest
from phoneproof.sources.agreement import sqnr_db
from phoneproof.toolchains.pte_file import read_pte
from tests.models import torch_networks as networks
from tests.toolchains.orders import Done, Order, carried_out
from tests.toolchains.sample_sets import stored_set
from tests.toolchains.torch_builds import building, calibration

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

METHODS = ({"method": "minmax"}, {"method": "entropy"}, {"method": "percentile", "percentile": 99.0})
LABELS = "cat\ndog, größer"


@dataclass(frozen=True)
class Network:
    """A module with example inputs of the names and dtypes that its program has."""

    module: nn.Module
    inputs: Mapping[str, torch.Tensor]
    outputs: Mapping[str, tuple[int, ...]]


def networks_by_name() -> dict[str, Network]:
    image, maps = torch.zeros(1, 3, 16, 16), torch.zeros(1, 4, 8, 8)
    two = {"left": torch.zeros(1, 8), "right": torch.zeros(1, 4)}
    ids = {"ids": torch.zeros(1, 8, dtype=torch.int64)}
    return {
        "conv": Network(networks.ConvNet(), {"image": image}, {"output": (1, 5)}),
        "shared": Network(networks.SharedConvolution(), {"image": maps}, {"output": (1, 4, 8, 8)}),
        "token": Network(networks.TokenClassifier(), ids, {"output": (1, 3)}),
        "two": Network(networks.TwoInTwoOut(), two, {"output_0": (1, 16), "output_1": (1, 8)}),
    }


@dataclass(frozen=True)
class Made:
    """All builds by name, and for each network its program and samples (first axis: samples)."""

    builds: Mapping[str, Done]
    programs: Mapping[str, Any]
    samples: Mapping[str, Mapping[str, NDArray[Any]]]

    def outputs(self, build: str, count: int = 8) -> list[list[NDArray[Any]]]:
        """Of the first samples, by output."""
        from phoneproof.runtimes.executorch import load

        done = self.builds[build]
        session = load(LoadRequest(done.folder / "out" / "model.pte", "cpu", False, 1, {}))
        results = [session.prepare(one)() for one in self.inputs(build.partition("-")[0], count)]
        session.close()
        return [list(values) for values in zip(*results, strict=True)]

    def expected(self, network: str, count: int = 8) -> list[list[NDArray[Any]]]:
        """The program's outputs, likewise."""
        run = self.programs[network].module()
        found = []
        for one in self.inputs(network, count):
            values = run(*(torch.from_numpy(value) for value in one.values()))
            found.append([v.detach().numpy() for v in (values if isinstance(values, tuple) else (values,))])
        return [list(values) for values in zip(*found, strict=True)]

    def inputs(self, network: str, count: int) -> list[dict[str, NDArray[Any]]]:
        """The first samples."""
        arrays = self.samples[network]
        return [{name: value[k : k + 1] for name, value in arrays.items()} for k in range(count)]

    def least_db(self, build: str) -> float:
        """The least signal to noise ratio of the outputs against the program."""
        pairs = zip(self.expected(build.partition("-")[0]), self.outputs(build), strict=True)
        return min(sqnr_db(np.concatenate(one), np.concatenate(other)) for one, other in pairs)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    root = tmp_path_factory.mktemp("executorch")
    orders: list[Order] = []
    programs, samples = {}, {}
    draw = np.random.default_rng(0)
    for name, network in networks_by_name().items():
        example = [
            torch.randn_like(one) if one.is_floating_point() else one for one in network.inputs.values()
        ]
        programs[name] = networks.exported(networks.trained(network.module, example), example)
        path = networks.saved_program(programs[name], root / f"{name}.pt2")
        specs = (
            tuple(TensorSpec(n, str(t.dtype)[6:], tuple(t.shape)) for n, t in network.inputs.items()),
            tuple(TensorSpec(n, "float32", shape) for n, shape in network.outputs.items()),
        )
        arrays = {
            one.name: draw.standard_normal((16, *one.shape[1:])).astype(np.float32)
            if one.dtype == "float32"
            else draw.integers(0, 32, (16, *one.shape[1:]))
            for one in specs[0]
        }
        kept = stored_set(root / "sets" / name, specs[0], arrays)
        samples[name] = arrays
        orders += _orders(name, path, specs, kept, root / "work")
    builds = carried_out(orders, root / "work")
    # In another process, where sets of text have another order.
    again = next(order for order in orders if order.name == "conv-int8")
    builds |= carried_out([replace(again, name="conv-again")], root / "second")
    return Made(builds, programs, samples)


def _orders(name: str, path: Path, specs: Any, kept: Mapping[str, str], work: Path) -> list[Order]:
    folder = work / f"{name}-calibration"

    def order(build: str, recipe: str, ranges: str | None = None, **options: Any) -> Order:
        calibrated = None if ranges is None else (folder / f"ranges-{ranges}.json", kept)
        more = {"options": options, "metadata": {"phoneproof.labels": LABELS}}
        return building(f"{name}-{build}", "executorch", recipe, path, specs, calibrated, **more)

    def static(build: str, **options: Any) -> Order:
        return order(build, "executorch-int8", "minmax", **options)

    orders = [
        calibration(f"{name}-calibration", path, kept, *METHODS),
        order("float32", "executorch-float32"),
        static("int8"),
        order("dynamic", "executorch-int8-dynamic"),
    ]
    if name == "two":
        orders.append(static("cat", keep_float_types=["cat"]))
    if name != "conv":
        return orders
    return [
        *orders,
        order("entropy", "executorch-int8", "entropy", method="entropy"),
        order("percentile", "executorch-int8", "percentile-99", method="percentile", percentile=99.0),
        static("tensor", per_channel=False),
        static("module", keep_float_names=["block.0"]),
        static("class", keep_float_types=["Linear"]),
        static("aten", keep_float=True, quantize_types=["linear"]),
        static("joined", keep_float_names=["add"]),
        static("unknown", keep_float_names=["features.9"]),
        static("nothing", keep_float=True),
        static("old", target={"runtime_version": "1.0.0"}),
    ]


def test_float_builds_agree_with_their_programs(made: Made) -> None:
    assert {name: made.least_db(f"{name}-float32") > 100.0 for name in made.programs} == dict.fromkeys(
        made.programs, True
    )


@pytest.mark.parametrize(
    ("build", "least"),
    [
        ("conv-int8", 25.0),
        ("conv-tensor", 20.0),
        ("shared-int8", 25.0),
        ("two-int8", 25.0),
        ("token-int8", 25.0),
    ]
    + [(f"{name}-dynamic", 30.0) for name in ("conv", "shared", "two", "token")],
)
def test_int8_builds_are_near_their_programs(made: Made, build: str, least: float) -> None:
    assert made.least_db(build) >= least
    assert made.builds[build].manifest.operators["int8"] > 0


def test_methods_give_other_builds(made: Made) -> None:
    digests = {made.builds[f"conv-{one}"].manifest.sha256 for one in ("int8", "entropy", "percentile")}
    assert len(digests) == 3


def test_the_same_request_gives_the_same_bytes(made: Made) -> None:
    assert made.builds["conv-int8"].manifest.sha256 == made.builds["conv-again"].manifest.sha256


def test_a_convolutional_network_is_wholly_delegated_and_int8(made: Made) -> None:
    manifest = made.builds["conv-int8"].manifest
    assert set(manifest.operators) == {"int8"}
    assert manifest.not_delegated == {}
    assert manifest.float_operators == ()
    assert manifest.wide_tensors == ()


def test_what_no_delegate_takes_is_listed(made: Made) -> None:
    manifest = made.builds["two-int8"].manifest
    assert manifest.not_delegated == {"aten::cumsum.out": 1}
    assert made.builds["two-int8"].float_operators == {"cumsum": "not_quantizable"}
    found = (made.builds["two-int8"].result or {})["findings"]
    assert {one["id"] for one in found} == {"BUILD-FLOAT-OPERATORS", "BUILD-NOT-DELEGATED"}


def test_token_networks_keep_in_float_what_masks_and_embeddings_need(made: Made) -> None:
    reasons = made.builds["token-int8"].float_operators
    assert reasons["add_2"] == "unsafe_to_quantize"
    assert reasons["embedding"] == "data_movement"
    assert reasons["softmax"] == "not_quantizable"
    manifest = made.builds["token-int8"].manifest
    assert [one.name for one in manifest.wide_tensors] == ["tokens.weight", "positions.weight"]
    assert manifest.inputs == (TensorSpec("ids", "int64", (1, 8)),)


def test_dynamic_builds_say_what_the_recipe_leaves_in_float(made: Made) -> None:
    reasons = made.builds["conv-dynamic"].float_operators
    assert reasons["add"] == "unsupported_by_recipe"
    assert "linear" not in reasons


@pytest.mark.parametrize(
    ("build", "kept"),
    [("module", {"conv2d_1", "relu"}), ("class", {"linear"})],
)
def test_a_plan_keeps_layers_in_float(made: Made, build: str, kept: set[str]) -> None:
    done = made.builds[f"conv-{build}"]
    assert {name for name, reason in done.float_operators.items() if reason == "kept_by_plan"} == kept
    assert done.manifest.operators["float32"] == 1
    assert made.least_db(f"conv-{build}") > 25.0


def test_all_but_one_type_stays_in_float(made: Made) -> None:
    reasons = made.builds["conv-aten"].float_operators
    assert "linear" not in reasons
    assert reasons["conv2d"] == "kept_by_plan"


def test_a_cat_is_kept_in_float(made: Made) -> None:
    assert made.builds["two-cat"].float_operators["cat"] == "kept_by_plan"


def test_what_xnnpack_computes_in_int8_all_the_same_is_said(made: Made) -> None:
    done = made.builds["conv-joined"]
    assert done.manifest.operators == made.builds["conv-int8"].manifest.operators
    found = {one["id"]: one["facts"] for one in (done.result or {})["findings"]}
    assert found["BUILD-KEPT-IN-INT8"]["operators"] == ["add"]


@pytest.mark.parametrize(
    ("build", "text"),
    [
        ("unknown", "RecipeError: keep_float_names: The source model has no operator 'features.9'"),
        ("nothing", "ToolchainError"),
        ("old", "RecipeError: target.runtime_version: The build needs ExecuTorch"),
    ],
)
def test_what_cannot_be_built_is_refused(made: Made, build: str, text: str) -> None:
    error = made.builds[f"conv-{build}"].error
    assert error is not None
    assert error.startswith(text)


def test_metadata_can_be_read_again(made: Made) -> None:
    from executorch.runtime import Runtime

    path = made.builds["conv-int8"].folder / "out" / "model.pte"
    assert read_pte(path).metadata["phoneproof.labels"] == LABELS
    method = Runtime.get().load_program(path).load_method("phoneproof.labels")
    assert method is not None
    assert method.execute([]) == [LABELS]


def test_a_truncated_build_and_wrong_inputs_are_refused(made: Made, tmp_path: Path) -> None:
    from phoneproof.runtimes.executorch import load

    content = (made.builds["two-float32"].folder / "out" / "model.pte").read_bytes()
    (tmp_path / "short.pte").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"short\.pte is not an ExecuTorch program, or is damaged"):
        load(LoadRequest(tmp_path / "short.pte", "cpu", False, 1, {}))
    (tmp_path / "whole.pte").write_bytes(content)
    session = load(LoadRequest(tmp_path / "whole.pte", "cpu", False, 1, {}))
    left, right = np.zeros((1, 8), np.float32), np.zeros((1, 4), np.float32)
    assert session.accelerator_actual == "cpu"
    refused: list[tuple[dict[str, NDArray[Any]], str]] = [
        ({"left": left}, "the build takes 2"),
        ({"right": right, "left": left}, "input 0, 'right', is float32"),
        ({"left": left.astype(np.float64), "right": right}, "input 0, 'left', is float64"),
    ]
    for wrong, text in refused:
        with pytest.raises(ValueError, match=text):
            session.prepare(wrong)
    session.close()
    session.close()
    with pytest.raises(ValueError, match="closed"):
        session.prepare({"left": left, "right": right})


def test_an_invocation_repeats_and_two_do_not_disturb_each_other(made: Made) -> None:
    from phoneproof.runtimes.executorch import load

    path = made.builds["two-int8"].folder / "out" / "model.pte"
    session = load(LoadRequest(path, "cpu", False, 1, {}))
    one, other = (session.prepare(sample) for sample in made.inputs("two", 2))
    first = [value.copy() for value in one()]
    other()
    for value, again in zip(first, one(), strict=True):
        np.testing.assert_array_equal(value, again)
    session.close()


def test_threads_are_set_before_a_program_is_loaded_and_not_beside_one(made: Made) -> None:
    from executorch.extension.pybindings import _C

    from phoneproof.errors import RuntimeUnavailableError
    from phoneproof.runtimes.executorch import load

    path = made.builds["two-int8"].folder / "out" / "model.pte"
    session = load(LoadRequest(path, "cpu", False, 2, {}))
    assert _C._threadpool_get_thread_count() == 2
    with pytest.raises(RuntimeUnavailableError, match="2 threads and not 1"):
        load(LoadRequest(path, "cpu", False, 1, {}))
    session.close()
    load(LoadRequest(path, "cpu", False, 1, {})).close()
    assert _C._threadpool_get_thread_count() == 1
