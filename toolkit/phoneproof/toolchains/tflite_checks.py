"""Proving a TFLite build before it is handed over: it loads, computes what the source does, and is finite."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from phoneproof.errors import PhoneproofError, RecipeError, ToolchainError, said
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.table import Mode, Precision, Recipe, TargetFloor
from phoneproof.recipes.toolchain_table import release
from phoneproof.runtimes.litert import load
from phoneproof.runtimes.runtime import LoadRequest
from phoneproof.sources.agreement import Arrays, Network, disagreement, trial_inputs
from phoneproof.sources.tensorflow_graph import TensorflowSource, source_network
from phoneproof.toolchains.tflite_file import TfliteFile

_STATEFUL: Final = frozenset({"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE", "HASHTABLE"})

_LEAST_DB: Final[Mapping[Precision, float]] = {Precision.FLOAT32: 80.0, Precision.FLOAT16: 10.0}
"""Least signal to noise ratio between a float build and its source, below which the conversion is wrong.

A network can lose much of either precision: basic-pitch, which takes logarithms of a spectrum, keeps 80 dB of
float32's 140, and on noise 25 dB of the 74 that rounding its weights to float16 leaves them. How much is
good enough is for the parity gate to say, on the user's data.
"""


def refuse_stateful(file: TfliteFile, place: str) -> None:
    """ToolchainError for a file with variables.

    The converter makes uninitialised ones of variables that it does not know, and the build answers NaN, or
    fails at READ_VARIABLE: a SavedModel of a tf.Module that holds a Keras 3 model, and
    from_concrete_functions([function], model), both end so.
    """
    found = sorted({operator.type for operator in file.operators} & _STATEFUL)
    if found:
        raise ToolchainError(
            f"The converter left variables in the build: {', '.join(found)}.",
            where=place,
            next_step="Export the model as a SavedModel with model.export(FOLDER) and name that folder.",
        )


def refuse_target(floor: TargetFloor, target: TargetFloor, place: str) -> None:
    """RecipeError where the build needs more than the plan says the device has."""
    for field in ("onnx_opset", "onnx_ir", "deployment_target"):
        if getattr(target, field) is not None:
            raise RecipeError(
                f"A TFLite build has no {field}.", where=f"target: {field}", next_step="Leave it out."
            )
    has, needs = target.runtime_version, floor.runtime_version
    if has is not None and needs is not None and release(has) < release(needs):
        raise RecipeError(
            f"The build needs TensorFlow Lite {needs}, and the plan's target has {has}.",
            where=f"{place}: target: runtime_version",
            next_step="Versions count as TensorFlow Lite's; LiteRT 1.0 and later have all of 2.17.0.",
            needs=needs,
            target=has,
        )


def refuse_wrong(
    path: Path,
    source: TensorflowSource,
    recipe: Recipe,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
) -> None:
    """ToolchainError for a build at `path` that does not load, run, or answer as it says.

    Float builds have to agree with the source on random inputs; the others have to be finite where it is.
    """
    place = str(source.path)
    try:
        build = _BuildNetwork(path, inputs, outputs, [spec.name for spec in source.outputs])
        reference = source_network(source)
        if recipe.mode is Mode.NONE:
            what = _float_disagreement(source, recipe, reference, build)
        else:
            what = _wrong_answers(source, outputs, reference, build)
    except PhoneproofError:
        raise
    except Exception as error:  # LiteRT raises RuntimeError, ValueError and KeyError
        raise ToolchainError(
            f"The converted model does not load or run in LiteRT: {said(error)}.",
            where=place,
            next_step="Leave the operator it names in float with keep_float_names, or change the model.",
        ) from error
    if what is not None:
        raise ToolchainError(
            f"The converted model does not compute what the source does: {what}.",
            where=place,
            next_step="This is a fault of the converter: try another version of it, or change the layer.",
        )


def _float_disagreement(
    source: TensorflowSource, recipe: Recipe, reference: Network, build: Network
) -> str | None:
    least = _LEAST_DB[recipe.precision]
    if recipe.precision is Precision.FLOAT32:
        return disagreement(reference, build, source.inputs, least)
    # Half the digits may choose another class: only floats are compared.
    floats = [index for index, spec in enumerate(source.outputs) if spec.dtype.startswith("float")]
    return disagreement(
        lambda arrays: [reference(arrays)[i] for i in floats],
        lambda arrays: [build(arrays)[i] for i in floats],
        source.inputs,
        least,
    )


def _wrong_answers(
    source: TensorflowSource, outputs: Sequence[TensorSpec], reference: Network, build: Network
) -> str | None:
    by_name = {spec.name: spec for spec in outputs}
    arrays = next(iter(trial_inputs(source.inputs)))
    expected, answers = reference(arrays), build(arrays)
    for spec, right, value in zip(source.outputs, expected, answers, strict=True):
        made = by_name[spec.name]
        if value.dtype.name != made.dtype or value.shape != made.shape:
            return f"output {spec.name!r} is {value.dtype.name} {value.shape}, not {made.dtype} {made.shape}"
        if not np.isfinite(value).all() and np.isfinite(right).all():
            return f"output {spec.name!r} is not finite"
    return None


class _BuildNetwork:
    """A build as a function of arrays in the order of the source's inputs, to outputs in its order."""

    def __init__(
        self,
        path: Path,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        wanted: Sequence[str],
    ) -> None:
        self._session = load(LoadRequest(path, "cpu", allow_fallback=False, threads=1, options={}))
        self._inputs = {spec.name: spec for spec in inputs}
        self._order = [[spec.name for spec in outputs].index(name) for name in wanted]
        self._names = [spec.name for spec in inputs]

    def __call__(self, arrays: Arrays) -> Arrays:
        feed = {
            name: _quantized(array, self._inputs[name])
            for name, array in zip(self._names, arrays, strict=True)
        }
        found = self._session.prepare(feed)()
        return [found[index] for index in self._order]


def _quantized(values: NDArray[Any], spec: TensorSpec) -> NDArray[Any]:
    if spec.scale is None or spec.zero_point is None:
        return values
    limits = np.iinfo(spec.dtype)
    stored = np.round(values / spec.scale) + spec.zero_point
    return np.clip(stored, limits.min, limits.max).astype(spec.dtype)
