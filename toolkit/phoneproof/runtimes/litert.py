"""LiteRT (TensorFlow Lite) on this machine's CPU, with or without the XNNPACK delegate."""

import re
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any, Final

import numpy as np
from ai_edge_litert import interpreter as vendor
from numpy.typing import NDArray

from phoneproof.errors import RuntimeUnavailableError, UnsupportedOperatorError, said
from phoneproof.runtimes.runtime import Invocation, LoadRequest, Runtime, Session

ACCELERATOR: Final = "cpu"

OPTIONS: Final[Mapping[str, str]] = {"xnnpack": "1"}
"""Known options with what counts where one is not given. xnnpack: whether the delegate may take operators;
"0" leaves all of them to the interpreter's own kernels."""

_RESOLVERS: Final = {
    "0": vendor.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    "1": vendor.OpResolverType.BUILTIN,
}
_UNRESOLVED: Final = re.compile(r"unresolved custom op: (\S+?)\.?(?:\s|$)")
_FLEX: Final = re.compile(r"(?:Select TensorFlow op\(s\)|Regular TensorFlow ops).*?\((Flex\w+)\)", re.DOTALL)
_NEWER: Final = re.compile(r"Didn't find op for builtin opcode '(\w+)' version '(\d+)'")


def runtime() -> Runtime:
    """LiteRT as installed."""
    return Runtime("litert", metadata.version("ai-edge-litert"), load)


def load(request: LoadRequest) -> Session:
    """A session on the CPU: this package has no other accelerator.

    RuntimeUnavailableError for another accelerator, UnsupportedOperatorError for custom and Flex operators,
    ValueError for an option that is not known and for a file that is damaged.
    """
    if request.accelerator != ACCELERATOR:
        raise RuntimeUnavailableError(
            f"LiteRT on this host has no accelerator {request.accelerator!r}.", known=(ACCELERATOR,)
        )
    for name, value in request.options.items():
        if name not in OPTIONS:
            raise ValueError(f"litert has no option {name!r}; known: {', '.join(OPTIONS)}")
        if value not in ("0", "1"):
            raise ValueError(f"the option {name!r} is '0' or '1', not {value!r}")
    options = {**OPTIONS, **request.options}
    try:
        interpreter = vendor.Interpreter(
            model_path=str(request.model),
            num_threads=request.threads,
            experimental_op_resolver_type=_RESOLVERS[options["xnnpack"]],
        )
        interpreter.allocate_tensors()
    except RuntimeError as error:
        raise _translated(error, str(request.model)) from error
    return LitertSession(interpreter)


class LitertSession:
    """A loaded .tflite file.

    operators: on `cpu` those that the interpreter's own kernels compute, on `xnnpack` those that the delegate
    does, which is the CPU too; a quantize or dequantize is one. Inputs and outputs are named as in the
    signature, where the file has one that names all of them, else as its tensors. Outputs come in the order
    of the file.
    """

    def __init__(self, interpreter: Any) -> None:
        self._interpreter: Any = interpreter
        self._inputs = _named(interpreter, "inputs", interpreter.get_input_details())
        self._outputs = [detail["index"] for detail in interpreter.get_output_details()]
        self._bound: Mapping[str, NDArray[Any]] | None = None
        delegated = len(delegated_operators(interpreter))
        own = len(_model_operators(interpreter)) - delegated
        counts = {ACCELERATOR: own, "xnnpack": delegated}
        self.operators: Mapping[str, int] | None = {name: count for name, count in counts.items() if count}
        self.accelerator_actual: str | None = ACCELERATOR

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs, in the order in which an invocation gives them."""
        return tuple(_named(self._interpreter, "outputs", self._interpreter.get_output_details()))

    def prepare(self, inputs: Mapping[str, NDArray[Any]]) -> Invocation:
        """See Session. An open axis takes the length of the input."""
        if self._interpreter is None:
            raise ValueError("the session is closed")
        if set(inputs) != set(self._inputs):
            raise ValueError(f"inputs are {sorted(inputs)}, the build has {sorted(self._inputs)}")
        given = dict(inputs)
        self._bind(given)

        def invoke() -> Sequence[NDArray[Any]]:
            # The inputs live in the interpreter: those of another invocation may have replaced them.
            if self._bound is not given:
                self._bind(given)
            interpreter = self._interpreter
            interpreter.invoke()
            return [interpreter.get_tensor(index) for index in self._outputs]

        return invoke

    def close(self) -> None:
        """See Session."""
        self._interpreter = None
        self._bound = None

    def _bind(self, inputs: Mapping[str, NDArray[Any]]) -> None:
        resized = False
        for name, value in inputs.items():
            detail = self._inputs[name]
            if value.dtype != detail["dtype"]:
                taken = np.dtype(detail["dtype"]).name
                raise ValueError(f"input {name!r} is {value.dtype.name}, the build takes {taken}")
            resized |= self._resize(name, detail, value.shape)
        if resized:
            self._interpreter.allocate_tensors()
            # Shapes inside have changed, so the details have.
            self._inputs = _named(self._interpreter, "inputs", self._interpreter.get_input_details())
        for name, value in inputs.items():
            self._interpreter.set_tensor(self._inputs[name]["index"], np.ascontiguousarray(value))
        self._bound = inputs

    def _resize(self, name: str, detail: Mapping[str, Any], shape: tuple[int, ...]) -> bool:
        if tuple(detail["shape"]) == shape:
            return False
        open_axes = [int(length) for length in detail["shape_signature"]]
        fits = len(open_axes) == len(shape) and all(
            known in (-1, length) for known, length in zip(open_axes, shape, strict=True)
        )
        if not fits:
            raise ValueError(f"input {name!r} has shape {shape}, the build takes {tuple(open_axes)}")
        self._interpreter.resize_tensor_input(detail["index"], shape)
        return True


def delegated_operators(interpreter: Any) -> frozenset[int]:
    """Indices of the model's operators that a delegate computes.

    The interpreter lists the model's operators and, behind them, one DELEGATE for each part that was handed
    over, with the tensors that enter and leave it; what the part holds is what lies between these.
    """
    details = interpreter._get_ops_details()
    producer = {
        tensor: one["index"] for one in details if one["op_name"] != "DELEGATE" for tensor in one["outputs"]
    }
    by_index = {one["index"]: one for one in details}
    inside: set[int] = set()
    for part in (one for one in details if one["op_name"] == "DELEGATE"):
        entering = {int(tensor) for tensor in part["inputs"]}
        waiting = [int(tensor) for tensor in part["outputs"]]
        while waiting:
            tensor = waiting.pop()
            index = producer.get(tensor)
            if index is None or index in inside:
                continue
            inside.add(index)
            waiting.extend(int(one) for one in by_index[index]["inputs"] if int(one) not in entering)
    return frozenset(inside)


def _model_operators(interpreter: Any) -> list[Any]:
    return [one for one in interpreter._get_ops_details() if one["op_name"] != "DELEGATE"]


def _named(interpreter: Any, role: str, details: Sequence[Any]) -> dict[str, Any]:
    """Details of the inputs or outputs by name, in the order of the file."""
    signatures = interpreter.get_signature_list()
    if len(signatures) == 1:
        runner = interpreter.get_signature_runner(next(iter(signatures)))
        found = runner.get_input_details() if role == "inputs" else runner.get_output_details()
        names = {int(detail["index"]): name for name, detail in found.items()}
        if len(names) == len(found) and set(names) == {int(detail["index"]) for detail in details}:
            return {names[int(detail["index"])]: detail for detail in details}
    return {str(detail["name"]): detail for detail in details}


def _translated(error: RuntimeError, place: str) -> Exception:
    """Vendors' exceptions are RuntimeError with a text; only the text says what was meant."""
    text = str(error)
    custom = _UNRESOLVED.search(text) or _FLEX.search(text)
    newer = _NEWER.search(text)
    if custom:
        name = custom.group(1)
        return UnsupportedOperatorError(
            f"The build has operators that are no builtin ones of LiteRT: {name}.",
            where=place,
            next_step="Convert it with builtin operators only (TFLITE_BUILTINS).",
            operators=(name,),
        )
    if newer:
        name = f"{newer.group(1)} version {newer.group(2)}"
        return UnsupportedOperatorError(
            f"The build has an operator that this LiteRT is too old for: {name}.",
            where=place,
            next_step="Run it with a newer ai-edge-litert.",
            operators=(name,),
        )
    return RuntimeUnavailableError(f"LiteRT cannot load the build: {said(error)}.", where=place)
