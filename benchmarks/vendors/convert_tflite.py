"""TensorFlow's "Post-training quantization": python convert_tflite.py FOLDER KIND OUT.tflite"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

folder, kind, out = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
model = keras.models.load_model(folder / "network.keras", compile=False)
converter = tf.lite.TFLiteConverter.from_keras_model(model)


def representative_dataset():
    for sample in np.load(folder / "calibration.npy"):
        yield [sample.transpose(1, 2, 0)[None]]


if kind != "float32":
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
if kind == "float16":
    converter.target_spec.supported_types = [tf.float16]
if kind == "int8":
    converter.representative_dataset = representative_dataset
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
if kind == "int16x8":
    converter.representative_dataset = representative_dataset
    converter.target_spec.supported_ops = [
        tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
    ]
out.write_bytes(converter.convert())
