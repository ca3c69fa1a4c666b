"""Work for orders: what coremltools does without our guards, seen by the interpreter.

Request: {"what", "source": path of a .pt2}. Result: facts for the test to judge.
"""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from phoneproof.errors import ToolchainError
from phoneproof.protocol.work import Progress
from phoneproof.recipes.table import Precision
from phoneproof.runtimes.coreml_vendor import coremltools
from phoneproof.sources.exported_program import ExportedSource, load_program
from phoneproof.sources.request import ExportedProgramRequest
from phoneproof.toolchains.coreml_check import check_build, run_of
from phoneproof.toolchains.coreml_compare import random_inputs
from phoneproof.toolchains.coreml_convert import convert, mark_origins
from phoneproof.toolchains.coreml_converted import Conversion
from phoneproof.toolchains.coreml_package import write_package
from phoneproof.toolchains.mlpackage_file import read_mlpackage

OPERATORS = "torch.ao.quantization.fx._decomposed"
"""Registers quantized_decomposed, which the program uses."""


def build(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """See the module."""
    importlib.import_module(OPERATORS)
    source = load_program(ExportedProgramRequest("exported_program", request["source"]))
    mark_origins(source.program)
    return {"pass": _with_and_without_pass, "name": _unknown_name}[request["what"]](source, folder)


def _with_and_without_pass(source: ExportedSource, folder: Path) -> Mapping[str, Any]:
    """What the check says of a program whose scales differ around a reshape."""
    found: dict[str, Any] = {}
    for kept in (False, True):
        package = folder / f"{kept}.mlpackage"
        specs = (source.inputs, source.outputs)
        made = convert(source.program, *specs, Conversion(Precision.FLOAT32, "iOS17", keep_pass=kept))
        write_package(made.model, package, "", {})
        try:
            run = run_of(source.program)
            check_build(package, run, random_inputs(source.inputs, run), *specs, Precision.FLOAT32)
            found[str(kept)] = "right"
        except ToolchainError as error:
            found[str(kept)] = error.what
    return found


def _unknown_name(source: ExportedSource, folder: Path) -> Mapping[str, Any]:
    """Whether the vendor says a word of a name that the program does not have."""
    optimize = coremltools.optimize.coreml
    made = convert(source.program, source.inputs, source.outputs, Conversion(Precision.FLOAT16, "iOS16"))
    wanted = optimize.OpLinearQuantizerConfig(mode="linear_symmetric", weight_threshold=0)
    config = optimize.OptimizationConfig(global_config=wanted, op_name_configs={"no_such_layer": None})
    package = folder / "model.mlpackage"
    write_package(optimize.linear_quantize_weights(made.model, config), package, "", {})
    dtypes = [one.dtype for one in read_mlpackage(package).constants if one.size_bytes > 256]
    return {"int8": int(np.sum([dtype == "int8" for dtype in dtypes]))}
