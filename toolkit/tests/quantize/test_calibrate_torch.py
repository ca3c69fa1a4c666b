"""The calibration worker for exported programs."""

from pathlib import Path

import numpy as np
import pytest
import torch

from phoneproof.errors import ProtocolError
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import Progress
from phoneproof.quantize.calibrate_torch import calibrate
from phoneproof.quantize.ranges import read_ranges
from tests.models.torch_networks import TwoInTwoOut, exported, saved_program, trained
from tests.toolchains.sample_sets import stored_set
from tests.toolchains.torch_builds import calibration

pytestmark = pytest.mark.filterwarnings("ignore")  # torchao's own

METHODS = ({"method": "minmax"}, {"method": "entropy"}, {"method": "percentile", "percentile": 90.0})


def test_one_pass_makes_a_file_for_each_method(tmp_path: Path) -> None:
    inputs = (TensorSpec("left", "float32", (1, 8)), TensorSpec("right", "float32", (1, 4)))
    example = [torch.zeros(spec.shape) for spec in inputs]
    source = saved_program(exported(trained(TwoInTwoOut(), example), example), tmp_path / "model.pt2")
    draw = np.random.default_rng(0)
    arrays = {one.name: draw.standard_normal((400, *one.shape[1:])).astype(np.float32) for one in inputs}
    arrays["left"][7, 3] = 60.0  # an outlier, which entropy clips
    samples = stored_set(tmp_path / "set", inputs, arrays)
    result = calibrate(calibration("x", source, samples, *METHODS).request, tmp_path, Progress(tmp_path))
    assert result["samples"] == 400
    found = [read_ranges(tmp_path / one["file"]) for one in result["ranges"]]
    assert {one.calibration_sha256 for one in found} == {samples["digest"]}
    for name, values in arrays.items():
        assert found[0].tensors[name] == (float(values.min()), float(values.max()))
        assert found[2].tensors[name][1] < found[0].tensors[name][1]
    assert found[1].tensors["left"][1] < 20.0


def test_another_form_of_source_is_refused(tmp_path: Path) -> None:
    request = dict(calibration("x", tmp_path / "m.onnx", {"path": "", "digest": "d"}).request)
    request["source"] = {"format": "onnx", "path": "m.onnx"}
    with pytest.raises(ProtocolError, match="exported programs"):
        calibrate(request, tmp_path, Progress(tmp_path))
