"""ML programs written by coremltools' own builder, saved as packages, and run by the interpreter."""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phoneproof.runtimes import mil_interpreter
from phoneproof.runtimes.mil.vendor import COREMLTOOLS_VERSION
from phoneproof.runtimes.runtime import LoadRequest, Session

# What coremltools imports where it is installed, and these tests do not need: it takes 20 s, and TensorFlow
# before torch's triton ends the process.
_NOT_NEEDED = ("executorch", "sklearn", "tensorflow", "torchao", "torchvision", "transformers")
_HIDDEN = [name for name in _NOT_NEEDED if name not in sys.modules]
sys.modules.update(dict.fromkeys(_HIDDEN))  # type: ignore[arg-type]
try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import coremltools
        from coremltools.converters.mil import Builder, mil
finally:
    for _name in _HIDDEN:
        del sys.modules[_name]

ct: Any = coremltools
assert ct.__version__ == COREMLTOOLS_VERSION
mb: Any = Builder
types: Any = mil.types

Array = NDArray[Any]
TARGETS = {15: ct.target.iOS15, 16: ct.target.iOS16, 17: ct.target.iOS17, 18: ct.target.iOS18}
_TYPES = {"float32": types.fp32, "float16": types.fp16, "int32": types.int32}


@dataclass(frozen=True)
class Case:
    """One operator with its inputs, as coremltools writes it, and what it must give.

    build: from the program's inputs, one variable or several. expected: from the same inputs as arrays.
    tolerance: largest relative or absolute error of floats; integers are exact.
    """

    operator: str
    inputs: Mapping[str, Array]
    build: Callable[..., Any]
    expected: Callable[..., Any]
    name: str = ""
    target: int = 15
    tolerance: float = 1e-5

    @property
    def id(self) -> str:
        """Of the case among all cases."""
        return f"{self.operator}_{self.name}" if self.name else self.operator


def save_program(
    folder: Path,
    inputs: Mapping[str, Array],
    build: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    target: int = 15,
) -> Path:
    """A package of the program that `build` makes of the inputs' variables; it gives outputs by name.

    No pass of coremltools touches the operations.
    """
    program = mil.Program()
    placeholders = {
        name: mb.placeholder(shape=array.shape, dtype=_TYPES[str(array.dtype)])
        for name, array in inputs.items()
    }
    with mil.Function(placeholders, opset_version=TARGETS[target]) as function:
        outputs = build(function.inputs)
        for name, variable in outputs.items():
            variable.name = name
        function.set_outputs(list(outputs.values()))
    program.add_function("main", function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ct.convert(
            program,
            source="milinternal",
            convert_to="mlprogram",
            pass_pipeline=ct.PassPipeline.EMPTY,
            minimum_deployment_target=TARGETS[target],
            compute_precision=ct.precision.FLOAT32,
            skip_model_load=True,
        )
        model.save(str(folder))
    return folder


def load(package: Path) -> Session:
    """A session of the package in the interpreter."""
    return mil_interpreter.load(LoadRequest(package, "cpu", False, 1, {}))


def run_cases(cases: Sequence[Case], folder: Path) -> dict[str, list[Array]]:
    """The outputs of all cases, which are of one target, run as one program. By the cases' ids."""
    names: dict[str, list[str]] = {}

    def build(variables: Mapping[str, Any]) -> dict[str, Any]:
        outputs: dict[str, Any] = {}
        for case in cases:
            made = case.build(**{name: variables[f"{case.id}__{name}"] for name in case.inputs})
            several = made if isinstance(made, tuple | list) else (made,)
            names[case.id] = [f"{case.id}__out{i}" for i in range(len(several))]
            outputs.update(zip(names[case.id], several, strict=True))
        return outputs

    inputs = {f"{case.id}__{name}": array for case in cases for name, array in case.inputs.items()}
    package = save_program(folder, inputs, build, cases[0].target)
    session = load(package)
    results = dict(zip(list_outputs(package), session.prepare(inputs)(), strict=True))
    return {case_id: [results[name] for name in outputs] for case_id, outputs in names.items()}


def specification(package: Path) -> Any:
    """The protobuf message of a package."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ct.utils.load_spec(str(package))


def list_outputs(package: Path) -> list[str]:
    """Names of the outputs, in the order of the specification."""
    return [output.name for output in specification(package).description.output]


def operator_types(package: Path) -> set[str]:
    """Types of all operations that stand in the package's program."""
    (function,) = specification(package).mlProgram.functions.values()
    found: set[str] = set()
    blocks = [function.block_specializations[function.opset]]
    while blocks:
        for operation in blocks.pop().operations:
            found.add(operation.type)
            blocks.extend(operation.blocks)
    return found


_GENERATOR = np.random.default_rng(20260301)


def normal(*shape: int) -> Array:
    """Standard normal float32."""
    return _GENERATOR.standard_normal(shape).astype(np.float32)


def between(low: float, high: float, *shape: int) -> Array:
    """Uniform float32."""
    return _GENERATOR.uniform(low, high, shape).astype(np.float32)


def integers(low: int, high: int, *shape: int) -> Array:
    """Uniform int32 from low, below high."""
    return _GENERATOR.integers(low, high, shape).astype(np.int32)


def sqnr_db(reference: Array, other: Array) -> float:
    """Ratio of the reference's power to that of the difference, in dB; infinite for equal arrays."""
    noise = float(np.sum((reference.astype(np.float64) - other.astype(np.float64)) ** 2))
    signal = float(np.sum(reference.astype(np.float64) ** 2))
    return float("inf") if noise == 0 else 10 * float(np.log10(signal / noise))
