"""Keras's MobileNetV2 with random weights: `python -m tests.networks.mobilenet_keras FOLDER`.

The moving statistics of its batch norms are those of one pass over the calibration patches, and the shift
before each ReLU6 is SHIFT, for the reasons of mobilenet_torch.
"""

import sys
from pathlib import Path
from typing import Final

import keras
import numpy as np

from tests.networks.photographs import CLASSES, SHIFT, SIDE, as_values, write_patches
from tests.networks.plan_text import PREPROCESS, plan, recipes

MODEL: Final = """\
[[models]]
name = "mobilenet"
format = "keras"
source = "mobilenet.keras"
"""

BUILDS: Final = [
    *recipes("tflite-float16", "tflite-int8", "tflite-int8-dynamic", "tflite-int16x8"),
    'recipe = "tflite-int8"\nvariant = "entropy"\nmethod = "entropy"',
    'recipe = "tflite-int8"\nvariant = "dense-per-tensor"\nper_channel_dense = false',
]


def prepare(folder: Path) -> None:
    """Write the network, the patches and the plan. Its last layer gives logits."""
    write_patches(folder)
    keras.utils.set_random_seed(0)
    network = keras.applications.MobileNetV2(
        weights=None, input_shape=(SIDE, SIDE, 3), classes=CLASSES, classifier_activation=None
    )
    norms = [layer for layer in network.layers if isinstance(layer, keras.layers.BatchNormalization)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
        if not norm.name.endswith("project_BN"):
            norm.beta.assign(np.full(norm.beta.shape, SHIFT))
    network(as_values(folder / "calibration"), training=True)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    network.save(folder / "mobilenet.keras")
    text = plan(MODEL, PREPROCESS.format(layout="nhwc"), BUILDS)
    (folder / "phoneproof.toml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    prepare(Path(sys.argv[1]))
