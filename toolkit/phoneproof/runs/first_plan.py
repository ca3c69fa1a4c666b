"""A first plan for a model and its data: what `phoneproof init` writes."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from phoneproof.errors import CommandLineError
from phoneproof.plan.entry_points import check_entry_point
from phoneproof.plan.initial import ModelFacts, ModelTensor, initial_plan
from phoneproof.plan.values import ENTRY_POINT
from phoneproof.protocol.work import write_atomically
from phoneproof.recipes.build_headers import SUFFIXES
from phoneproof.recipes.runtime_table import READER_OF
from phoneproof.recipes.source_headers import SOURCE_SUFFIXES, check_source
from phoneproof.recipes.table import SourceFormat
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.runs.near_paths import did_you_mean
from phoneproof.workers.environments import environment_of
from phoneproof.workers.worker import WorkerCall, WorkerLimits, call_worker

_SETS: Final = ("data.calibration", "data.evaluation")
_WHERE: Final = "--model"
_MODULE: Final = (
    "Write a Python function that gives the torch.nn.Module, and name it: --model module:function."
)

_OTHERS: Final[Mapping[str, str]] = {
    ".pt": f"It holds weights, not what is computed with them. {_MODULE} The weights go into state = ...",
    ".pth": f"It holds weights, not what is computed with them. {_MODULE} The weights go into state = ...",
    ".safetensors": f"It holds weights only. {_MODULE} The weights go into state = ...",
    ".h5": "Save the model with model.save('model.keras').",
    ".pb": "Name the folder of the SavedModel.",
    ".py": _MODULE,
    **dict.fromkeys(
        set(SUFFIXES) - {".onnx"},
        "It is a build. Name the model it was made from, and it in [[builds]] file.",
    ),
}


def write_first_plan(
    model: str, data: Path | None, plan: Path, store: Path, overwrite: bool = False
) -> tuple[str, ...]:
    """Write a commented plan; the keys that are still to be filled in. Without any the plan runs.

    model: path of a source model, or `module:function` that gives a torch.nn.Module.
    CommandLineError if `plan` exists, unless `overwrite`, or if `model` or `data` do not, or `model` is none;
    SourceModelError if the model cannot be read, PlanError if there is no such function.
    """
    if plan.exists() and not overwrite:
        raise CommandLineError(
            "It exists.", where=str(plan), next_step="Give another name with -p, or --force to replace it."
        )
    folder = plan.absolute().parent
    form = _form_of(model)
    if data is not None and not data.exists():
        raise _missing(data, "--data")
    if form is SourceFormat.PYTORCH:
        check_entry_point(model, folder, _WHERE)
        facts = None
    else:
        check_source(Path(model), form)
        facts = model_facts(Path(model), form, store)
    text = initial_plan(model, form, data, facts, folder)
    plan.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(plan, text)
    inputs = ("models.inputs",) if form is SourceFormat.PYTORCH else ()
    return (*inputs, *(_SETS if data is None else ()))


def _form_of(model: str) -> SourceFormat:
    """The form of a source, by its name. CommandLineError where it is missing or no source model."""
    path = Path(model)
    if not path.exists():
        if ENTRY_POINT.fullmatch(model):
            return SourceFormat.PYTORCH
        raise _missing(path, _WHERE)
    if path.is_dir() and path.suffix not in SUFFIXES:
        return SourceFormat.SAVEDMODEL
    if path.suffix in SOURCE_SUFFIXES:
        return SOURCE_SUFFIXES[path.suffix]
    known = f"Source models end in {', '.join(SOURCE_SUFFIXES)}, or are the folder of a SavedModel."
    step = _OTHERS.get(path.suffix, f"{known} {_MODULE}")
    raise CommandLineError("It is no source model.", where=f"{_WHERE}: {model}", next_step=step)


def _missing(path: Path, option: str) -> CommandLineError:
    step = f"{did_you_mean(path)}Correct the path."
    return CommandLineError("It does not exist.", where=f"{option}: {path}", next_step=step)


def model_facts(model: Path, form: SourceFormat, store: Path) -> ModelFacts:
    """Inputs and outputs of a source model that is a file or folder, by a worker that can read its form."""
    environment = environment_of(TOOLCHAINS[READER_OF[form]], store)
    with tempfile.TemporaryDirectory(prefix="phoneproof-") as folder:
        answer = call_worker(
            WorkerCall(
                "phoneproof.sources.signature",
                {"format": form.value, "path": str(model.absolute())},
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
