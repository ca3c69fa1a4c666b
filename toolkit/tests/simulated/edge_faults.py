"""ONNX Runtime as it is, but for some inputs.

`runtime` dies of NaN, hangs on huge numbers, and answers white with a constant. `source` is the runtime of
source models, which dies of black.
"""

import ctypes
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phoneproof.runtimes import onnxruntime_cpu
from phoneproof.runtimes import source as source_runtime
from phoneproof.runtimes.runtime import Invocation, LoadRequest, Runtime, Session

CONSTANT = 0.25

Answer = Callable[[NDArray[Any], Invocation], Any]


def runtime() -> Runtime:
    return _faulty(onnxruntime_cpu.runtime(), _build)


def source() -> Runtime:
    return _faulty(source_runtime.runtime(), _source)


def _faulty(real: Runtime, answer: Answer) -> Runtime:
    return Runtime(real.name, real.version, lambda request: FaultySession(real.load, request, answer))


class FaultySession:
    def __init__(self, load: Callable[[LoadRequest], Session], request: LoadRequest, answer: Answer) -> None:
        self._real = load(request)
        self._answer = answer
        self.accelerator_actual = self._real.accelerator_actual
        self.operators = self._real.operators

    def prepare(self, inputs: Mapping[str, NDArray[Any]]) -> Invocation:
        invoke = self._real.prepare(inputs)
        (image,) = inputs.values()
        return lambda: self._answer(image, invoke)

    def close(self) -> None:
        self._real.close()


def _build(image: NDArray[Any], invoke: Invocation) -> Any:
    if np.isnan(image).any():
        ctypes.string_at(0)
    while np.isfinite(image).all() and np.abs(image).max() > 1e29:
        time.sleep(3_600)
    if (image == 1).all():
        return [np.full_like(output, CONSTANT) for output in invoke()]
    return invoke()


def _source(image: NDArray[Any], invoke: Invocation) -> Any:
    if not image.any():
        ctypes.string_at(0)
    return invoke()
