"""The metric worker: `python -m phoneproof.verify.metric REQUEST.json` scores outputs by a user's function.

The function of `module:function` is called once for each sample as f(outputs, label), with `outputs` a dict
of output name to array in real values, and gives a number: the sample's score, larger is better. Attributes
of the function, if it has them: `bounds = (least, greatest)`. It runs in a process of its own, so that
whatever it does, the run goes on.

Request: MetricRequest; result: {scores: [[...], ...], bounds}, one list for each file.
"""

import importlib
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phoneproof.errors import PlanError
from phoneproof.protocol.codec import from_dict
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import Progress, run_worker
from phoneproof.verify.outputs import KeptOutputs


@dataclass(frozen=True)
class OutputFile:
    """A file of outputs and what they are."""

    path: str
    tensors: tuple[TensorSpec, ...]


@dataclass(frozen=True)
class MetricRequest:
    """metric: `module:function`, found from `folder`. labels: one for each sample of the set, None without.

    samples: numbers of those to score, which every file has.
    """

    metric: str
    folder: str
    labels: tuple[Any, ...] | None
    samples: tuple[int, ...]
    files: tuple[OutputFile, ...]


def score(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Scores of every file, in the order of the samples. PlanError where the metric cannot be used."""
    wanted = from_dict(MetricRequest, request)
    function = _function(wanted)
    bounds = _bounds(function, wanted)
    scores = []
    for number, file in enumerate(wanted.files):
        progress.say(f"score {wanted.metric}", number, len(wanted.files))
        scores.append(_scores(function, bounds, wanted, KeptOutputs(Path(file.path), file.tensors)))
    return {"scores": scores, "bounds": bounds}


def _function(wanted: MetricRequest) -> Callable[..., Any]:
    module, _, name = wanted.metric.partition(":")
    sys.path.insert(0, wanted.folder)
    try:
        function = getattr(importlib.import_module(module), name)
    except Exception as error:
        raise _unusable(
            wanted,
            f"The metric cannot be imported: {type(error).__name__}: {error}.",
            "Correct the module or function; modules are looked for from the plan's folder.",
        ) from error
    if not callable(function):
        raise _unusable(wanted, "The metric is no function.", "Name a function of outputs and label.")
    found: Callable[..., Any] = function
    return found


def _bounds(function: Callable[..., Any], wanted: MetricRequest) -> tuple[float, float] | None:
    declared = getattr(function, "bounds", None)
    if declared is None:
        return None
    try:
        least, greatest = (float(bound) for bound in declared)
    except (TypeError, ValueError):
        least = greatest = math.nan
    if not -math.inf < least < greatest < math.inf:
        raise _unusable(
            wanted,
            f"The metric's bounds are {declared!r}.",
            "Set bounds = (least, greatest), or leave them out.",
        )
    return least, greatest


def _scores(
    function: Callable[..., Any],
    bounds: tuple[float, float] | None,
    wanted: MetricRequest,
    kept: KeptOutputs,
) -> list[float]:
    scores: dict[int, float] = {}
    chosen = frozenset(wanted.samples)
    for sample, outputs in kept.samples():
        if sample not in chosen:
            continue
        named = {tensor.name: array for tensor, array in zip(kept.tensors, outputs, strict=True)}
        label = None if wanted.labels is None else wanted.labels[sample]
        try:
            value = float(function(named, label))
        except Exception as error:
            raise _unusable(
                wanted,
                f"The metric failed on sample {sample}: {type(error).__name__}: {error}.",
                "Correct the function; it is called with a dict of arrays by output name, and the label.",
            ) from error
        if not math.isfinite(value) or (bounds is not None and not bounds[0] <= value <= bounds[1]):
            raise _unusable(
                wanted,
                f"The metric gave {value} for sample {sample}.",
                "Give a finite number within the bounds for every sample.",
            )
        scores[sample] = value
    return [scores[sample] for sample in wanted.samples]


def _unusable(wanted: MetricRequest, what: str, next_step: str) -> PlanError:
    return PlanError(what, where=f"[task] metrics: {wanted.metric}", next_step=next_step)


if __name__ == "__main__":
    sys.exit(run_worker(score))
