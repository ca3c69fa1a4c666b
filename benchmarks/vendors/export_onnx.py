"""PyTorch's "Export a model to ONNX": python export_onnx.py FOLDER float32 OUT.onnx"""

import sys
from pathlib import Path

import torch
from mobilenet import SHAPE, mobilenet

folder, out = Path(sys.argv[1]), sys.argv[3]
program = torch.onnx.export(
    mobilenet(folder),
    (torch.zeros(SHAPE),),
    input_names=["image"],
    output_names=["logits"],
    opset_version=18,
    dynamo=True,
)
program.save(out)
