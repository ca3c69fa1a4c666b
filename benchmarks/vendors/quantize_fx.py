"""PyTorch's "FX graph mode post training static quantization": python quantize_fx.py FOLDER KIND OUT.ts"""

import sys
from pathlib import Path

import torch
from mobilenet import SHAPE, mobilenet, samples
from torch.ao.quantization import get_default_qconfig_mapping
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

folder, kind, out = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
example = (torch.zeros(SHAPE),)
network = mobilenet(folder)
torch.backends.quantized.engine = "qnnpack"
with torch.no_grad():
    if kind == "int8":
        prepared = prepare_fx(network, get_default_qconfig_mapping("qnnpack"), example)
        for sample in samples(folder):
            prepared(sample)
        network = convert_fx(prepared)
    torch.jit.trace(network, example).save(out)
