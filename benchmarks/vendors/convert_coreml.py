"""coremltools' "Converting from PyTorch", "Quantization": python convert_coreml.py FOLDER KIND OUT.mlpackage

int8 is weights and activations, by ExecuTorch's quantizer for Core ML and PT2E, calibrated by running it.
"""

import sys
from pathlib import Path

sys.modules["tensorflow"] = None  # coremltools imports it, which crashes beside torch

import coremltools as ct  # noqa: E402
import coremltools.optimize as cto  # noqa: E402
import torch  # noqa: E402
from mobilenet import SHAPE, mobilenet, samples  # noqa: E402

folder, kind, out = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
example = (torch.zeros(SHAPE),)
program = torch.export.export(mobilenet(folder), example)
passes = ct.PassPipeline.DEFAULT
precision = ct.precision.FLOAT32 if kind == "float32" else ct.precision.FLOAT16
target = {"float32": ct.target.iOS15, "float16": ct.target.iOS15, "weights": ct.target.iOS16}.get(kind)

if kind == "int8":
    from executorch.backends.apple.coreml.quantizer import CoreMLQuantizer
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    config = cto.torch.quantization.LinearQuantizerConfig.from_dict(
        {
            "global_config": {
                "quantization_scheme": "symmetric",
                "activation_dtype": torch.quint8,
                "weight_dtype": torch.qint8,
                "weight_per_channel": True,
            }
        }
    )
    prepared = prepare_pt2e(program.module(), CoreMLQuantizer(config))
    with torch.no_grad():
        for sample in samples(folder):
            prepared(sample)
    program = torch.export.export(convert_pt2e(prepared), example)
    passes.remove_passes({"common::int_op_canonicalization"})  # miscompiles such programs
    target = ct.target.iOS17

model = ct.convert(
    program.run_decompositions({}),
    convert_to="mlprogram",
    compute_precision=precision,
    minimum_deployment_target=target,
    pass_pipeline=passes,
)
if kind == "weights":
    per_channel = cto.coreml.OpLinearQuantizerConfig(mode="linear_symmetric", granularity="per_channel")
    model = cto.coreml.linear_quantize_weights(model, cto.coreml.OptimizationConfig(per_channel))
model.save(out)
