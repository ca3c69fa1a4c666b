"""The parts of coremltools that are used: the protobuf classes and the reader of weight files.

`import coremltools` imports whatever converts to Core ML: TensorFlow, scikit-learn, torchvision, executorch,
transformers. That takes 20 s of CPU where all of them are installed (tried with coremltools 9.0), and
TensorFlow 2.21 before torch's triton ends the process with a segmentation fault. None of it is needed to read
a package, so the two parts are imported without running the package's own __init__.
"""

import importlib
import importlib.metadata
import importlib.util
import sys
from types import ModuleType
from typing import Any, Final

_PACKAGE: Final = "coremltools"


def _parts(*names: str) -> list[ModuleType]:
    """Modules of coremltools, imported below a bare package that is gone afterwards.

    A later `import coremltools` is a real one, and finds these modules as they are. ImportError if
    coremltools is not installed.
    """
    if _PACKAGE in sys.modules:
        return [importlib.import_module(f"{_PACKAGE}.{name}") for name in names]
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.submodule_search_locations is None:
        raise ImportError("coremltools is not installed", name=_PACKAGE)
    bare = ModuleType(_PACKAGE)
    bare.__path__ = list(spec.submodule_search_locations)
    sys.modules[_PACKAGE] = bare
    try:
        return [importlib.import_module(f"{_PACKAGE}.{name}") for name in names]
    finally:
        del sys.modules[_PACKAGE]
        # Kept, they would not be attributes of the real package later: coremltools.proto would not exist.
        for name in [m for m in sys.modules if m.startswith(f"{_PACKAGE}.proto")]:
            del sys.modules[name]


_MODEL, _FEATURES, _STORAGE = _parts("proto.Model_pb2", "proto.FeatureTypes_pb2", "libmilstoragepython")

COREMLTOOLS_VERSION: Final = importlib.metadata.version(_PACKAGE)
BlobReader: Any = _STORAGE._BlobStorageReader
ModelSpec: Any = _MODEL.Model
ArrayFeatureType: Any = _FEATURES.ArrayFeatureType
