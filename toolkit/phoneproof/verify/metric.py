"""The metric worker: `python -m phoneproof.verify.metric REQUEST.json` scores outputs by a user's function.

The function of `module:function` is called once for each sample as f(outputs, label), with `outputs` a dict
of output name to array in real values, and gives a number: the sample's score, larger is better. Attributes
of the function, if it has them: `bounds = (least, greatest)`. It runs in a process of its own, so that
whatever it does, the run goes on.

Request: {metric, folder, labels, files: [{path, tensors}]}; result: {scores: [[...], ...], bounds}.
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
    """metric: `module:function`, found from `folder`. labels: one per sample, None without. samples: which."""

    metric: str
    folder: str
    labels: tuple[Any, ...] | None
    samples: tuple[int, ...]
    files: tuple[OutputFile, ...]


def score(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Scores of every file, in the order of the samples. PlanError where the metric cannot be used."""
    wanted = from_dict(MetricRequest, request)
    function = _function(wanted)
    scores = []
    for number, file in enumerate(wanted.files):
        progress.say(f"score {wanted.metric}", number, len(wanted.files))
        scores.append(_scores(function, wanted, KeptOutputs(Path(file.path), file.tensors)))
    bounds = getattr(function, "bounds", None)
    return {"scores": scores, "bounds": None if bounds is None else [float(bounds[0]), float(bounds[1])]}


def _function(wanted: MetricRequest) -> Callable[..., Any]:
    module, _, name = wanted.metric.partition(":")
    sys.path.insert(0, wanted.folder)
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise PlanError(
            f"The metric cannot be imported: {error}.",
            where=f"[task] metrics: {wanted.metric}",
            next_step="Correct the module or function; modules are looked for from the plan's folder.",
        ) from error
    if not callable(function):
        raise PlanError("The metric is no function.", where=f"[task] metrics: {wanted.metric}")
    found: Callable[..., Any] = function
    return found


def _scores(function: Callable[..., Any], wanted: MetricRequest, kept: KeptOutputs) -> list[float]:
    scores: dict[int, float] = {}
    chosen = frozenset(wanted.samples)
    for sample, outputs in kept.samples():
        if sample not in chosen:
            continue
        named = {tensor.name: array for tensor, array in zip(kept.tensors, outputs, strict=True)}
        label = None if wanted.labels is None else wanted.labels[sample]
        value = float(function(named, label))
        if not math.isfinite(value):
            raise PlanError(
                f"The metric gave {value} for sample {sample}.",
                where=f"[task] metrics: {wanted.metric}",
                next_step="Give a finite number for every sample.",
            )
        scores[sample] = value
    return [scores[sample] for sample in wanted.samples]


if __name__ == "__main__":
    sys.exit(run_worker(score))
