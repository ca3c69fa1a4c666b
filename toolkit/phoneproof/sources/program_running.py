"""Running an exported program on arrays, and checking that it gives the same each time."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from phoneproof.errors import SourceModelError, said
from phoneproof.sources.agreement import FLOAT_LEAST_DB, Arrays, Network, difference, trial_inputs
from phoneproof.sources.exported_program import ExportedSource


def network_of(run: Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]) -> Network:
    """A function of torch tensors as one of arrays, without gradients."""

    def network(inputs: Arrays) -> Arrays:
        with torch.inference_mode():
            return [one.numpy() for one in run([torch.from_numpy(np.array(value)) for value in inputs])]

    return network


def check_repeatable(source: ExportedSource, place: str) -> None:
    """SourceModelError for a program that fails, is random, or changes its own state when it runs.

    What torch.export writes does not always say so: batch norm in training mode changes its running mean
    without a word of it in the signature.
    """
    state = {**source.program.state_dict, **source.program.constants}
    before = {name: value.clone() for name, value in state.items() if isinstance(value, torch.Tensor)}
    network = network_of(source.runner())
    inputs = next(iter(trial_inputs(source.inputs)))
    try:
        first, second = network(inputs), network(inputs)
    except Exception as error:  # the operators of torch raise all kinds
        raise SourceModelError(
            f"The program does not run: {said(error)}.",
            where=place,
            next_step="Run it in torch by itself and mend it.",
        ) from error
    changed = [name for name, value in before.items() if not torch.equal(value, state[name])]
    if changed:
        raise SourceModelError(
            f"The model changes {', '.join(changed[:5])} whenever it runs.",
            where=place,
            next_step="Export it in evaluation mode (`module.eval()`), with its state as inputs and outputs.",
            changed=tuple(changed),
        )
    if difference(first, second, FLOAT_LEAST_DB) is not None:
        raise SourceModelError(
            "The model gives other outputs for the same input each time it runs.",
            where=place,
            next_step="Turn off what is random in it, such as dropout with training=True.",
        )
