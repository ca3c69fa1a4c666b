"""coremltools, imported without what it would import on its own, which is all that it could convert from.

TensorFlow 2.21 and torch do not go together: TensorFlow before torch's triton ends the process with a
segmentation fault. Where TensorFlow is loaded already, torch is kept out, else TensorFlow. executorch,
scikit-learn, XGBoost and transformers take 5 s of CPU and convert nothing here (coremltools 9.0). An import
of None fails, which coremltools takes for the package not being installed.
"""

import sys
from typing import Final

_TORCH: Final = ("torch", "torchvision", "torchao")
_LOADED: Final = sys.modules.get("tensorflow") is not None

KEPT_OUT: Final = (
    *(_TORCH if _LOADED else ("tensorflow",)),
    *("executorch", "sklearn", "xgboost", "transformers"),
)

for _name in KEPT_OUT:
    if sys.modules.get(_name) is None:
        sys.modules[_name] = None  # type: ignore[assignment]

import coremltools  # noqa: E402

__all__ = ["KEPT_OUT", "coremltools"]
