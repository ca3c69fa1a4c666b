"""The prepared graph: folded, with fixed bytes, and knowing which source operators it computes."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from phoneproof.errors import ToolchainError
from phoneproof.quantize.onnx_graph import origins, prepare
from phoneproof.sources.onnx_model import load_onnx
from tests.models.onnx_networks import NetworkBuilder, classifier, images, mlp, saved
from tests.own_path import OWN_PATH
from tests.toolchains.built import outputs_of, sqnr_db


def test_batch_norms_are_folded_and_the_model_computes_the_same(tmp_path: Path) -> None:
    source = load_onnx(saved(classifier(), tmp_path / "m.onnx"))
    graph = prepare(source)
    assert "BatchNormalization" not in {node.op_type for node in graph.model.graph.node}
    samples = [{"image": value} for value in images(3, (1, 3, 16, 16))]
    before, after = outputs_of(source.model, samples), outputs_of(graph.model, samples)
    assert sqnr_db([o[0] for o in before], [o[0] for o in after]) > 100


def test_a_fused_operator_knows_all_its_origins(tmp_path: Path) -> None:
    graph = prepare(load_onnx(saved(classifier(), tmp_path / "m.onnx")))
    assert graph.origins["stem"] == {"stem", "stem_bn"}
    assert graph.origins["residual"] == {"residual"}


def test_an_operator_made_by_a_fusion_knows_its_origins(tmp_path: Path) -> None:
    graph = prepare(load_onnx(saved(mlp(), tmp_path / "m.onnx")))
    gemm = next(node.name for node in graph.model.graph.node if node.op_type == "Gemm")
    assert graph.origins[gemm] == {"matmul1", "bias1"}
    assert graph.origins["gate"] == {"gate"}


def test_a_fusion_whose_tensors_meet_again_is_one_group() -> None:
    source = NetworkBuilder()
    end = source.op("Add", [source.op("Relu", ["x"], "relu"), "x"], "end")
    fused = NetworkBuilder()
    begun = fused.op("Abs", ["x"], "begun")
    fused.op("Add", [begun, fused.op("Neg", [begun], "turned")], "end")
    models = [one.model({"x": [1, 2]}, {end: [1, 2]}) for one in (source, fused)]
    known = origins(*models)
    assert known.keys() == {node.name for node in models[1].graph.node}
    assert set(known.values()) == {frozenset({"relu", "end"})}


def test_what_the_optimiser_computes_has_no_prepared_operator(tmp_path: Path) -> None:
    build = NetworkBuilder()
    two = build.weight("two", np.array(2.0, np.float32))
    four = build.op("Mul", [two, two], "constant")
    x = build.op("Identity", ["image"], "same")
    x = build.conv(build.op("Mul", [x, four], "scaled"), "conv", 3, 4)
    graph = prepare(
        load_onnx(saved(build.model({"image": [1, 3, 8, 8]}, {x: [1, 4, 8, 8]}), tmp_path / "m.onnx"))
    )
    names = {node.name for node in graph.model.graph.node}
    assert not {"constant", "same"} & names
    assert "constant" not in graph.origins


def test_the_bytes_are_the_same_in_every_process(tmp_path: Path) -> None:
    path = saved(classifier(), tmp_path / "m.onnx")
    code = (
        "import sys, hashlib; from pathlib import Path;"
        "from phoneproof.quantize.onnx_graph import prepare;"
        "from phoneproof.sources.onnx_model import load_onnx;"
        "m = prepare(load_onnx(Path(sys.argv[1]))).model.SerializeToString(deterministic=True);"
        "print(hashlib.sha256(m).hexdigest())"
    )

    def digest(seed: str) -> str:
        environment = {**os.environ, **OWN_PATH, "PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-c", code, str(path)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return run.stdout

    assert digest("1") == digest("2")


def test_only_used_operator_sets_are_declared(tmp_path: Path) -> None:
    graph = prepare(load_onnx(saved(classifier(), tmp_path / "m.onnx")))
    assert [(entry.domain, entry.version) for entry in graph.model.opset_import] == [("", 17)]


def test_an_operator_that_the_runtime_lacks_is_an_error_of_the_toolchain(tmp_path: Path) -> None:
    build = NetworkBuilder()
    x = build.op("Unheard", ["image"], "odd", domain="custom.domain")
    model = build.model({"image": [1, 4]}, {x: [1, 4]})
    model.opset_import.append(helper.make_opsetid("custom.domain", 1))
    source = load_onnx(saved(model, tmp_path / "m.onnx"))
    with pytest.raises(ToolchainError, match="cannot load") as caught:
        prepare(source)
    assert "Unheard" in caught.value.what
