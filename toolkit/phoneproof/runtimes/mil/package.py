"""A .mlpackage folder: its manifest, its specification, its inputs and outputs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phoneproof.errors import RuntimeUnavailableError, StorageError
from phoneproof.runtimes.mil.operators import KNOWN
from phoneproof.runtimes.mil.program import Block, read_program
from phoneproof.runtimes.mil.specification import feature_dtype, read_specification
from phoneproof.runtimes.mil.weights import WeightFiles


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
    path, spec = read_specification(folder, StorageError, RuntimeUnavailableError)
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


def _feature(proto: Any, role: str, folder: Path) -> Feature:
    return Feature(proto.name, feature_dtype(proto, role, folder, RuntimeUnavailableError))


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
