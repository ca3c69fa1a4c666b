"""What ONNX Runtime folds when it loads a model, as a model: constants computed, batch norms merged."""

import tempfile
from pathlib import Path
from typing import Any

import onnx

from phoneproof.errors import ToolchainError, said


def folded(model: Any, place: str) -> Any:
    """The model after ONNX Runtime's basic optimisations, shapes inferred, in standard ONNX operators.

    Raises ToolchainError if ONNX Runtime cannot load the model.
    """
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "folded.onnx")
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(file)
        # BASIC keeps to standard ONNX operators; higher levels fuse into operators of this runtime only.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.log_severity_level = 3
        try:
            content = model.SerializeToString()
            onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime's exceptions have no base class of their own
            raise ToolchainError(
                f"ONNX Runtime cannot load the source model: {said(error)}.",
                where=place,
                next_step="Check that the model runs in ONNX Runtime on this machine.",
            ) from error
        return onnx.shape_inference.infer_shapes(onnx.load_model(str(file)), data_prop=True)
