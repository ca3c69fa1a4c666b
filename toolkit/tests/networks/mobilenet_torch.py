"""torchvision's MobileNetV2 with random weights: `python -m tests.networks.mobilenet_torch FOLDER`.

The running statistics of its batch norms are those of one pass over the calibration patches: with the first
ones (mean 0, variance 1) the activations of a random network fade from layer to layer. The shift before each
ReLU6 is SHIFT, so that most values pass it: without a shift a random network of this depth is chaotic, and
the rounding of its weights to float16 alone leaves 36 dB of the logits (63 with it).
"""

import itertools
import shutil
import sys
from pathlib import Path
from typing import Final

import torch
import torchvision
from safetensors.torch import save_file

from tests.networks.photographs import CLASSES, SHIFT, SIDE, as_values, write_patches
from tests.networks.plan_text import PREPROCESS, plan, recipes

MODEL: Final = f"""\
[[models]]
name = "mobilenet"
format = "pytorch"
source = "mobilenet:network"
state = "mobilenet.safetensors"
inputs = [{{ name = "image", shape = [1, 3, {SIDE}, {SIDE}] }}]
outputs = ["logits"]
"""

BUILDS: Final = recipes(
    "executorch-int8",
    "executorch-int8-dynamic",
    "coreml-float16",
    "coreml-int8-weights",
    "coreml-int8",
    "onnx-int8",
    "onnx-int8-qoperator",
    "onnx-int8-dynamic",
    "torch-qnnpack-int8",
)


def prepare(folder: Path) -> None:
    """Write the network, its weights, the patches and the plan."""
    write_patches(folder)
    torch.manual_seed(0)
    network = torchvision.models.mobilenet_v2(weights=None, num_classes=CLASSES)
    modules = list(network.modules())
    for module, following in itertools.pairwise(modules):
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0
            if isinstance(following, torch.nn.ReLU6):
                torch.nn.init.constant_(module.bias, SHIFT)
    values = as_values(folder / "calibration").transpose(0, 3, 1, 2)
    with torch.no_grad():
        network.train()(torch.from_numpy(values.copy()))
    save_file(network.state_dict(), folder / "mobilenet.safetensors")
    shutil.copy(Path(__file__).parent / "user_code" / "mobilenet.py", folder)
    text = plan(MODEL, PREPROCESS.format(layout="nchw"), BUILDS)
    (folder / "phoneproof.toml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    prepare(Path(sys.argv[1]))
