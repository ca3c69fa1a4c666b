"""The torch-qnnpack toolchain: `python -m phoneproof.toolchains.torch_qnnpack REQUEST.json`.

Request (BuildRequest): recipe, options, PyTorch source, calibration samples. The module is made again out of
the user's function, quantized by FX graph mode with ranges of our own, and saved as TorchScript: `model.ts`
and `build.json` in the request's `out`. Each text of the request's metadata is an extra file of the archive.
"""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from phoneproof.builds.manifest import WideTensor
from phoneproof.errors import ProtocolError, ToolchainError, said
from phoneproof.protocol.work import Progress, run_worker
from phoneproof.recipes.table import Mode, Recipe
from phoneproof.recipes.toolchain_table import TOOLCHAINS, installed_versions, version_findings
from phoneproof.runtimes.runtime import LoadRequest
from phoneproof.runtimes.torch_qnnpack import load, use_engine
from phoneproof.sources.agreement import FLOAT_LEAST_DB, difference, trial_inputs
from phoneproof.sources.python_module import module_of
from phoneproof.sources.pytorch import export_to
from phoneproof.sources.request import PytorchSourceRequest
from phoneproof.toolchains.fx_quantizer import Quantized, quantized
from phoneproof.toolchains.request import BuildRequest, read_request
from phoneproof.toolchains.result import Made, finish, widest
from phoneproof.toolchains.torchscript import Flat, save_script

TOOLCHAIN: Final = TOOLCHAINS["torch-qnnpack"]
MODEL_FILE: Final = "model.ts"


def build(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Make one build. Raises RecipeError, SourceModelError, DataError, ProtocolError and ToolchainError."""
    wanted, recipe = read_request(request, TOOLCHAIN)
    findings = version_findings(TOOLCHAIN, installed_versions(TOOLCHAIN))
    if not isinstance(wanted.source, PytorchSourceRequest):
        raise ProtocolError(f"{TOOLCHAIN.name} converts PyTorch modules.", where="$.source.format")
    use_engine()
    progress.say("load")
    _check_unchanged(wanted.source)
    module = module_of(wanted.source)
    reference = _outputs(Flat(module), _trial(wanted))
    converted = _converted(module, wanted, recipe, progress)
    out = folder / wanted.out
    out.mkdir(parents=True, exist_ok=True)
    path = out / MODEL_FILE
    progress.say("save")
    example = [torch.from_numpy(value) for value in _trial(wanted)]
    save_script(Flat(converted.module), example, path, wanted.source_inputs, wanted.metadata)
    progress.say("check")
    _check(path, reference, wanted, recipe)
    made = Made(
        MODEL_FILE,
        wanted.source_inputs,
        wanted.source_outputs,
        converted.operators,
        converted.float_operators,
        converted.kept_in_int8,
        wide_tensors=_wide_tensors(converted.module) if recipe.is_quantized else (),
    )
    return finish(made, wanted, recipe, TOOLCHAIN, folder, findings)


def _check_unchanged(source: PytorchSourceRequest) -> None:
    """SourceModelError if the user's code gives another module than when the run was planned."""
    if source.sha256 is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        export_to(source, Path(folder))


def _converted(
    module: torch.nn.Module, wanted: BuildRequest, recipe: Recipe, progress: Progress
) -> Quantized:
    example = tuple(torch.from_numpy(value) for value in _trial(wanted))
    if recipe.mode is Mode.NONE:
        return Quantized.in_float(module, example, wanted.source.path)
    if wanted.samples is None:
        raise ProtocolError(f"{recipe.name} needs a calibration set.", where="$.samples")
    names = [spec.name for spec in wanted.source_inputs]
    samples = (
        tuple(torch.from_numpy(np.array(sample[name])) for name in names)
        for sample in wanted.samples.read(wanted.source_inputs)
    )
    made = quantized(
        module, samples, example, wanted.options, wanted.source.path, lambda n: progress.say("calibrate", n)
    )
    if not made.operators.get("int8"):
        raise ToolchainError(
            f"{recipe.name} left every operator in float.",
            where=wanted.source.path,
            next_step="Check keep_float_names and keep_float_types; a model without convolutions or linear "
            "layers has nothing to quantize.",
            operators=len(made.float_operators),
        )
    return made


def _trial(wanted: BuildRequest) -> list[NDArray[Any]]:
    return next(iter(trial_inputs(wanted.source_inputs)))


def _outputs(module: torch.nn.Module, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    with torch.inference_mode():
        return [one.numpy() for one in module(*(torch.from_numpy(value.copy()) for value in inputs))]


def _check(path: Path, reference: list[NDArray[Any]], wanted: BuildRequest, recipe: Recipe) -> None:
    """The file loads in its runtime and gives what the manifest says; a float build, what the module does."""
    names = [spec.name for spec in wanted.source_inputs]
    try:
        session = load(LoadRequest(path, "cpu", False, 1, {}))
        outputs = list(session.prepare(dict(zip(names, _trial(wanted), strict=True)))())
    except Exception as error:  # TorchScript and its kernels raise RuntimeError and others
        raise ToolchainError(
            f"The build does not load or run in torch: {said(error)}.",
            where=wanted.source.path,
            next_step="Leave the operator it names in float with keep_float_names.",
        ) from error
    if len(outputs) != len(wanted.source_outputs):
        raise ToolchainError(
            f"The build gives {len(outputs)} outputs, not {len(wanted.source_outputs)}.",
            where=wanted.source.path,
        )
    for spec, value, expected in zip(wanted.source_outputs, outputs, reference, strict=True):
        if value.dtype.name != spec.dtype or value.shape != spec.shape:
            raise ToolchainError(
                f"The build's output {spec.name!r} is {value.dtype.name} {value.shape}, "
                f"not {spec.dtype} {spec.shape}.",
                where=wanted.source.path,
            )
        if not np.isfinite(value).all() and np.isfinite(expected).all():
            raise ToolchainError(f"The build's output {spec.name!r} is not finite.", where=wanted.source.path)
    what = difference(reference, outputs, FLOAT_LEAST_DB) if recipe.mode is Mode.NONE else None
    if what is not None:
        raise ToolchainError(
            f"The traced module does not compute what the module does: {what}.",
            where=wanted.source.path,
            next_step="Look for conditions on the data, which a trace settles once.",
        )


def _wide_tensors(module: torch.nn.Module) -> tuple[WideTensor, ...]:
    """Parameters and buffers in float; weights of quantized modules are packed and no parameters any more."""
    return widest(
        WideTensor(name, str(value.dtype).removeprefix("torch."), value.nbytes)
        for name, value in (*module.named_parameters(), *module.named_buffers())
        if value.is_floating_point()
    )


if __name__ == "__main__":
    sys.exit(run_worker(build))
