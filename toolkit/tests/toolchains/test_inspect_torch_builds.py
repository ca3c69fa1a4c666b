"""Inspecting .pte and .mlpackage builds made elsewhere: made here by the vendors' own calls."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from phoneproof.builds.manifest import BuildManifest
from phoneproof.builds.model_files import model_sha256
from phoneproof.protocol.codec import from_dict, to_dict
from phoneproof.protocol.tensors import TensorSpec
from tests.own_path import OWN_PATH

pytestmark = pytest.mark.slow

LEFT_RIGHT = (TensorSpec("left", "float32", (1, 8)), TensorSpec("right", "float32", (1, 4)))
SUMS = (TensorSpec("joined", "float32", (1, 16)), TensorSpec("sums", "float32", (1, 8)))
FORMATS = {".pte": "executorch", ".mlpackage": "coreml", ".mlmodel": "coreml"}

MAKE_PTE = """
import sys, torch
from pathlib import Path
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer, get_symmetric_quantization_config)
from executorch.exir import to_edge_transform_and_lower
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from tests.models.torch_networks import TwoInTwoOut, exported, trained
folder, example = Path(sys.argv[1]), [torch.rand(1, 8), torch.rand(1, 4)]
program = exported(trained(TwoInTwoOut(), example), example)
def lowered(program, *partitioners):
    return to_edge_transform_and_lower(program, partitioner=list(partitioners)).to_executorch().buffer
(folder / "float32.pte").write_bytes(lowered(program, XnnpackPartitioner()))
(folder / "portable.pte").write_bytes(lowered(program))
quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
prepared = prepare_pt2e(program.module(), quantizer)
prepared(*example)
quantized = torch.export.export(convert_pt2e(prepared), tuple(example))
(folder / "int8.pte").write_bytes(lowered(quantized, XnnpackPartitioner()))
"""

MAKE_MLPACKAGE = """
import sys
sys.modules["tensorflow"] = None
import torch, coremltools as ct, coremltools.optimize.coreml as co
from pathlib import Path
from tests.models.torch_networks import TwoInTwoOut, exported, trained
from tests.own_path import OWN_PATH
folder, example = Path(sys.argv[1]), [torch.rand(1, 8), torch.rand(1, 4)]
program = exported(trained(TwoInTwoOut(), example), example).run_decompositions({})
for name, precision in (("float32", ct.precision.FLOAT32), ("float16", ct.precision.FLOAT16)):
    made = ct.convert(
        program, convert_to="mlprogram", compute_precision=precision,
        minimum_deployment_target=ct.target.iOS16)
    made.save(str(folder / f"{name}.mlpackage"))
config = co.OptimizationConfig(co.OpLinearQuantizerConfig(mode="linear_symmetric", weight_threshold=0))
co.linear_quantize_weights(made, config).save(str(folder / "int8.mlpackage"))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made")
    for code in (MAKE_PTE, MAKE_MLPACKAGE):
        run = _python("-c", code, str(root))
        assert run.returncode == 0, run.stderr[-3000:]
    return root


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**OWN_PATH, "PATH": "/usr/bin:/bin"}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)


def inspected(path: Path, work: Path, names: dict[str, str] | None = None) -> BuildManifest | dict[str, Any]:
    """The manifest of the build, or the error as data."""
    work.mkdir()
    request = {
        "file": str(path),
        "format": FORMATS[path.suffix],
        "source_sha256": "5" * 64,
        "source_inputs": [to_dict(one) for one in LEFT_RIGHT],
        "source_outputs": [to_dict(one) for one in SUMS],
        "names": names or {},
        "out": "out",
    }
    (work / "request.json").write_text(json.dumps(request))
    run = _python("-m", "phoneproof.toolchains.inspect_build", str(work / "request.json"))
    if run.returncode:
        error: dict[str, Any] = json.loads((work / "error.json").read_text())
        return error
    return from_dict(BuildManifest, json.loads((work / "out" / "build.json").read_text()))


def made(path: Path, work: Path) -> BuildManifest:
    """The manifest of a build that is right."""
    found = inspected(path, work)
    assert isinstance(found, BuildManifest), found
    assert found.sha256 == model_sha256(path)
    assert set(found.source_names.values()) <= {"left", "right", "joined", "sums"}
    return found


def test_a_float_program_is_float_and_says_what_was_not_delegated(folder: Path, tmp_path: Path) -> None:
    found = made(folder / "float32.pte", tmp_path / "a")
    assert (found.recipe, found.precision) == ("executorch-file", "float32")
    assert set(found.operators) == {"float32"}
    assert found.not_delegated == {"aten::cumsum.out": 1}
    assert found.source_names == {
        "input_0": "left", "input_1": "right", "output_0": "joined", "output_1": "sums"
    }  # fmt: skip
    portable = made(folder / "portable.pte", tmp_path / "b")
    assert portable.not_delegated is not None
    assert portable.not_delegated["aten::addmm.out"] == 2


def test_an_int8_program_is_int8_inside_its_delegates(folder: Path, tmp_path: Path) -> None:
    found = made(folder / "int8.pte", tmp_path / "a")
    assert found.precision == "int8"
    assert found.operators["int8"] >= 3
    assert [(one.type, one.reason) for one in found.float_operators] == [("aten::cumsum.out", "as_made")]


def test_an_ml_program_is_counted_by_the_types_it_computes_in(folder: Path, tmp_path: Path) -> None:
    wide, half = (
        made(folder / "float32.mlpackage", tmp_path / "a"),
        made(folder / "float16.mlpackage", tmp_path / "b"),
    )
    assert (wide.precision, half.precision) == ("float32", "float16")
    assert (set(wide.operators), set(half.operators)) == ({"float32"}, {"float16"})
    assert wide.floor.deployment_target == "iOS16"
    assert {one.name for one in wide.inputs} == {"left", "right"}
    assert len(wide.files) >= 3
    weights = made(folder / "int8.mlpackage", tmp_path / "c")
    assert weights.precision == "int8"
    assert set(weights.operators) == {"float16"}
    assert weights.wide_tensors == ()


@pytest.mark.parametrize("share", [0.2, 0.6, 0.95])
def test_a_truncated_program_is_one_error(folder: Path, tmp_path: Path, share: float) -> None:
    content = (folder / "int8.pte").read_bytes()
    path = tmp_path / "cut.pte"
    path.write_bytes(content[: int(len(content) * share)])
    error = inspected(path, tmp_path / "work")
    assert isinstance(error, dict)
    assert error["class"] == "BuildFileError"
    assert error["where"] == str(path)


def test_a_package_without_its_weights_is_an_error(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.mlpackage"
    shutil.copytree(folder / "float32.mlpackage", path)
    next(path.rglob("weight.bin")).unlink()
    error = inspected(path, tmp_path / "work")
    assert isinstance(error, dict)
    assert error["class"] == "BuildFileError"  # a StorageError would end the whole run
    assert "weight.bin' is missing" in error["what"]
    assert error["where"] == str(path)  # not the copy that was read


def test_links_out_of_a_package_are_refused(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "linked.mlpackage"
    shutil.copytree(folder / "float32.mlpackage", path)
    (path / "Data" / "other").symlink_to("/etc/hostname")
    error = inspected(path, tmp_path / "work")
    assert isinstance(error, dict)
    assert "symbolic links" in error["what"]
