"""The reference for Keras models and SavedModels: the source itself, in TensorFlow on the CPU.

Graph optimisations (Grappler) are off, and oneDNN too (sources/tensorflow_vendor): what the reference
computes is what the model says, batch normalisation unfolded.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from phoneproof.errors import RuntimeUnavailableError
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.runtimes.runtime import Invocation, LoadRequest, Session
from phoneproof.sources.keras_model import open_keras
from phoneproof.sources.savedmodel import open_savedmodel
from phoneproof.sources.tensorflow_graph import OpenModel, trace
from phoneproof.sources.tensorflow_vendor import tensorflow

OPTIONS: Final = ("signature", "trust_pickle")
"""signature: of a SavedModel. trust_pickle: "1" loads Lambda layers of a Keras model; "0", which counts where
it is not given, does not."""


def load(request: LoadRequest) -> Session:
    """A session of the .keras file or SavedModel folder at `request.model`.

    ValueError for an option that is not known; RuntimeUnavailableError for another accelerator than the CPU;
    SourceModelError as the loaders.
    """
    if request.accelerator != "cpu":
        raise RuntimeUnavailableError(f"The reference runs on the CPU, not on {request.accelerator!r}.")
    for name in request.options:
        if name not in OPTIONS:
            raise ValueError(f"the reference has no option {name!r}; known: {', '.join(OPTIONS)}")
    trust = request.options.get("trust_pickle", "0")
    if trust not in ("0", "1"):
        raise ValueError(f"the option 'trust_pickle' is '0' or '1', not {trust!r}")
    tf = tensorflow()
    _set_threads(tf, request.threads)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    return TensorflowSession(_opened(request.model, request.options.get("signature"), trust == "1"))


def _opened(path: Path, signature: str | None, trust: bool) -> OpenModel:
    return open_savedmodel(path, signature) if path.is_dir() else open_keras(path, trust)


def _set_threads(tf: Any, threads: int) -> None:
    """TensorFlow takes its number of threads once per process, before it runs anything."""
    config = tf.config.threading
    if config.get_intra_op_parallelism_threads() == threads:
        return
    try:
        config.set_intra_op_parallelism_threads(threads)
        config.set_inter_op_parallelism_threads(1)
    except RuntimeError as error:
        running = config.get_intra_op_parallelism_threads()
        raise ValueError(f"TensorFlow already runs with {running} threads in this process") from error


class TensorflowSession:
    """A loaded source model. It is traced for the shapes of the inputs that it is given."""

    def __init__(self, model: OpenModel) -> None:
        self._model: OpenModel | None = model
        self._functions: dict[tuple[tuple[int, ...], ...], Any] = {}
        self.accelerator_actual: str | None = "cpu"
        self.operators: Mapping[str, int] | None = None

    def prepare(self, inputs: Mapping[str, NDArray[Any]]) -> Invocation:
        """See Session."""
        model = self._model
        if model is None:
            raise ValueError("the session is closed")
        known = {tensor.name: tensor for tensor in model.inputs}
        if set(inputs) != set(known):
            raise ValueError(f"inputs are {sorted(inputs)}, the source has {sorted(known)}")
        for name, value in inputs.items():
            if value.dtype.name != known[name].dtype:
                raise ValueError(
                    f"input {name!r} is {value.dtype.name}, the source takes {known[name].dtype}"
                )
        function = self._function(model, {name: value.shape for name, value in inputs.items()})
        tensors = [tensorflow().constant(inputs[name]) for name in known]

        def invoke() -> tuple[NDArray[Any], ...]:
            return tuple(np.asarray(value) for value in function(*tensors))

        return invoke

    def close(self) -> None:
        """See Session."""
        self._model = None
        self._functions.clear()

    def _function(self, model: OpenModel, shapes: Mapping[str, tuple[int, ...]]) -> Any:
        specs = [TensorSpec(one.name, one.dtype, tuple(shapes[one.name])) for one in model.inputs]
        key = tuple(spec.shape for spec in specs)
        if key not in self._functions:
            function, _ = trace(model, specs)
            operations = function.graph.get_operations()
            self._functions[key] = function
            self.operators = {"cpu": sum(one.type not in ("Const", "Placeholder") for one in operations)}
        return self._functions[key]
