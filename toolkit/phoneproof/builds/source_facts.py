"""What a source model is, as its inspection found it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from phoneproof.protocol.job import FileRef
from phoneproof.protocol.tensors import TensorSpec

EXPORTED_FILE: Final = "model.pt2"
"""The exported program of a Python function, in the work folder of the inspection."""

ONE_FILE: Final = "model.onnx"
"""The model with its external data inside, in the work folder of the worker that wrote it."""


@dataclass(frozen=True)
class OperatorUse:
    """Operators that are used in one way.

    operator: a word of recipes/operators. count: number of nodes. rank: number of axes of the first input,
    None where it is not known. traits: of recipes/accelerators, sorted.
    """

    operator: str
    count: int
    rank: int | None = None
    traits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Anatomy:
    """What a source model is made of, without what is constant once its axes are fixed.

    uses: its operators in the words of the vocabulary. unnamed: number of nodes by type, of types that the
    vocabulary lacks. weights: elements of weights by the family of the operator that takes them; those that
    none takes are left out. multiplications: multiply-add operations of one inference, in convolutions,
    matrix products and recurrent layers; those whose shapes are not known are left out.
    vocabularies: rows of the tables out of which integers choose (embeddings).
    causal: whether attention is masked so that no position sees later ones.
    """

    uses: tuple[OperatorUse, ...] = ()
    unnamed: Mapping[str, int] = field(default_factory=dict)
    weights: Mapping[str, int] = field(default_factory=dict)
    multiplications: int = 0
    vocabularies: tuple[int, ...] = ()
    causal: bool = False


MOST_NAMES: Final = 20_000
"""A model that has more names than this keeps them to itself: facts stand in the journal of every run."""


@dataclass(frozen=True)
class OperatorNames:
    """All that a plan can call the operators of a source model: names and types, each sorted."""

    names: tuple[str, ...]
    types: tuple[str, ...]

    @classmethod
    def of(cls, names: Iterable[str], types: Iterable[str]) -> "OperatorNames | None":
        """Those names and types; None where there are more than MOST_NAMES."""
        found = cls(tuple(sorted(set(names))), tuple(sorted(set(types))))
        return found if len(found.names) <= MOST_NAMES else None


@dataclass(frozen=True)
class SourceFacts:
    """Facts of one source model.

    sha256: of its content, external data included. files: the model file first, then its external data,
    names relative to the model's folder. operators: number of nodes by operator type, subgraphs left out.
    parameters: elements of all weights. opset, ir: of an ONNX source, None for the others.
    exported: of a Python function, the program that its module was exported to, a file in the inspection's
    work folder: the reference runs it, and most toolchains convert it. None for the other formats.
    open_inputs: shape as the model declares it, by name, of each input with an open length (None): the plan
    fixed these. called: what a plan can call the operators; None where that is not known.
    """

    sha256: str
    size_bytes: int
    files: tuple[FileRef, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    operators: Mapping[str, int]
    parameters: int
    opset: int | None = None
    ir: int | None = None
    exported: FileRef | None = None
    open_inputs: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    anatomy: Anatomy = Anatomy()
    called: OperatorNames | None = None
