"""The Core ML toolchain for Keras models and SavedModels.

`python -m phoneproof.toolchains.coreml_tensorflow REQUEST.json`; request and result as of coreml.py. What is
converted is the frozen function of sources/tensorflow_graph. This process holds TensorFlow and no torch; the
interpreter that judges the package needs torch and runs in another (coreml_run.py).
"""

import logging
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from phoneproof.sources.tensorflow_vendor import tensorflow

tensorflow()  # before coremltools, which is then kept from torch (runtimes/coreml_vendor.py)

from phoneproof.errors import ProtocolError  # noqa: E402
from phoneproof.protocol.work import Progress, run_worker  # noqa: E402
from phoneproof.recipes.table import Mode, Recipe  # noqa: E402
from phoneproof.recipes.toolchain_table import TOOLCHAINS, installed_versions, version_findings  # noqa: E402
from phoneproof.sources.agreement import MOST_FLOAT_DB, joined  # noqa: E402
from phoneproof.sources.inspect_tensorflow import load_tensorflow  # noqa: E402
from phoneproof.sources.request import KerasSourceRequest, SavedModelRequest  # noqa: E402
from phoneproof.sources.tensorflow_graph import TensorflowSource, input_name, source_network  # noqa: E402
from phoneproof.toolchains.coreml_compare import random_inputs, refuse_wrong  # noqa: E402
from phoneproof.toolchains.coreml_converted import (  # noqa: E402
    Conversion,
    Converted,
    converted,
    feature_names,
    refuse_dtypes,
)
from phoneproof.toolchains.coreml_layers import named_operations  # noqa: E402
from phoneproof.toolchains.coreml_made import made_of, nothing_quantized  # noqa: E402
from phoneproof.toolchains.coreml_package import MODEL_FILE, write_package  # noqa: E402
from phoneproof.toolchains.coreml_run import RunRequest, run_apart  # noqa: E402
from phoneproof.toolchains.coreml_target import deployment_target  # noqa: E402
from phoneproof.toolchains.coreml_weights import WeightPlan, plan_weights, quantize_weights  # noqa: E402
from phoneproof.toolchains.request import BuildRequest, read_request  # noqa: E402
from phoneproof.toolchains.result import Made, finish  # noqa: E402

TOOLCHAIN: Final = TOOLCHAINS["tensorflow-coreml"]

_JUDGED: Final = "judged"
"""Folder of the other process, beside the request."""


def build(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Make one build. Raises RecipeError, SourceModelError, ProtocolError and ToolchainError."""
    logging.getLogger("coremltools").setLevel(logging.ERROR)
    wanted, recipe = read_request(request, TOOLCHAIN)
    findings = version_findings(TOOLCHAIN, installed_versions(TOOLCHAIN))
    if not isinstance(wanted.source, KerasSourceRequest | SavedModelRequest):
        raise ProtocolError(f"{TOOLCHAIN.name} converts Keras models and SavedModels.", where="$.source")
    conversion = Conversion(recipe.precision, deployment_target(recipe, wanted.options))
    progress.say("load")
    source = load_tensorflow(wanted.source)
    progress.say("convert")
    model = convert(source, conversion)
    made = _Writing(source, wanted, recipe, folder).made(model, progress)
    return finish(made, wanted, recipe, TOOLCHAIN, folder, findings)


def convert(source: TensorflowSource, conversion: Conversion) -> Converted:
    """The frozen function as an ML program; its operations' origins are found later, by their names."""
    import phoneproof.toolchains.coreml_no_nan  # noqa: F401  (registers an operator)

    refuse_dtypes((*source.inputs, *source.outputs))
    inputs = [replace(spec, name=input_name(index)) for index, spec in enumerate(source.inputs)]
    results = zip(source.outputs, source.function.outputs, strict=True)
    outputs = [replace(spec, name=tensor.op.name) for spec, tensor in results]
    return Converted(converted([source.function], inputs, outputs, conversion), {})


class _Writing:
    """Writes the package, and has it judged."""

    def __init__(self, source: TensorflowSource, wanted: BuildRequest, recipe: Recipe, folder: Path) -> None:
        self._source = source
        self._wanted = wanted
        self._recipe = recipe
        self._folder = folder
        self._path = folder / wanted.out / MODEL_FILE
        self._names = feature_names([spec.name for spec in (*source.inputs, *source.outputs)])

    def made(self, model: Converted, progress: Progress) -> Made:
        """The facts of the package, once it has given what it must."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._recipe.mode is Mode.NONE:
            self._write(model.model, self._path)
            progress.say("check")
            made = made_of(self._path, self._source, self._recipe)
            self._judge(made, RunRequest(str(self._path), made.inputs, 1, self._recipe.precision))
            return made
        plan = self._quantized(model)
        progress.say("check")
        wide = self._folder / _JUDGED / MODEL_FILE
        self._write(model.model, wide)
        made = made_of(self._path, self._source, self._recipe, plan.left)
        self._judge(made, RunRequest(str(self._path), made.inputs, 1, None, str(wide), plan.quantized))
        return made

    def _quantized(self, model: Converted) -> WeightPlan:
        options = self._wanted.options
        named = named_operations(model, self._source, options)
        plan = plan_weights(model, named.origins, named.kept, options.per_channel)
        if not plan.quantized:
            raise nothing_quantized(self._recipe, self._source.path)
        self._write(quantize_weights(model, plan, options.per_channel), self._path)
        return plan

    def _write(self, model: Any, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)
        description = f"{self._recipe.name}, made by phoneproof"
        write_package(model, path, description, self._wanted.metadata, self._names)

    def _judge(self, made: Made, request: RunRequest) -> None:
        """ToolchainError unless random inputs give what they should."""
        network = source_network(self._source)
        samples = random_inputs(self._source.inputs, network)
        found = run_apart(replace(request, samples=len(samples)), samples, self._folder / _JUDGED)
        if found.answers is None:
            return
        if found.reference is not None:
            expected, least = found.reference, [MOST_FLOAT_DB] * len(made.outputs)
        else:
            expected, least = joined(network, samples), found.answers.least_db
        refuse_wrong(made.outputs, found.answers, expected, least, self._path)


if __name__ == "__main__":
    sys.exit(run_worker(build))
