"""Outputs for edge inputs as the judge takes them, and by how much a build errs on the evaluation set."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from phoneproof.errors import ProtocolError
from phoneproof.protocol.attempts import BadEnd, CaseEnd
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.verify.edge import JudgedOutput, Taken
from phoneproof.verify.outputs import KeptOutputs, correspondence, is_labels
from phoneproof.verify.parity import LabelParity, OutputParity


def peaks(reference: KeptOutputs) -> dict[str, float]:
    """The greatest magnitude of each output's finite numbers over all samples, by name."""
    found = dict.fromkeys((tensor.name for tensor in reference.tensors), 0.0)
    for _, outputs in reference.samples():
        for tensor, output in zip(reference.tensors, outputs, strict=True):
            finite = np.abs(output[np.isfinite(output)].astype(np.float64))
            found[tensor.name] = max(found[tensor.name], float(finite.max(initial=0.0)))
    return found


def judged_outputs(
    reference: Sequence[TensorSpec],
    build: Sequence[TensorSpec],
    parity: Mapping[str, OutputParity | LabelParity],
    peak: Mapping[str, float],
    scored: str | None,
) -> tuple[JudgedOutput, ...]:
    """Every output of the reference with what is known of it; () where the build's do not correspond.

    parity: by the reference's names, on the evaluation set. scored: the output with scores of classes.
    """
    try:
        order = correspondence(reference, build)
    except ProtocolError:
        return ()
    found = []
    for tensor, position in zip(reference, order, strict=True):
        measured = parity.get(tensor.name)
        numbers = measured if isinstance(measured, OutputParity) else None
        found.append(
            JudgedOutput(
                name=tensor.name,
                position=position,
                ends=_ends(build[position]),
                error=None if numbers is None else numbers.max_abs_error,
                peak=peak.get(tensor.name, 0.0),
                samples=0 if measured is None else measured.samples,
                is_scored=tensor.name == scored,
                is_labels=is_labels(tensor) and is_labels(build[position]),
            )
        )
    return tuple(found)


def taken(kept: KeptOutputs | None, bad: Mapping[int, BadEnd], count: int) -> Iterator[Taken]:
    """What one side made of each of the `count` samples of a set, in order and one in memory at a time.

    kept: None where the case ended before its outputs were written. ProtocolError for outputs of another form
    than the side declares.
    """
    records = iter(() if kept is None else kept.samples())
    number, outputs = next(records, (count, ()))
    for sample in range(count):
        while number < sample:
            number, outputs = next(records, (count, ()))
        end = bad.get(sample)
        if end is not None:
            yield Taken(end.outcome, end, None)
        else:
            yield Taken("passed", None, outputs if number == sample else None)


def bad_ends(end: CaseEnd, count: int) -> dict[int, BadEnd]:
    """Why samples of an edge case have no output, also where the case was never begun."""
    if end.bad_samples or end.bad is None:
        return dict(end.bad_samples)
    return dict.fromkeys(range(count), end.bad)


def _ends(tensor: TensorSpec) -> tuple[float, float] | None:
    """The least and greatest real value that a quantized output can have."""
    if tensor.scale is None or tensor.zero_point is None:
        return None
    limits = np.iinfo(tensor.dtype)
    ends = [
        (int(end) - tensor.zero_point) * float(np.float32(tensor.scale)) for end in (limits.min, limits.max)
    ]
    return ends[0], ends[1]
