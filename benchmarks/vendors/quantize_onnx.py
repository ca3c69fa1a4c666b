"""ONNX Runtime's "Quantize ONNX models": python quantize_onnx.py FOLDER KIND OUT.onnx

Takes what export_onnx.py wrote: onnx-float32.onnx beside OUT.onnx.
"""

import sys
from pathlib import Path

import numpy as np
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

folder, kind, out = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
given = out.with_name("onnx-float32.onnx")


class Reader(CalibrationDataReader):
    def __init__(self) -> None:
        self.left = iter(np.load(folder / "calibration.npy"))

    def get_next(self):
        sample = next(self.left, None)
        return None if sample is None else {"image": sample[None]}


prepared = out.with_suffix(".prepared.onnx")
quant_pre_process(given, prepared)
if kind == "dynamic":
    quantize_dynamic(prepared, out, per_channel=True, weight_type=QuantType.QInt8)
else:
    quantize_static(
        prepared,
        out,
        Reader(),
        quant_format=QuantFormat.QDQ if kind == "int8" else QuantFormat.QOperator,
        per_channel=True,
        activation_type=QuantType.QInt8 if kind == "int8" else QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=CalibrationMethod.MinMax,
    )
