"""What the built-in metrics score, checked as soon as the model and its evaluation set are known."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from phoneproof.data.store import StoredSet
from phoneproof.errors import DataError, PlanError
from phoneproof.findings import Finding
from phoneproof.plan.model import Plan
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.verify.label_shift import label_shift
from phoneproof.verify.outputs import KeptOutputs, sample_numbers, stacked_output

BUILT_IN: Final[Mapping[str, int]] = {"top1": 1, "top5": 5}
"""The k of each built-in metric: a sample is right if its label is among the k highest scores."""


@dataclass(frozen=True)
class ScoredOutput:
    """The output that built-in metrics score. classes: how many scores a sample has in it."""

    name: str
    classes: int


def scored_output(plan: Plan, outputs: Sequence[TensorSpec]) -> ScoredOutput | None:
    """The output of a source model that the plan's built-in metrics score; None where it asks for none.

    PlanError where `[task] output` names no output, where it names none and there are several, and where
    the output does not hold as many scores for one sample as the metrics need.
    """
    wanted = plan.task.output
    names = [tensor.name for tensor in outputs]
    if wanted is not None and wanted not in names:
        near = difflib.get_close_matches(wanted, names, n=1, cutoff=0.5)
        what = f"The model has no output {wanted[:80]!r}."
        step = f"Did you mean {near[0]!r}?" if near else f"Its outputs are {_listed(outputs)}."
        raise PlanError(what, where=plan.where("task", "output"), next_step=step)
    built_in = [metric for metric in plan.task.metrics if metric in BUILT_IN]
    if not built_in:
        return None
    if wanted is None and len(outputs) > 1:
        raise PlanError(
            f"The model has {len(outputs)} outputs, and the plan does not say which of them {built_in[0]} "
            "scores.",
            where=plan.where("task", "output"),
            next_step=f"Set output to one of {_listed(outputs)}.",
        )
    tensor = outputs[0 if wanted is None else names.index(wanted)]
    classes = tensor.shape[-1] if len(tensor.shape) in (1, 2) else 0
    if not classes or tensor.shape[:-1] not in ((), (1,)):
        raise PlanError(
            f"{built_in[0]} needs one score for each class, and the output {_listed([tensor])} has another "
            "form.",
            where=plan.where("task", "metrics"),
            next_step="Name another output, or score it by a function of your own: 'module:function'.",
        )
    for metric in built_in:
        if BUILT_IN[metric] > classes:
            what = f"{metric} needs {BUILT_IN[metric]} scores, and the output {tensor.name!r} has {classes}."
            raise PlanError(what, where=plan.where("task", "metrics"), next_step="Leave the metric out.")
    return ScoredOutput(tensor.name, classes)


def check_labels(plan: Plan, scored: ScoredOutput | None, evaluation: StoredSet) -> None:
    """DataError where labels of the evaluation set are no class indices of the output that is scored."""
    if scored is None or evaluation.labels is None:
        return
    where = plan.where("data", "evaluation")
    for sample, label in zip(evaluation.ids, evaluation.labels, strict=True):
        if not _is_index(label):
            raise DataError(
                f"The label {label!r:.80} of the sample {sample!r:.80} is no class index.",
                where=where,
                next_step="Give the index of each sample's class in the model's output, or, where labels are "
                "names, list these in data.classes in the order of the output.",
            )
    lowest, highest = int(min(evaluation.labels)), int(max(evaluation.labels))
    if lowest < 0 or highest >= scored.classes:
        raise DataError(
            f"The labels go from {lowest} to {highest}, and the output {scored.name!r} has the classes "
            f"0 to {scored.classes - 1}.",
            where=where,
            next_step="Give the evaluation set that belongs to the model, with labels counted from 0.",
        )


def class_findings(model: str, scored: ScoredOutput | None, evaluation: StoredSet) -> tuple[Finding, ...]:
    """OUTPUT-CLASSES where the set has another number of classes than the output that is scored.

    A set whose labels are bare indices does not say how many classes there are.
    """
    if scored is None or evaluation.class_names is None or len(evaluation.class_names) == scored.classes:
        return ()
    names = len(evaluation.class_names)
    return (Finding.of("OUTPUT-CLASSES", model, output=scored.name, scores=scored.classes, classes=names),)


def shift_findings(
    model: str, scored: ScoredOutput | None, labels: Sequence[Any] | None, reference: KeptOutputs
) -> tuple[Finding, ...]:
    """OUTPUT-LABELS-SHIFTED where labels that are shifted by one fit the outputs far better."""
    samples = sample_numbers(reference)
    if scored is None or labels is None or not samples:
        return ()
    chosen = np.array([int(labels[sample]) for sample in samples])
    shift = label_shift(stacked_output(reference, scored.name, samples), chosen)
    if shift is None:
        return ()
    facts = {"by": shift.by, "accuracy": shift.accuracy, "shifted": shift.shifted, "samples": shift.n}
    return (Finding.of("OUTPUT-LABELS-SHIFTED", model, **facts),)


def _is_index(label: Any) -> bool:
    """Arrays of labels are often stored as float: 3.0 is the index 3."""
    return isinstance(label, int) or (isinstance(label, float) and label.is_integer())


def _listed(outputs: Sequence[TensorSpec]) -> str:
    return ", ".join(f"{tensor.name!r} {list(tensor.shape)}" for tensor in outputs)
