"""Builds made by the ONNX Runtime toolchain: right, small, honest about what they compute in, repeatable."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from phoneproof.errors import ProtocolError, RecipeError, SourceModelError, ToolchainError
from phoneproof.recipes.table import Method
from phoneproof.sources.onnx_model import load_onnx
from tests.models.onnx_networks import (
    NetworkBuilder,
    branching_relu,
    classifier,
    mlp,
    saved,
    shared_weights,
    two_inputs,
)
from tests.own_path import OWN_PATH
from tests.toolchains.built import (
    Sample,
    built,
    outputs_of,
    ranges_file,
    request_for,
    samples_for,
    sqnr_db,
)

STATIC = ["onnx-int8", "onnx-int8-qoperator"]
NETWORKS = {
    "classifier": classifier,
    "two_inputs": two_inputs,
    "branching_relu": branching_relu,
    "mlp": mlp,
}


@dataclass(frozen=True)
class Network:
    """A saved network, calibrated with MinMax, and other samples for judging."""

    path: Path
    ranges: Path
    judging: Sequence[Sample]
    reference: list[list[Any]]

    def worst_sqnr_db(self, content: bytes) -> float:
        """Of the outputs of a build against the source."""
        outputs = outputs_of(content, self.judging)
        return min(
            sqnr_db([r[k] for r in self.reference], [o[k] for o in outputs]) for k in range(len(outputs[0]))
        )


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Network]:
    folder = tmp_path_factory.mktemp("networks")
    return {name: network(folder / f"{name}.onnx", make()) for name, make in NETWORKS.items()}


def network(path: Path, model: Any) -> Network:
    saved(model, path)
    judging = samples_for(path, 16, seed=9000)
    reference = outputs_of(load_onnx(path).model, judging)
    # The judging samples calibrate too, so that what is measured is rounding, not a range too narrow.
    return Network(path, ranges_file(path, [*samples_for(path, 16), *judging]), judging, reference)


def types_of(model: Any) -> dict[str, int]:
    return {
        kind: sum(n.op_type == kind for n in model.graph.node)
        for kind in {n.op_type for n in model.graph.node}
    }


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("recipe", STATIC)
def test_static_builds_are_int8_and_close_to_the_source(
    networks: Mapping[str, Network], tmp_path: Path, name: str, recipe: str
) -> None:
    made = built(request_for(networks[name].path, recipe, networks[name].ranges), tmp_path)
    assert networks[name].worst_sqnr_db(made.content) > 22
    assert made.manifest.operators["int8"] >= 3
    assert made.manifest.inputs == load_onnx(networks[name].path).inputs
    expected = {"branching_relu": {"unsafe_to_quantize"}} if recipe == "onnx-int8-qoperator" else {}
    reasons = {operator.reason for operator in made.manifest.float_operators} - {"data_movement"}
    assert reasons == expected.get(name, set())


@pytest.mark.parametrize("method", [Method.ENTROPY, Method.PERCENTILE])
def test_other_calibration_methods_build_too(
    networks: Mapping[str, Network], tmp_path: Path, method: Method
) -> None:
    path = networks["classifier"].path
    ranges = ranges_file(path, samples_for(path, 64), method)
    options = {"method": method.value} | ({"percentile": 99.99} if method is Method.PERCENTILE else {})
    made = built(request_for(path, "onnx-int8", ranges, **options), tmp_path)
    assert networks["classifier"].worst_sqnr_db(made.content) > 22


@pytest.mark.parametrize("name", NETWORKS)
def test_dynamic_builds_are_close_to_the_source(
    networks: Mapping[str, Network], tmp_path: Path, name: str
) -> None:
    made = built(request_for(networks[name].path, "onnx-int8-dynamic"), tmp_path)
    assert networks[name].worst_sqnr_db(made.content) > 30
    assert made.manifest.calibration_sha256 is None
    integer = {"ConvInteger", "MatMulInteger"}
    assert made.manifest.operators["int8"] == sum(n.op_type in integer for n in made.model.graph.node)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_float_build_computes_what_the_source_computes(
    networks: Mapping[str, Network], tmp_path: Path, name: str
) -> None:
    made = built(request_for(networks[name].path, "onnx-float32"), tmp_path)
    assert networks[name].worst_sqnr_db(made.content) > 120
    assert set(made.manifest.operators) == {"float32"}
    assert (made.manifest.float_operators, made.findings) == ((), [])


def test_weights_are_quantized_per_output_channel_where_asked(
    networks: Mapping[str, Network], tmp_path: Path
) -> None:
    subject = networks["classifier"]
    scales = {}
    for per_channel in (True, False):
        request = request_for(subject.path, "onnx-int8", subject.ranges, per_channel=per_channel)
        model = built(request, tmp_path / str(per_channel)).model
        scales[per_channel] = {
            t.name: numpy_helper.to_array(t) for t in model.graph.initializer if t.name.endswith("_w_scale")
        }
        axes = {
            node.input[0]: [a.i for a in node.attribute if a.name == "axis"]
            for node in model.graph.node
            if node.op_type == "DequantizeLinear"
        }
        assert axes["ConvBnFusion_W_depthwise_w_quantized"] == ([0] if per_channel else [])
    assert {s.shape for s in scales[False].values()} == {()}
    assert scales[True]["right_w_scale"].shape == (6,)
    assert np.ptp(np.log2(scales[True]["right_w_scale"])) > 0.5


def test_dynamic_convolutions_are_per_channel_too(networks: Mapping[str, Network], tmp_path: Path) -> None:
    subject = networks["classifier"]
    quality = {}
    for per_channel in (True, False):
        request = request_for(subject.path, "onnx-int8-dynamic", per_channel=per_channel)
        made = built(request, tmp_path / str(per_channel))
        quality[per_channel] = subject.worst_sqnr_db(made.content)
        weights = {t.name: numpy_helper.to_array(t) for t in made.model.graph.initializer}
        assert weights["right_w_scale"].shape == ((6, 1, 1) if per_channel else ())
        assert weights["right_w_quantized"].dtype == np.uint8
    assert quality[True] > quality[False]


def test_inputs_and_outputs_become_int8_where_asked(networks: Mapping[str, Network], tmp_path: Path) -> None:
    subject = networks["two_inputs"]
    plain = built(request_for(subject.path, "onnx-int8", subject.ranges), tmp_path / "float")
    made = built(request_for(subject.path, "onnx-int8", subject.ranges, io="int8"), tmp_path / "int8")
    specs = (*made.manifest.inputs, *made.manifest.outputs)
    assert [s.name for s in specs] == ["image", "numbers", "scores_out", "box_out"]
    assert {s.dtype for s in specs} == {"int8"}
    assert types_of(plain.model)["QuantizeLinear"] - types_of(made.model)["QuantizeLinear"] == 2

    def stored(name: str, value: Any) -> Any:
        spec = next(s for s in specs if s.name == name)
        assert spec.scale is not None
        assert spec.zero_point is not None
        return np.clip(np.rint(value / np.float32(spec.scale)) + spec.zero_point, -128, 127).astype(np.int8)

    quantized = [{name: stored(name, value) for name, value in sample.items()} for sample in subject.judging]
    expected = outputs_of(plain.content, subject.judging)
    for floats, integers in zip(expected, outputs_of(made.content, quantized), strict=True):
        for spec, value, integer in zip(made.manifest.outputs, floats, integers, strict=True):
            np.testing.assert_array_equal(stored(spec.name, value), integer)


def test_int8_io_is_refused_where_the_outer_operator_stays_in_float(
    networks: Mapping[str, Network], tmp_path: Path
) -> None:
    subject = networks["classifier"]
    request = request_for(subject.path, "onnx-int8", subject.ranges, io="int8", keep_float_names=["softmax"])
    with pytest.raises(RecipeError, match="'softmax_out' cannot be int8"):
        built(request, tmp_path)


@pytest.mark.parametrize(
    ("recipe", "options"),
    [
        ("onnx-int8-qoperator", {"io": "int8"}),
        ("onnx-int8-dynamic", {"io": "int8"}),
        ("onnx-float32", {"io": "int8"}),
        ("onnx-int8", {"io": "int16"}),
        ("onnx-float32", {"keep_float_names": ["stem"]}),
        ("onnx-float32", {"keep_float_types": ["Conv"]}),
    ],
)
def test_options_that_mean_nothing_for_the_recipe_are_refused(
    networks: Mapping[str, Network], tmp_path: Path, recipe: str, options: dict[str, Any]
) -> None:
    subject = networks["classifier"]
    ranges = subject.ranges if recipe in STATIC else None
    with pytest.raises(RecipeError):
        built(request_for(subject.path, recipe, ranges, **options), tmp_path)


@pytest.mark.parametrize("recipe", [*STATIC, "onnx-int8-dynamic"])
@pytest.mark.parametrize("kept", ["stem_bn", "right", "head"])
def test_a_kept_operator_computes_in_float_even_when_fused_into_another(
    networks: Mapping[str, Network], tmp_path: Path, recipe: str, kept: str
) -> None:
    subject = networks["classifier"]
    ranges = subject.ranges if recipe in STATIC else None
    made = built(request_for(subject.path, recipe, ranges, keep_float_names=[kept]), tmp_path)
    prepared = {"stem_bn": "stem"}.get(kept, kept)
    left = {operator.name: operator.reason for operator in made.manifest.float_operators}
    assert left[prepared] == "kept_by_plan"
    weights = {t.name: t.data_type for t in made.model.graph.initializer}
    # Some versions of the vendor's code transpose the weights of a Gemm under a new name.
    names = {"stem_bn": ("ConvBnFusion_W_stem_w",), "head": ("head_w", "head_w_Transposed")}
    assert onnx.TensorProto.FLOAT in {weights.get(name) for name in names.get(kept, (f"{kept}_w",))}
    assert not any(name.endswith("_quantized") and kept in name for name in weights if "_w" in name)


def test_a_kept_type_keeps_all_its_operators(networks: Mapping[str, Network], tmp_path: Path) -> None:
    subject = networks["classifier"]
    request = request_for(subject.path, "onnx-int8", subject.ranges, keep_float_types=["Conv"])
    made = built(request, tmp_path)
    kept = [o.name for o in made.manifest.float_operators if o.reason == "kept_by_plan"]
    assert sorted(kept) == ["depthwise", "left", "pointwise", "right", "stem"]
    (finding,) = made.findings
    assert finding["id"] == "BUILD-FLOAT-OPERATORS"
    assert "kept_by_plan" in finding["facts"]["reasons"]


def test_a_kept_operator_that_runtimes_compute_in_int8_anyway_is_a_finding(
    networks: Mapping[str, Network], tmp_path: Path
) -> None:
    subject = networks["classifier"]
    made = built(request_for(subject.path, "onnx-int8", subject.ranges, keep_float_names=["join"]), tmp_path)
    facts = {finding["id"]: finding["facts"] for finding in made.findings}
    assert facts["BUILD-KEPT-IN-INT8"] == {"operators": ["join"]}


@pytest.mark.parametrize(
    ("option", "value", "near"),
    [
        ("keep_float_names", "steam", "'stem'"),
        ("keep_float_names", "Stem", "'stem'"),
        ("keep_float_types", "Convolution", "'Conv'"),
        ("keep_float_types", "LSTM", "It has"),
    ],
)
def test_an_unknown_name_or_type_is_refused_with_near_ones(
    networks: Mapping[str, Network], tmp_path: Path, option: str, value: str, near: str
) -> None:
    subject = networks["classifier"]
    request = request_for(subject.path, "onnx-int8", subject.ranges, **{option: [value]})
    with pytest.raises(RecipeError) as caught:
        built(request, tmp_path)
    assert caught.value.where == option
    assert near in (caught.value.next_step or "")


def test_a_build_in_which_nothing_is_int8_is_an_error(
    networks: Mapping[str, Network], tmp_path: Path
) -> None:
    subject = networks["mlp"]
    types = ["MatMul", "Add", "Mul", "Sigmoid"]
    for recipe, ranges in (("onnx-int8", subject.ranges), ("onnx-int8-dynamic", None)):
        request = request_for(subject.path, recipe, ranges, keep_float_types=types)
        with pytest.raises(ToolchainError, match="every operator in float"):
            built(request, tmp_path)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("recipe", STATIC)
def test_one_vector_in_several_roles_is_quantized_for_each(tmp_path: Path, recipe: str) -> None:
    """The vendor's QOperator form alone writes it as int32 for all, and no runtime loads the model."""
    path = saved(shared_weights(), tmp_path / "m.onnx")
    samples = samples_for(path, 16)
    made = built(request_for(path, recipe, ranges_file(path, samples)), tmp_path)
    # Not with exact arithmetic: session.x64quantprecision of onnxruntime 1.32 fails on a shared kernel.
    outputs = outputs_of(made.content, samples, exact=False)
    reference = outputs_of(load_onnx(path).model, samples)
    assert sqnr_db([r[0] for r in reference], [o[0] for o in outputs]) > 20
    kernels = [t for t in made.model.graph.initializer if len(t.dims) == 4]
    assert [t.name for t in kernels] == ["left_w_quantized"]


def test_a_shared_relu_is_not_dropped(networks: Mapping[str, Network], tmp_path: Path) -> None:
    """The vendor's QOperator form alone drops it: conv + relu(conv) then becomes 2 * conv."""
    subject = networks["branching_relu"]
    made = built(request_for(subject.path, "onnx-int8-qoperator", subject.ranges), tmp_path)
    assert types_of(made.model)["Relu"] == 1
    assert subject.worst_sqnr_db(made.content) > 22


@pytest.mark.parametrize("recipe", STATIC)
def test_a_clip_that_leaves_zero_out_is_not_dropped(tmp_path: Path, recipe: str) -> None:
    build = NetworkBuilder()
    bounds = [build.weight(n, np.array(v, np.float32)) for n, v in (("low", 0.5), ("high", 2.0))]
    x = build.op("Clip", [build.conv("image", "conv", 3, 4), *bounds], "clip")
    x = build.conv(x, "last", 4, 2, kernel=1)
    subject = network(tmp_path / "m.onnx", build.model({"image": [1, 3, 8, 8]}, {x: [1, 2, 8, 8]}))
    made = built(request_for(subject.path, recipe, subject.ranges), tmp_path)
    assert types_of(made.model)["Clip"] == 1
    assert subject.worst_sqnr_db(made.content) > 22


@pytest.mark.parametrize("recipe", STATIC)
def test_large_biases_beside_small_weights_survive(tmp_path: Path, recipe: str) -> None:
    """A bias of scale input * weight overflows int32 where a channel's weights are tiny (issue 11415)."""
    build = NetworkBuilder()
    x = build.conv("image", "conv", 3, 4)
    weight = numpy_helper.to_array(build.weights[0]).copy()
    bias = np.array([3.0, -2.0, 1.0, 4.0], np.float32)
    weight[1] *= 1e-9
    build.weights[:] = [numpy_helper.from_array(weight, "conv_w"), numpy_helper.from_array(bias, "conv_b")]
    subject = network(tmp_path / "m.onnx", build.model({"image": [1, 3, 8, 8]}, {x: [1, 4, 8, 8]}))
    made = built(request_for(subject.path, recipe, subject.ranges), tmp_path)
    dead = np.stack([o[0][0, 1] for o in outputs_of(made.content, subject.judging)])
    np.testing.assert_allclose(dead, -2.0, rtol=0.02)


@pytest.mark.parametrize("recipe", ["onnx-float32", *STATIC, "onnx-int8-dynamic"])
def test_the_same_request_gives_the_same_bytes_in_every_process(
    networks: Mapping[str, Network], tmp_path: Path, recipe: str
) -> None:
    subject = networks["classifier"]
    request = request_for(subject.path, recipe, subject.ranges if recipe in STATIC else None)
    contents = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        (folder / "request.json").write_text(json.dumps(request))
        command = [sys.executable, "-m", "phoneproof.toolchains.onnxruntime", str(folder / "request.json")]
        environment = {**os.environ, **OWN_PATH, "PYTHONHASHSEED": seed}
        run = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        contents.append({f.name: f.read_bytes() for f in (folder / "out").iterdir()})
    assert set(contents[0]) == {"model.onnx", "build.json"}
    assert contents[0] == contents[1]


def test_metadata_is_embedded_and_the_vendors_own_is_not(
    networks: Mapping[str, Network], tmp_path: Path
) -> None:
    subject = networks["classifier"]
    request = request_for(subject.path, "onnx-int8", subject.ranges)
    made = built({**request, "metadata": {"phoneproof.build": "a/b", "classes": "<b>"}}, tmp_path)
    props = {p.key: p.value for p in made.model.metadata_props}
    assert props == {"phoneproof.build": "a/b", "classes": "<b>"}
    assert (made.model.ir_version, made.manifest.floor.onnx_ir) == (8, 8)


def test_ranges_of_another_model_method_or_set_are_refused(
    networks: Mapping[str, Network], tmp_path: Path
) -> None:
    subject = networks["classifier"]
    request = request_for(subject.path, "onnx-int8", subject.ranges)
    with pytest.raises(ProtocolError, match="another method or calibration set"):
        built({**request, "calibration_sha256": "0" * 64}, tmp_path)
    with pytest.raises(ProtocolError, match="another method or calibration set"):
        built({**request, "options": {"method": "entropy"}}, tmp_path)
    with pytest.raises(ProtocolError, match="takes ranges for"):
        built({**request, "ranges": None}, tmp_path)
    with pytest.raises(ProtocolError, match="uses no calibration"):
        built({**request, "recipe": "onnx-int8-dynamic"}, tmp_path)
    with pytest.raises(ToolchainError, match="another model"):
        built(request_for(subject.path, "onnx-int8", networks["mlp"].ranges), tmp_path)


def test_a_faulty_source_reaches_error_json(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(classifier().SerializeToString()[:-50])
    (tmp_path / "request.json").write_text(json.dumps(request_for(path, "onnx-float32")))
    command = [sys.executable, "-m", "phoneproof.toolchains.onnxruntime", str(tmp_path / "request.json")]
    run = subprocess.run(command, env=OWN_PATH, capture_output=True, text=True)
    assert run.returncode == 1
    error = json.loads((tmp_path / "error.json").read_text())
    assert error["class"] == SourceModelError.__name__
    assert error["where"] == str(path)
    assert "truncated" in error["what"]
