"""A first plan for a model and its data: what `phoneproof init` writes."""

import tempfile
from pathlib import Path

from phoneproof.errors import CommandLineError
from phoneproof.plan.initial import ModelFacts, ModelTensor, initial_plan
from phoneproof.protocol.work import write_atomically
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.runs.near_paths import did_you_mean
from phoneproof.workers.environments import environment_of
from phoneproof.workers.worker import WorkerCall, WorkerLimits, call_worker


def write_first_plan(
    model: Path, data: Path | None, plan: Path, store: Path, overwrite: bool = False
) -> None:
    """Write a commented plan that runs (without `data`: one whose preflight names what is missing).

    CommandLineError if `plan` exists, unless `overwrite`, or if `model` or `data` do not; SourceModelError
    if the model cannot be read.
    """
    if plan.exists() and not overwrite:
        raise CommandLineError(
            "It exists.", where=str(plan), next_step="Give another name with -p, or --force to replace it."
        )
    for path, option in ((model, "--model"), (data, "--data")):
        if path is not None and not path.exists():
            step = f"{did_you_mean(path)}Correct the path."
            raise CommandLineError("It does not exist.", where=f"{option}: {path}", next_step=step)
    text = initial_plan(model, data, model_facts(model, store), plan.absolute().parent)
    plan.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(plan, text)


def model_facts(model: Path, store: Path) -> ModelFacts:
    """Inputs and outputs of a source model, by a worker."""
    environment = environment_of(TOOLCHAINS["onnxruntime"], store)
    with tempfile.TemporaryDirectory(prefix="phoneproof-") as folder:
        answer = call_worker(
            WorkerCall(
                "phoneproof.sources.signature",
                {"path": str(model.absolute())},
                Path(folder),
                environment.interpreter,
                environment.python_path,
                WorkerLimits(timeout_s=300.0),
            )
        )
    return ModelFacts(
        tuple(_tensor(item) for item in answer["inputs"]), tuple(_tensor(item) for item in answer["outputs"])
    )


def _tensor(item: dict[str, object]) -> ModelTensor:
    shape = item["shape"]
    if not isinstance(shape, list):
        raise TypeError("a shape that is no list")
    return ModelTensor(str(item["name"]), str(item["dtype"]), tuple(shape))
