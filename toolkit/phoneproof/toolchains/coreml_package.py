"""Writing a .mlpackage: the same model gives the same bytes."""

import hashlib
import json
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

MODEL_FILE: Final = "model.mlpackage"

_AUTHOR: Final = "com.apple.CoreML"
_DATED: Final = "com.github.apple.coremltools.conversion_date"
_SPACE: Final = uuid.UUID("8d4f6a0e-6b7f-5a43-9a39-0a6f3f6a4c11")


def write_package(
    model: Any,
    path: Path,
    description: str,
    metadata: Mapping[str, str],
    names: Sequence[str] | None = None,
) -> None:
    """Write a coremltools MLModel as the package `path`, which must not exist.

    description: what people see of the model in Xcode. metadata: text by key, user-defined metadata of the
    model. names: of all inputs and then all outputs, in order; None for those that it has.
    coremltools itself writes the day of the conversion, random identifiers and a map for debuggers.
    """
    spec = model.get_spec()
    if names is not None:
        rename(spec, names)
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


def rename(spec: Any, names: Sequence[str]) -> None:
    """Give the inputs and outputs of an ML program these names, in place.

    Values inside that have one of them get another, so that none is read for another. ValueError for names
    that are not as many as the inputs and outputs, or not each once.
    """
    features = [*spec.description.input, *spec.description.output]
    old = [feature.name for feature in features]
    if len(set(names)) != len(old) or len(set(old)) != len(old):
        raise ValueError(f"{len(names)} names for {len(old)} inputs and outputs")
    wanted = dict(zip(old, names, strict=True))
    taken = set(_value_names(spec.mlProgram)) | set(names)
    for name in sorted(set(names) & (taken - set(old))):
        other = f"{name}_inner"
        while other in taken:
            other += "_"
        wanted.setdefault(name, other)
        taken.add(other)
    for feature in features:
        feature.name = wanted[feature.name]
    for function in spec.mlProgram.functions.values():
        for given in function.inputs:
            given.name = wanted.get(given.name, given.name)
        for block in function.block_specializations.values():
            _rename_block(block, wanted)


def _value_names(program: Any) -> Iterator[str]:
    for function in program.functions.values():
        for block in function.block_specializations.values():
            yield from _block_names(block)


def _block_names(block: Any) -> Iterator[str]:
    for operation in block.operations:
        yield from (output.name for output in operation.outputs)
        for inner in operation.blocks:
            yield from _block_names(inner)


def _rename_block(block: Any, wanted: Mapping[str, str]) -> None:
    for operation in block.operations:
        for argument in operation.inputs.values():
            for binding in argument.arguments:
                if binding.WhichOneof("binding") == "name":
                    binding.name = wanted.get(binding.name, binding.name)
        for output in operation.outputs:
            output.name = wanted.get(output.name, output.name)
        for inner in operation.blocks:
            _rename_block(inner, wanted)
    block.outputs[:] = [wanted.get(name, name) for name in block.outputs]


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
