"""Makes litert-torch builds in its managed environment, many in one process of it."""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.toolchains.orders import Done, Order, carried_out

_TOOLKIT = Path(__file__).parents[2]

PROGRAMS = """
import sys, numpy as np, torch
from pathlib import Path
from tests.models.torch_networks import ConvNet, TokenClassifier, TwoInTwoOut
from tests.models.torch_networks import exported, saved_program, trained
from phoneproof.sources.exported_program import load_program
from phoneproof.sources.request import ExportedProgramRequest
folder = Path(sys.argv[1])
torch.manual_seed(1)
cases = {
    "conv": (ConvNet(), [torch.rand(1, 3, 16, 16)]),
    "tokens": (TokenClassifier(), [torch.randint(0, 32, (1, 8))]),
    "two": (TwoInTwoOut(), [torch.rand(1, 8), torch.rand(1, 4)]),
}
for name, (module, example) in cases.items():
    module = trained(module, example)
    path = saved_program(exported(module, example), folder / f"{name}.pt2")
    source = load_program(ExportedProgramRequest("exported_program", str(path)))
    inputs = [
        torch.rand(16, *one.shape[1:]) * 2 - 0.5 if one.is_floating_point() else torch.randint(0, 32, (16, 8))
        for one in example
    ]
    outputs = []
    with torch.no_grad():
        for index in range(16):
            given = module(*(one[index : index + 1] for one in inputs))
            outputs.append([one.numpy() for one in (given if isinstance(given, tuple) else (given,))])
    np.savez(
        folder / f"{name}.npz",
        **{spec.name: one.numpy() for spec, one in zip(source.inputs, inputs)},
        **{"out-" + spec.name: np.concatenate(o) for spec, o in zip(source.outputs, zip(*outputs))},
    )
"""


def write_programs(folder: Path) -> None:
    """conv.pt2, tokens.pt2 and two.pt2 with 16 samples and the outputs to them (out-NAME) in NAME.npz."""
    command = [sys.executable, "-c", PROGRAMS, str(folder)]
    run = subprocess.run(command, env=_environment(sys.path), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-4000:]


def carried_out_by(interpreter: Path, orders: Iterable[Order], root: Path) -> dict[str, Done]:
    """Carry out the orders in one new process of a managed environment."""
    return carried_out(orders, root, interpreter, _environment([str(_TOOLKIT)]))


def _environment(paths: Iterable[str]) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": ":".join(paths), "TF_CPP_MIN_LOG_LEVEL": "3"}
