"""coremltools, imported without what it would import on its own, which is all that it could convert from.

TensorFlow 2.21 before torch's triton ends the process with a segmentation fault. scikit-learn, XGBoost and
transformers take 3.5 s of CPU and convert nothing here (coremltools 9.0). An import of None fails, which
coremltools takes for the package not being installed. What is loaded already stays.
"""

import sys
from typing import Final

KEPT_OUT: Final = ("tensorflow", "sklearn", "xgboost", "transformers")

for _name in KEPT_OUT:
    if sys.modules.get(_name) is None:
        sys.modules[_name] = None  # type: ignore[assignment]

import coremltools  # noqa: E402

__all__ = ["KEPT_OUT", "coremltools"]
