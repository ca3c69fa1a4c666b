"""Proving a TFLite build before it is handed over: it loads, computes what the source does, and is finite."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from phoneproof.errors import RecipeError, ToolchainError
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.table import Recipe, TargetFloor
from phoneproof.recipes.toolchain_table import release
from phoneproof.sources.agreement import disagreement
from phoneproof.sources.tensorflow_graph import TensorflowSource, source_network
from phoneproof.toolchains.tflite_file import TfliteFile
from phoneproof.toolchains.tflite_float16 import with_rounded_weights
from phoneproof.toolchains.tflite_trial import LEAST_DB, build_network, refuse_faulty, wrong_answer

_STATEFUL: Final = frozenset({"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE", "HASHTABLE"})


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
    plain: Path | None = None,
) -> None:
    """ToolchainError for a build at `path` that does not load, run, or answer as it says.

    Float builds have to agree with the source on random inputs; the others have to be finite where it is.
    plain: of a float16 build, the float32 conversion. It has to agree with the source, and the build with it.
    """

    def trial() -> str | None:
        build = build_network(path, inputs, outputs, source.outputs)
        reference = source_network(source)
        if recipe.is_quantized:
            return wrong_answer(reference, build, source.inputs, source.outputs, outputs)
        if plain is None:
            return disagreement(reference, build, source.inputs, LEAST_DB)
        wide = build_network(plain, inputs, outputs, source.outputs)
        rounded = plain.with_name("rounded.tflite")
        rounded.write_bytes(with_rounded_weights(plain.read_bytes(), path.read_bytes(), str(source.path)))
        narrow = build_network(rounded, inputs, outputs, source.outputs)
        return disagreement(reference, wide, source.inputs, LEAST_DB) or disagreement(
            narrow, build, source.inputs, LEAST_DB
        )

    refuse_faulty(str(source.path), trial)
