"""A small transformer over the bytes of texts: `python -m tests.networks.text_classifier FOLDER`.

The texts are documentation strings of Python's own library.
"""

import builtins
import inspect
import shutil
import sys
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tests.networks.plan_text import ARRAYS, plan, recipes

LENGTH: Final = 64
CALIBRATION: Final = 64
EVALUATION: Final = 64

MODEL: Final = f"""\
[[models]]
name = "text"
format = "pytorch"
source = "text_classifier:network"
inputs = [{{ name = "ids", shape = [1, {LENGTH}], dtype = "int64" }}]
outputs = ["logits", "mean"]
"""

BUILDS: Final = recipes(
    "executorch-int8",
    "executorch-int8-dynamic",
    "coreml-float16",
    "coreml-int8-weights",
    "coreml-int8",
    "onnx-int8-dynamic",
    "onnx-int8",
    "torch-qnnpack-int8",
)


def texts() -> list[bytes]:
    """The first LENGTH bytes of documentation strings, in the order of their names, each once."""
    found: dict[bytes, None] = {}
    for name in sorted(vars(builtins)):
        owner = getattr(builtins, name)
        members = (
            [one for one in sorted(vars(owner)) if hasattr(owner, one)] if inspect.isclass(owner) else []
        )
        for one in (owner, *(getattr(owner, member) for member in members)):
            text = getattr(one, "__doc__", None)
            if isinstance(text, str) and text.isascii() and len(text) > 8:
                found[text.strip().encode()[:LENGTH]] = None
    return list(found)


def as_ids(text: bytes) -> NDArray[np.int64]:
    """int64 [LENGTH]: its bytes, then zeros."""
    return np.frombuffer(text.ljust(LENGTH, b"\0"), np.uint8).astype(np.int64)


def prepare(folder: Path) -> None:
    """Write the network, the texts and the plan."""
    shutil.copy(Path(__file__).parent / "user_code" / "text_classifier.py", folder)
    ids = np.stack([as_ids(text) for text in texts()])
    order = np.random.default_rng(0).permutation(len(ids))
    parts = np.split(ids[order], [CALIBRATION, CALIBRATION + EVALUATION])
    np.savez(folder / "calibration.npz", ids=parts[0])
    np.savez(folder / "evaluation.npz", ids=parts[1])
    (folder / "phoneproof.toml").write_text(plan(MODEL, ARRAYS, BUILDS), encoding="utf-8")


if __name__ == "__main__":
    prepare(Path(sys.argv[1]))
