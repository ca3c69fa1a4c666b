"""The torch-qnnpack toolchain: `python -m phoneproof.toolchains.torch_qnnpack REQUEST.json`.

Request (BuildRequest): recipe, options, PyTorch source, calibration samples. The module is made again out of
the user's function, quantized by FX graph mode with ranges of our own, and saved as TorchScript: `model.ts`
and `build.json` in the request's `out`. Each text of the request's metadata is an extra file of the archive.
"""

import sys
import tempfile
from collections.abc import Mapping
from itertools import islice
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
from phoneproof.sources.agreement import Arrays, Network, accepted_inputs, joined, trial_inputs
from phoneproof.sources.program_running import network_of
from phoneproof.sources.python_module import module_of
from phoneproof.sources.pytorch import export_to
from phoneproof.sources.request import PytorchSourceRequest
from phoneproof.sources.rounding import least_float_db, least_step_db, one_thread
from phoneproof.toolchains.build_fault import fault_of
from phoneproof.toolchains.fx_quantizer import Quantized, quantized
from phoneproof.toolchains.request import BuildRequest, read_request
from phoneproof.toolchains.result import Made, finish, widest
from phoneproof.toolchains.torchscript import Flat, save_script

TOOLCHAIN: Final = TOOLCHAINS["torch-qnnpack"]
MODEL_FILE: Final = "model.ts"

_SAMPLES: Final = 2


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
    converted = _converted(module, wanted, recipe, progress)
    out = folder / wanted.out
    out.mkdir(parents=True, exist_ok=True)
    path = out / MODEL_FILE
    progress.say("save")
    example = [torch.from_numpy(value) for value in _trial(wanted)]
    save_script(Flat(converted.module), example, path, wanted.source_inputs, wanted.metadata)
    progress.say("check")
    _check(path, converted.reference, wanted, recipe)
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


def _check(path: Path, module: torch.nn.Module, wanted: BuildRequest, recipe: Recipe) -> None:
    """The file loads in its runtime, and gives what `module` does but for rounding.

    module: the source's, or the reference of the quantized one.
    """
    names = [spec.name for spec in wanted.source_inputs]
    network = network_of(lambda tensors: list(Flat(module)(*tensors)))
    with one_thread():
        samples = _samples(network, wanted)
        expected = joined(network, samples)
        least_db = least_float_db if recipe.mode is Mode.NONE else least_step_db
        least = least_db(network, samples, expected)
    try:
        session = load(LoadRequest(path, "cpu", False, 1, {}))
        found = [
            [value.copy() for value in session.prepare(dict(zip(names, arrays, strict=True)))()]
            for arrays in samples
        ]
    except Exception as error:  # TorchScript and its kernels raise RuntimeError and others
        raise ToolchainError(
            f"The build does not load or run in torch: {said(error)}.",
            where=wanted.source.path,
            next_step="Leave the operator it names in float with keep_float_names.",
        ) from error
    if len(found[0]) != len(wanted.source_outputs):
        raise ToolchainError(
            f"The build gives {len(found[0])} outputs, not {len(wanted.source_outputs)}.",
            where=wanted.source.path,
        )
    outputs = zip(*found, strict=True)
    for spec, values, reference, limit in zip(wanted.source_outputs, outputs, expected, least, strict=True):
        fault = fault_of(spec, values, reference, limit)
        if fault is not None:
            raise ToolchainError(
                f"The build's output {spec.name!r} is wrong: {fault}.",
                where=wanted.source.path,
                next_step="A trace settles conditions on the data once; look for some in forward."
                if recipe.mode is Mode.NONE
                else "QNNPACK computes an operator wrongly: find it with keep_float_names.",
            )


def _samples(network: Network, wanted: BuildRequest) -> list[Arrays]:
    """The first of the calibration set; without one, random inputs."""
    if wanted.samples is None:
        return accepted_inputs(network, wanted.source_inputs)
    first = islice(wanted.samples.read(wanted.source_inputs), _SAMPLES)
    return [[np.array(sample[spec.name]) for spec in wanted.source_inputs] for sample in first]


def _wide_tensors(module: torch.nn.Module) -> tuple[WideTensor, ...]:
    """Parameters and buffers in float; weights of quantized modules are packed and no parameters any more."""
    return widest(
        WideTensor(name, str(value.dtype).removeprefix("torch."), value.nbytes)
        for name, value in (*module.named_parameters(), *module.named_buffers())
        if value.is_floating_point()
    )


if __name__ == "__main__":
    sys.exit(run_worker(build))
