"""Writing a .mlpackage: the same model gives the same bytes."""

import hashlib
import json
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from phoneproof.runtimes.mil.vendor import COREMLTOOLS_VERSION

MODEL_FILE: Final = "model.mlpackage"

_AUTHOR: Final = "com.apple.CoreML"
_DATED: Final = "com.github.apple.coremltools.conversion_date"
_SPACE: Final = uuid.UUID("8d4f6a0e-6b7f-5a43-9a39-0a6f3f6a4c11")


def write_package(model: Any, path: Path, description: str, metadata: Mapping[str, str]) -> None:
    """Write a coremltools MLModel as the package `path`, which must not exist.

    description: what people see of the model in Xcode. metadata: text by key, user-defined metadata of the
    model. coremltools itself writes the day of the conversion, random identifiers and a map for debuggers.
    """
    spec = model.get_spec()
    about = spec.description.metadata
    about.shortDescription = description
    about.userDefined.pop(_DATED, None)
    for key, value in sorted(metadata.items()):
        about.userDefined[key] = value
    data = path / "Data" / _AUTHOR
    data.mkdir(parents=True)
    (data / "model.mlmodel").write_bytes(spec.SerializeToString(deterministic=True))
    parts = {"model.mlmodel": "CoreML Model Specification"}
    if model.weights_dir is not None:
        shutil.copytree(model.weights_dir, data / "weights")
        parts["weights"] = "CoreML Model Weights"
    manifest = _manifest(parts, spec.SerializeToString(deterministic=True))
    (path / "Manifest.json").write_text(json.dumps(manifest, indent=4) + "\n", encoding="utf-8")


def _manifest(parts: Mapping[str, str], content: bytes) -> dict[str, Any]:
    """Manifest.json. Its identifiers, which need only differ from each other, are made of the content."""
    digest = hashlib.sha256(content).hexdigest()
    keys = {name: str(uuid.uuid5(_SPACE, f"{digest}/{name}")) for name in parts}
    return {
        "fileFormatVersion": "1.0.0",
        "itemInfoEntries": {
            keys[name]: {
                "author": _AUTHOR,
                "description": what,
                "name": name,
                "path": f"{_AUTHOR}/{name}",
            }
            for name, what in sorted(parts.items())
        },
        "rootModelIdentifier": keys["model.mlmodel"],
    }


def converted_by() -> str:
    """The converter with its version."""
    return f"coremltools {COREMLTOOLS_VERSION}"
