"""ExecuTorch's "XNNPACK backend": python convert_executorch.py FOLDER KIND OUT.pte"""

import sys
from pathlib import Path

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch.exir import to_edge_transform_and_lower
from mobilenet import SHAPE, mobilenet, samples
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

folder, kind, out = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
example = (torch.zeros(SHAPE),)
program = torch.export.export(mobilenet(folder), example)

if kind != "float32":
    dynamic = kind == "dynamic"
    config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=dynamic)
    quantizer = XNNPACKQuantizer().set_global(config)
    prepared = prepare_pt2e(program.module(), quantizer)
    with torch.no_grad():
        for sample in example if dynamic else samples(folder):
            prepared(sample)
    program = torch.export.export(convert_pt2e(prepared), example)

edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
out.write_bytes(edge.to_executorch().buffer)
