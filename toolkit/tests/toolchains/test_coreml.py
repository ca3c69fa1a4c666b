"""Core ML builds of exported programs: right by the interpreter, small, honest about what is in float."""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from phoneproof.builds.model_files import model_sha256
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.runtimes.mil_interpreter import load
from phoneproof.runtimes.runtime import LoadRequest
from phoneproof.toolchains.mlpackage_file import read_mlpackage
from tests.models import coreml_networks as own
from tests.models.torch_networks import (
    ConvNet,
    TokenClassifier,
    TwoInTwoOut,
    exported,
    saved_program,
    trained,
)
from tests.toolchains.built import sqnr_db
from tests.toolchains.orders import Done, Order, carried_out
from tests.toolchains.sample_sets import stored_set
from tests.toolchains.torch_builds import building, calibration

pytestmark = [
    pytest.mark.slow,  # importing coremltools alone takes 10 s
    pytest.mark.filterwarnings("ignore"),  # torch warns of its own ways of exporting and saving
]

RECIPES = ["coreml-float32", "coreml-float16", "coreml-int8-weights", "coreml-int8"]
METHODS = [{"method": "minmax"}, {"method": "entropy"}]
NETWORKS: Mapping[str, tuple[Any, Mapping[str, tuple[int, ...]]]] = {
    "conv": (ConvNet, {"image": (3, 16, 16)}),
    "weighted": (own.Weighted, {"image": (3, 8, 8)}),
    "tokens": (TokenClassifier, {"ids": (8,)}),
    "two": (TwoInTwoOut, {"left": (8,), "right": (4,)}),
    "recurrent": (own.Recurrent, {"frames": (5, 8)}),
}
CALIBRATED = ["conv", "weighted", "tokens", "two"]


@dataclass(frozen=True)
class Subject:
    """A saved program and what it gives for samples. samples: by input, first axis of length 16."""

    path: Path
    module: Any
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    samples: Mapping[str, Any]

    def expected(self) -> list[list[Any]]:
        """The module's outputs, sample by sample."""
        found = []
        with torch.no_grad():
            for feed in self.feeds():
                given = self.module(*(torch.from_numpy(one) for one in feed.values()))
                found.append([one.numpy() for one in (given if isinstance(given, tuple) else (given,))])
        return found

    def feeds(self) -> Iterator[dict[str, Any]]:
        for index in range(16):
            yield {name: values[index : index + 1] for name, values in self.samples.items()}


def subject(root: Path, name: str) -> Subject:
    kind, shapes = NETWORKS[name]
    draw = np.random.default_rng(5)
    samples = {
        key: draw.integers(0, 32, (16, *shape)) if key == "ids" else draw.random((16, *shape), np.float32)
        for key, shape in shapes.items()
    }
    example = [torch.from_numpy(one[:1]) for one in samples.values()]
    module = trained(kind(), example)
    path = saved_program(exported(module, example), root / f"{name}.pt2")
    with torch.no_grad():
        given = module(*example)
    outputs = given if isinstance(given, tuple) else (given,)
    names = ["output"] if len(outputs) == 1 else [f"output_{k}" for k in range(len(outputs))]
    return Subject(
        path,
        module,
        tuple(TensorSpec(key, one.dtype.name, (1, *one.shape[1:])) for key, one in samples.items()),
        tuple(
            TensorSpec(key, str(one.dtype).removeprefix("torch."), tuple(one.shape))
            for key, one in zip(names, outputs, strict=True)
        ),
        samples,
    )


@dataclass(frozen=True)
class Bench:
    """The subjects, and every build of them that the tests look at."""

    subjects: Mapping[str, Subject]
    done: Mapping[str, Done]
    again: Mapping[str, Done]

    def package(self, name: str) -> Path:
        return self.done[name].folder / "out" / "model.mlpackage"

    def outputs(self, name: str) -> list[list[Any]]:
        """What a build gives for the samples of its subject, by the interpreter."""
        made = self.done[name].manifest
        session = load(LoadRequest(self.package(name), "cpu", True, 1, {}))
        found = []
        for feed in self.subjects[name.partition("/")[0]].feeds():
            typed = zip(made.inputs, feed.values(), strict=True)
            results = session.prepare({spec.name: one.astype(spec.dtype) for spec, one in typed})()
            found.append(list(results))
        return found

    def worst_db(self, name: str) -> float:
        """SQNR of the worst float output."""
        expected, found = self.subjects[name.partition("/")[0]].expected(), self.outputs(name)
        return min(
            sqnr_db([one[k] for one in expected], [one[k] for one in found])
            for k in range(len(expected[0]))
            if expected[0][k].dtype.kind == "f"
        )


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    root = tmp_path_factory.mktemp("coreml")
    subjects = {name: subject(root, name) for name in NETWORKS}
    orders: list[Order] = []
    calibrated: dict[str, Mapping[str, str]] = {}
    for name in CALIBRATED:
        one = subjects[name]
        calibrated[name] = stored_set(root / "sets" / name, one.inputs, one.samples)
        orders.append(calibration(f"{name}/ranges", one.path, calibrated[name], *METHODS))

    def order(name: str, recipe: str, key: str = "", method: str = "minmax", **options: Any) -> Order:
        one = subjects[name]
        ranges = root / "first" / name / "ranges" / f"ranges-{method}.json"
        static = (ranges, calibrated[name]) if recipe == "coreml-int8" else None
        if method != "minmax":
            options["method"] = method
        more = {"options": options, "metadata": {"phoneproof.labels": '["a", "<b>"]'}}
        return building(
            f"{name}/{key or recipe}", "coreml", recipe, one.path, (one.inputs, one.outputs), static, **more
        )

    for name in NETWORKS:
        wanted = RECIPES if name in CALIBRATED else RECIPES[:2]
        orders += [order(name, r) for r in wanted if (name, r) != ("two", "coreml-int8-weights")]
    orders.append(order("conv", "coreml-int8", "entropy", "entropy"))
    for recipe, key in (("coreml-int8", "int8"), ("coreml-int8-weights", "weights")):
        for option, value in KEPT.values():
            kept: Any = {option: [value]}
            orders.append(order("weighted", recipe, f"{key}-{value}", **kept))
        orders.append(order("weighted", recipe, f"{key}-per-tensor", per_channel=False))
        orders.append(order("weighted", recipe, f"{key}-new", target={"deployment_target": "iOS18"}))
        orders.append(order("weighted", recipe, f"{key}-old", target={"deployment_target": "iOS15"}))
        orders.append(order("weighted", recipe, f"{key}-unknown", keep_float_names=["features.9"]))
        orders.append(order("weighted", recipe, f"{key}-unknown-type", keep_float_types=["Conv3d"]))
        orders.append(order("weighted", recipe, f"{key}-all", keep_float=True))
    orders.append(order("weighted", "coreml-int8-weights", "half-tied", keep_float_names=["tied"]))
    done = carried_out([*orders, *(fault(root, *one) for one in FAULTS)], root / "first")
    repeated = [one for one in orders if one.name in REPEATED]
    return Bench(subjects, done, carried_out(repeated, root / "second"))


KEPT = {
    "node": ("keep_float_names", "conv2d_1"),
    "module": ("keep_float_names", "features.0"),
    "class": ("keep_float_types", "Conv2d"),
    "aten": ("keep_float_types", "linear"),
}
REPEATED = [f"weighted/{recipe}" for recipe in RECIPES]


def fault(
    root: Path, name: str, module: Any, example: Sequence[torch.Tensor], more: Mapping[str, Any]
) -> Order:
    """A build that does not come to be, or of odd inputs and outputs."""
    importlib.import_module("torch.ao.quantization.fx._decomposed")  # registers quantized_decomposed
    path = saved_program(exported(module, example), root / f"{name.replace('/', '-')}.pt2")
    if "what" in more:
        request = {"source": str(path), **more}
        return Order(name, "tests.toolchains.coreml_faults", request)
    made = building(name, "coreml", "coreml-float32", path, ((), ()))
    source = {**made.request["source"], **more}
    return Order(name, made.module, {**made.request, "source": source})


FOUR = torch.ones(1, 4)
FAULTS: list[tuple[str, Any, list[torch.Tensor], dict[str, Any]]] = [
    (
        "odd/mixed",
        own.Mixed(),
        [FOUR.double(), FOUR > 0, FOUR.half()],
        {"outputs": ["scores:0", "over.half"]},
    ),
    ("odd/twice", own.Twice(), [FOUR], {}),
    ("odd/passed", own.PassedOn(), [FOUR], {}),
    ("odd/operator", own.NoCoreMl(), [torch.eye(4)[None]], {}),
    ("odd/bytes", own.Bytes(), [torch.ones(1, 4, dtype=torch.uint8)], {}),
    ("fault/pass", own.ScalesAroundReshape(), [torch.rand(1, 4, 4)], {"what": "pass"}),
    ("fault/name", own.Weighted().eval(), [torch.rand(1, 3, 8, 8)], {"what": "name"}),
]


@pytest.mark.parametrize(("recipe", "least"), [("coreml-float32", 100), ("coreml-float16", 40)])
@pytest.mark.parametrize("name", NETWORKS)
def test_float_builds_compute_what_the_program_computes(
    bench: Bench, name: str, recipe: str, least: float
) -> None:
    made = bench.done[f"{name}/{recipe}"].manifest
    assert bench.worst_db(f"{name}/{recipe}") >= least
    assert made.float_operators == ()
    assert made.floor.deployment_target == "iOS15"
    computed = set(made.operators) - {"bool", "int32"}
    # The mask of -1e9 is beyond float16, which coremltools would make infinite.
    wide = {"float16": {"float32"} if name == "tokens" else set(), "float32": set()}
    assert computed - wide[made.precision.value] == {made.precision.value}
    assert [spec.dtype for spec in made.inputs] == ["int32" if name == "tokens" else "float32"] * len(
        made.inputs
    )
    assert [spec.name for spec in made.inputs] == [spec.name for spec in bench.subjects[name].inputs]
    assert [spec.name for spec in made.outputs] == [spec.name for spec in bench.subjects[name].outputs]
    assert made.source_names == {}


@pytest.mark.parametrize(
    ("name", "least"), [("conv/coreml-int8", 25), ("conv/entropy", 20), ("weighted/coreml-int8", 25)]
)
def test_int8_builds_are_close_to_the_program(bench: Bench, name: str, least: float) -> None:
    assert bench.worst_db(name) >= least
    assert bench.done[name].manifest.calibration_sha256 is not None


def test_the_method_of_calibration_changes_the_build(bench: Bench) -> None:
    packages = [bench.package(f"conv/{key}") for key in ("coreml-int8", "entropy")]
    assert model_sha256(packages[0]) != model_sha256(packages[1])


def test_a_convolutional_network_is_int8_throughout(bench: Bench) -> None:
    made = bench.done["conv/coreml-int8"].manifest
    assert set(made.operators) == {"int8"}
    assert made.float_operators == ()
    assert made.wide_tensors == ()


def test_operators_in_float_are_named_as_in_the_source_with_reasons(bench: Bench) -> None:
    assert bench.done["tokens/coreml-int8"].float_operators == {
        "embedding": "data_movement",
        "embedding_1": "data_movement",
        "mul_1": "outputs_not_quantized",
        "add_2": "unsafe_to_quantize",
        "softmax": "not_quantizable",
        "softmax_1": "not_quantizable",
    }
    assert bench.done["two/coreml-int8"].float_operators["cumsum"] == "not_quantizable"
    assert bench.worst_db("tokens/coreml-int8") > 25


def test_int8_weights_are_near_the_program_and_the_rest_is_told(bench: Bench) -> None:
    name = "weighted/coreml-int8-weights"
    made = bench.done[name].manifest
    assert bench.worst_db(name) > 30
    assert set(made.operators) == {"float16"}
    assert bench.done[name].float_operators == {"linear_3": "too_small"}
    # The map that is added is no weight: coremltools would quantize it too. Its name is the parameter's.
    assert [tensor.name for tensor in made.wide_tensors] == ["p_bias_map_to_fp16"]


def test_weights_take_a_quarter_of_the_space(bench: Bench) -> None:
    def bytes_of(recipe: str) -> int:
        package = bench.package(f"weighted/{recipe}")
        dtypes = {"coreml-int8-weights": "int8", "coreml-float32": "float32", "coreml-float16": "float16"}
        constants = read_mlpackage(package).constants
        return sum(
            one.size_bytes for one in constants if one.dtype == dtypes[recipe] and one.size_bytes > 400
        )

    assert bytes_of("coreml-float16") * 2 == bytes_of("coreml-float32")
    assert 0.15 < bytes_of("coreml-int8-weights") / bytes_of("coreml-float32") < 0.26


@pytest.mark.parametrize("key", ["int8", "weights"])
def test_weights_have_one_scale_or_one_for_each_channel(bench: Bench, key: str) -> None:
    recipe = {"int8": "coreml-int8", "weights": "coreml-int8-weights"}[key]
    sizes = {}
    for name in (recipe, f"{key}-per-tensor"):
        constants = read_mlpackage(bench.package(f"weighted/{name}")).constants
        sizes[name] = {one.size_bytes // 2 for one in constants if one.name.endswith(": scale")}
    assert sizes[f"{key}-per-tensor"] == {1}
    assert {32, 24, 16} <= sizes[recipe]


@pytest.mark.parametrize("key", ["int8", "weights"])
@pytest.mark.parametrize(
    ("value", "kept", "weight"),
    [
        ("conv2d_1", {"conv2d_1"}, 32 * 24 * 9),
        ("features.0", {"conv2d"}, 3 * 32 * 9),
        ("Conv2d", {"conv2d", "conv2d_1"}, 32 * 24 * 9),
        ("linear", {"linear", "linear_1", "linear_2", "linear_3"}, 32 * 32),
    ],
)
def test_what_the_plan_keeps_stays_in_float(
    bench: Bench, key: str, value: str, kept: set[str], weight: int
) -> None:
    done = bench.done[f"weighted/{key}-{value}"]
    named = {name for name, reason in done.float_operators.items() if reason == "kept_by_plan"}
    assert kept <= named
    assert named <= kept | {"relu", "relu_1", "tanh"}  # what is computed together with them
    assert 2 * weight in [tensor.size_bytes for tensor in done.manifest.wide_tensors]


@pytest.mark.parametrize("key", ["int8", "weights"])
def test_an_unknown_name_or_type_is_refused_with_near_ones(bench: Bench, key: str) -> None:
    assert "no operator 'features.9'. Near ones: 'features" in str(
        bench.done[f"weighted/{key}-unknown"].error
    )
    error = str(bench.done[f"weighted/{key}-unknown-type"].error)
    assert "no operator type 'Conv3d'. Near ones: 'Conv2d'" in error


def test_the_vendor_ignores_an_unknown_name(bench: Bench) -> None:
    result = bench.done["fault/name"].result
    assert result is not None
    assert result["int8"] > 5


@pytest.mark.parametrize("key", ["int8", "weights"])
def test_a_build_with_nothing_in_int8_is_an_error(bench: Bench, key: str) -> None:
    assert "left every operator in float" in str(bench.done[f"weighted/{key}-all"].error)


def test_one_weight_of_two_operators_is_kept_for_both_or_none(bench: Bench) -> None:
    error = str(bench.done["weighted/half-tied"].error)
    assert error.startswith("RecipeError")
    assert "share their weights" in error


@pytest.mark.parametrize(("key", "floor"), [("int8", "iOS17"), ("weights", "iOS16")])
def test_a_target_that_is_too_old_is_refused_and_a_newer_one_taken(
    bench: Bench, key: str, floor: str
) -> None:
    error = str(bench.done[f"weighted/{key}-old"].error)
    assert f"needs {floor}, and the plan's target is iOS15" in error
    assert bench.done[f"weighted/{key}-new"].manifest.floor.deployment_target == "iOS18"
    assert bench.worst_db(f"weighted/{key}-new") > 25


@pytest.mark.parametrize("name", REPEATED)
def test_the_same_request_gives_the_same_bytes_in_every_process(bench: Bench, name: str) -> None:
    first, second = bench.done[name], bench.again[name]
    assert first.manifest.sha256 == second.manifest.sha256
    assert first.manifest.sha256 == model_sha256(bench.package(name))
    files = sorted(file.name for file in first.manifest.files)
    assert files == [
        "model.mlpackage/Data/com.apple.CoreML/model.mlmodel",
        "model.mlpackage/Data/com.apple.CoreML/weights/weight.bin",
        "model.mlpackage/Manifest.json",
    ]


def test_metadata_is_embedded_without_the_day(bench: Bench) -> None:
    metadata = read_mlpackage(bench.package("weighted/coreml-int8")).metadata
    assert metadata["phoneproof.labels"] == '["a", "<b>"]'
    assert metadata["com.github.apple.coremltools.version"] == "9.0"
    assert not any("date" in key for key in metadata)


def test_dtypes_and_names_that_core_ml_lacks_are_mapped_and_told(bench: Bench) -> None:
    made = bench.done["odd/mixed"].manifest
    assert [(s.name, s.dtype) for s in made.inputs] == [
        ("values", "float32"),
        ("mask", "int32"),
        ("half", "float32"),
    ]
    assert [(s.name, s.dtype) for s in made.outputs] == [("scores_0", "float32"), ("over_half", "int32")]
    assert made.source_names == {"scores_0": "scores:0", "over_half": "over.half"}


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("twice", "RecipeError", "'output_1' is the same tensor as the output 'output_0'"),
        ("passed", "RecipeError", "'output_1' is the same tensor as the input 'values'"),
        ("operator", "ToolchainError", "cannot convert the operator 'linalg_qr'"),
        ("bytes", "RecipeError", "no inputs and outputs of uint8"),
    ],
)
def test_what_core_ml_cannot_do_is_a_named_limit(bench: Bench, name: str, kind: str, words: str) -> None:
    error = str(bench.done[f"odd/{name}"].error)
    assert error.startswith(kind)
    assert words in error


def test_the_miscompiling_pass_is_left_out_and_would_be_caught(bench: Bench) -> None:
    """coremltools 9.0: common::int_op_canonicalization around a reshape between two scales."""
    result = bench.done["fault/pass"].result
    assert result is not None
    assert result["False"] == "right"
    assert "dB against what it was made of, where rounding leaves 100.0 dB" in result["True"]
