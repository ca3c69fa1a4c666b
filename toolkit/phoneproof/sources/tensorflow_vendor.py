"""TensorFlow and Keras as this package uses them: set up before their first import, and quiet."""

import os
import sys
from typing import Any, Final

from phoneproof.errors import RuntimeUnavailableError

_SETTINGS: Final = {
    # Keras takes its backend from the user's ~/.keras/keras.json otherwise.
    "KERAS_BACKEND": "tensorflow",
    # oneDNN chooses the order of sums by the CPU ("slightly different numerical results", says TensorFlow's
    # log), and the reference is kept and compared across machines.
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "CUDA_VISIBLE_DEVICES": "",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def tensorflow() -> Any:
    """The module tensorflow. RuntimeUnavailableError where it is not installed."""
    if "tensorflow" not in sys.modules:
        os.environ.update(_SETTINGS)
    try:
        import tensorflow as tf
    except ImportError as error:
        raise _absent("tensorflow", error) from error
    return tf


def keras() -> Any:
    """The module keras, on TensorFlow. RuntimeUnavailableError where it is not installed."""
    tensorflow()
    try:
        import keras as module
    except ImportError as error:
        raise _absent("keras", error) from error
    return module


def _absent(package: str, error: ImportError) -> RuntimeUnavailableError:
    return RuntimeUnavailableError(
        f"The package {package} cannot be imported: {error}.",
        next_step="Run `phoneproof toolchain install tflite`.",
    )
