"""The parts of coremltools that are used: the protobuf classes and the reader of weight files."""

import logging
import sys
import warnings
from typing import Any

# `import coremltools` imports TensorFlow where it is installed, and TensorFlow 2.21 before torch's triton
# ends the process with a segmentation fault (tried with torch 2.13, Linux). With None here that import fails,
# which coremltools treats as TensorFlow not being installed. What was imported before stays.
_BLOCKED = "tensorflow" not in sys.modules
sys.modules.setdefault("tensorflow", None)  # type: ignore[arg-type]
# coremltools tells on every import that the native parts of macOS are missing and that torch is too new.
_LOGGER = logging.getLogger("coremltools")
_LEVEL = _LOGGER.level
_LOGGER.setLevel(logging.CRITICAL)
try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import coremltools
        from coremltools.libmilstoragepython import _BlobStorageReader
        from coremltools.proto import FeatureTypes_pb2, Model_pb2
finally:
    _LOGGER.setLevel(_LEVEL)
    if _BLOCKED:
        del sys.modules["tensorflow"]

COREMLTOOLS_VERSION: str = coremltools.__version__
BlobReader: Any = _BlobStorageReader
ModelSpec: Any = Model_pb2.Model
ArrayFeatureType: Any = FeatureTypes_pb2.ArrayFeatureType
