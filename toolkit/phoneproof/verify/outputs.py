"""Outputs of a build beside the reference's, sample by sample, in real values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from phoneproof.errors import ProtocolError
from phoneproof.protocol.outputs import read_outputs
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.verify.output_health import (
    OutputFault,
    OutputHealth,
    crushed_fault,
    watched,
)
from phoneproof.verify.parity import (
    LabelParity,
    OutputParity,
    label_parity_of_chunks,
    parity_of_chunks,
)

_CHUNK: Final = 64
_CHUNK_BYTES: Final = 2**23
"""Samples are compared in chunks of at most this size: the comparison holds several copies in float64."""

Array = NDArray[Any]


@dataclass(frozen=True)
class KeptOutputs:
    """An output file and what its tensors are; samples without a record are those that ended badly."""

    path: Path
    tensors: tuple[TensorSpec, ...]

    def samples(self) -> Iterator[tuple[int, tuple[Array, ...]]]:
        """(sample, outputs in real values) in the order of the file."""
        for sample, arrays in read_outputs(self.path):
            if len(arrays) != len(self.tensors):
                raise ProtocolError(
                    f"A record has {len(arrays)} tensors, the build {len(self.tensors)}.",
                    where=self.path.name,
                )
            yield sample, tuple(real_values(a, t) for a, t in zip(arrays, self.tensors, strict=True))


def real_values(array: Array, tensor: TensorSpec) -> Array:
    """(stored - zero_point) * scale in float32 for a quantized tensor, any other as it is.

    ProtocolError for another dtype than the build declares: values that are real already would be scaled.
    """
    if array.dtype != np.dtype(tensor.dtype):
        raise ProtocolError(
            f"An output holds {array.dtype.name}, the build declares {tensor.dtype}.", where=tensor.name
        )
    if tensor.scale is None or tensor.zero_point is None:
        return array
    return (array.astype(np.int32) - tensor.zero_point).astype(np.float32) * np.float32(tensor.scale)


def is_labels(tensor: TensorSpec) -> bool:
    """Whether an output holds labels or counts (an integer without scale), where a distance means nothing."""
    return tensor.scale is None and np.dtype(tensor.dtype).kind in "biu"


@dataclass(frozen=True)
class ComparedOutput:
    """One output of a build beside the reference's, named as the reference names it."""

    name: str
    parity: OutputParity | LabelParity
    faults: tuple[OutputFault, ...]


def compared_outputs(reference: KeptOutputs, build: KeptOutputs) -> tuple[ComparedOutput, ...]:
    """Each output over the samples that both have: its parity, and what has a name of its own.

    Outputs correspond by name where the names agree, by position where none of them does. ProtocolError where
    only some agree, or where a build's output has another shape in some sample: nothing can be compared.
    Empty where no sample is in both.
    """
    order = correspondence(reference.tensors, build.tensors)
    found: list[ComparedOutput] = []
    for position, other in enumerate(order):
        chunks = list_chunks(_pairs(reference, build, position, other))
        first = next(chunks, None)
        if first is None:
            return ()
        both_labels = is_labels(reference.tensors[position]) and is_labels(build.tensors[other])
        health = OutputHealth(first[0].shape[1:], both_labels)
        whole = watched(_chain(first, chunks), health)
        parity = label_parity_of_chunks(whole) if both_labels else parity_of_chunks(whole)
        suspects = health.suspects()
        crushed = None
        if suspects is not None:
            pairs = (_pairs(reference, build, position, other) for _ in range(2))
            crushed = crushed_fault(
                suspects,
                first[0].shape[1 + suspects.axis],
                (value for _, value in next(pairs)),
                (value for value, _ in next(pairs)),
                build.tensors[other].scale,
            )
        more = health.faults(None if crushed is None else suspects)
        faults = more if crushed is None else (crushed, *more)
        found.append(ComparedOutput(reference.tensors[position].name, parity, faults))
    return tuple(found)


def output_parities(
    reference: KeptOutputs, build: KeptOutputs
) -> tuple[tuple[str, OutputParity | LabelParity], ...]:
    """The parities of `compared_outputs` by name."""
    return tuple((one.name, one.parity) for one in compared_outputs(reference, build))


def stacked_output(kept: KeptOutputs, name: str | None, samples: Sequence[int]) -> Array:
    """One output of the given samples: (n, *shape without a batch of one). The only output if name is None.

    KeyError for an unknown name, no name where there are several outputs, or a sample without a record;
    ValueError where shapes differ.
    """
    position = output_position(kept.tensors, name)
    wanted = frozenset(samples)
    by_sample = {sample: outputs[position] for sample, outputs in kept.samples() if sample in wanted}
    rows = np.stack([by_sample[sample] for sample in samples])
    return rows[:, 0] if rows.ndim > 2 and rows.shape[1] == 1 else rows


def output_position(tensors: Sequence[TensorSpec], name: str | None) -> int:
    """Which output has that name; the only one if name is None. KeyError if there is no such output."""
    names = [tensor.name for tensor in tensors]
    if name is None and len(names) == 1:
        return 0
    if name not in names:
        raise KeyError(name)
    return names.index(name)


def sample_numbers(kept: KeptOutputs) -> tuple[int, ...]:
    """Samples that have a record."""
    return tuple(sample for sample, _ in read_outputs(kept.path))


def list_chunks(pairs: Iterator[tuple[Array, Array]]) -> Iterator[tuple[Array, Array]]:
    """Pairs stacked into chunks of samples of one shape: at most 64, and at most 8 MiB of the reference."""
    references: list[Array] = []
    builds: list[Array] = []
    for reference, build in pairs:
        if references and reference.shape != references[0].shape:
            raise ProtocolError(
                f"The reference's output has the shapes {references[0].shape} and {reference.shape}.",
                next_step="Outputs whose shape depends on the input cannot be compared yet.",
            )
        references.append(reference)
        builds.append(build)
        if len(references) == _CHUNK or len(references) * reference.nbytes >= _CHUNK_BYTES:
            yield np.stack(references), np.stack(builds)
            references, builds = [], []
    if references:
        yield np.stack(references), np.stack(builds)


def _pairs(
    reference: KeptOutputs, build: KeptOutputs, position: int, other: int
) -> Iterator[tuple[Array, Array]]:
    """Both files are in the order of samples, so they are read side by side."""
    built = build.samples()
    sample, outputs = next(built, (None, ()))
    for wanted, expected in reference.samples():
        while sample is not None and sample < wanted:
            sample, outputs = next(built, (None, ()))
        if sample is None:
            return
        if sample != wanted:
            continue
        shape, wanted_shape = outputs[other].shape, expected[position].shape
        if shape != wanted_shape:
            raise ProtocolError(
                f"An output has the shape {shape}, the reference's {wanted_shape}.",
                where=build.tensors[other].name,
            )
        yield expected[position], outputs[other]


def correspondence(reference: Sequence[TensorSpec], build: Sequence[TensorSpec]) -> tuple[int, ...]:
    """Position in the build of each output of the reference: by name, or by position if no name agrees.

    ProtocolError where their numbers differ, or where some names agree and others do not: a converter that
    renames some outputs may have reordered them too.
    """
    if len(reference) != len(build):
        raise ProtocolError(f"The reference has {len(reference)} outputs, the build {len(build)}.")
    names: Mapping[str, int] = {tensor.name: i for i, tensor in enumerate(build)}
    known = [tensor.name in names for tensor in reference]
    if all(known):
        return tuple(names[tensor.name] for tensor in reference)
    if any(known):
        listed = ", ".join(repr(tensor.name) for tensor in reference if tensor.name not in names)
        raise ProtocolError(f"The build lacks the reference's outputs {listed}, but has others of them.")
    return tuple(range(len(reference)))


def _chain(first: tuple[Array, Array], rest: Iterator[tuple[Array, Array]]) -> Iterator[tuple[Array, Array]]:
    yield first
    yield from rest
