"""A .mlpackage folder: its manifest, its specification, its inputs and outputs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from phoneproof.errors import RuntimeUnavailableError, StorageError, said
from phoneproof.runtimes.mil.operators import KNOWN
from phoneproof.runtimes.mil.program import Block, read_program
from phoneproof.runtimes.mil.vendor import ArrayFeatureType, ModelSpec
from phoneproof.runtimes.mil.weights import WeightFiles

_AGAIN: Final = "Copy or convert the package again; it is a folder, and all of it is needed."
_NUMPY_DTYPES: Final = {
    "FLOAT32": "float32",
    "DOUBLE": "float64",
    "INT32": "int32",
    "FLOAT16": "float16",
    "INT8": "int8",
}


@dataclass(frozen=True)
class Feature:
    """One input or output as the package describes it. dtype: numpy's name."""

    name: str
    dtype: str


@dataclass(frozen=True)
class Package:
    """What an ML program's package holds. The order of inputs and outputs is that of the specification."""

    inputs: tuple[Feature, ...]
    outputs: tuple[Feature, ...]
    program: Block
    shapes: dict[str, "AllowedShapes"]


@dataclass(frozen=True)
class AllowedShapes:
    """Shapes that one input may have. enumerated: those, if any; ranges: else (least, most or None) each."""

    enumerated: tuple[tuple[int, ...], ...] = ()
    ranges: tuple[tuple[int, int | None], ...] = ()

    def admits(self, shape: tuple[int, ...]) -> bool:
        """Whether an input of `shape` may be given."""
        if self.enumerated:
            return shape in self.enumerated
        return len(shape) == len(self.ranges) and all(
            least <= length and (most is None or length <= most)
            for length, (least, most) in zip(shape, self.ranges, strict=True)
        )

    def __str__(self) -> str:
        if self.enumerated:
            return " or ".join(str(list(shape)) for shape in self.enumerated)
        words = [
            str(least) if least == most else f"{least}..{'' if most is None else most}"
            for least, most in self.ranges
        ]
        return f"[{', '.join(words)}]"


def read_package(folder: Path) -> Package:
    """The ML program in `folder`.

    StorageError for a package that is damaged. UnsupportedOperatorError for operators that are not known.
    RuntimeUnavailableError for a package that is whole but holds something that is not interpreted: another
    kind of model, images, states, several functions.
    """
    path = _specification(folder)
    spec = ModelSpec()
    try:
        spec.ParseFromString(path.read_bytes())
    except Exception as error:  # protobuf's DecodeError has no stable place across its implementations
        raise StorageError(
            f"The model specification cannot be decoded: {said(error)}.", where=str(path), next_step=_AGAIN
        ) from error
    kind = spec.WhichOneof("Type")
    if kind != "mlProgram":
        raise RuntimeUnavailableError(
            f"The package holds a {kind or 'model of no kind'}; mil_interpreter runs ML programs only.",
            where=str(folder),
            next_step="Convert with convert_to='mlprogram' (iOS 15 and later).",
        )
    if spec.description.state:
        raise RuntimeUnavailableError(
            "The model has states, which mil_interpreter does not keep.",
            where=str(folder),
            states=tuple(s.name for s in spec.description.state),
        )
    inputs = tuple(_feature(f, "input", folder) for f in spec.description.input)
    outputs = tuple(_feature(f, "output", folder) for f in spec.description.output)
    program = read_program(spec.mlProgram, WeightFiles(folder, path.parent), KNOWN)
    shapes = {f.name: _allowed(f.type.multiArrayType) for f in spec.description.input}
    return Package(inputs, outputs, program, shapes)


def _specification(folder: Path) -> Path:
    manifest = folder / "Manifest.json"
    if not manifest.is_file():
        raise StorageError(
            "This is no .mlpackage: Manifest.json is missing.", where=str(folder), next_step=_AGAIN
        )
    try:
        content = json.loads(manifest.read_bytes())
        relative = content["itemInfoEntries"][content["rootModelIdentifier"]]["path"]
        path = folder / "Data" / str(relative)
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(
            "Manifest.json does not name a model.", where=str(manifest), next_step=_AGAIN
        ) from error
    if not path.resolve().is_relative_to(folder.resolve()):
        raise StorageError("Manifest.json names a file outside the package.", where=str(manifest))
    if not path.is_file():
        raise StorageError(
            f"The model specification {relative!r} is missing.", where=str(folder), next_step=_AGAIN
        )
    return path


def _feature(proto: Any, role: str, folder: Path) -> Feature:
    kind = proto.type.WhichOneof("Type")
    if kind != "multiArrayType":
        raise RuntimeUnavailableError(
            f"The {role} {proto.name!r} is of {kind}; mil_interpreter takes and gives multi-arrays only.",
            where=str(folder),
            next_step=f"Convert with a TensorType for this {role}.",
        )
    name = ArrayFeatureType.ArrayDataType.Name(proto.type.multiArrayType.dataType)
    if name not in _NUMPY_DTYPES:
        raise RuntimeUnavailableError(
            f"The {role} {proto.name!r} has the data type {name}, which mil_interpreter does not know.",
            where=str(folder),
        )
    return Feature(proto.name, _NUMPY_DTYPES[name])


def _allowed(array: Any) -> AllowedShapes:
    kind = array.WhichOneof("ShapeFlexibility")
    if kind == "enumeratedShapes":
        return AllowedShapes(enumerated=tuple(tuple(s.shape) for s in array.enumeratedShapes.shapes))
    if kind == "shapeRange":
        return AllowedShapes(
            ranges=tuple(
                (int(r.lowerBound), None if r.upperBound < 0 else int(r.upperBound))
                for r in array.shapeRange.sizeRanges
            )
        )
    return AllowedShapes(ranges=tuple((int(n), int(n)) for n in array.shape))
