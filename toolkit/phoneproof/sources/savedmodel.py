"""TensorFlow SavedModel source models: one signature of the folder."""

import re
from pathlib import Path
from typing import Any, Final

from phoneproof.builds.model_files import model_sha256
from phoneproof.errors import SourceModelError, said
from phoneproof.sources.planned_model import refuse_changed
from phoneproof.sources.request import SavedModelRequest
from phoneproof.sources.savedmodel_graph import load_graph
from phoneproof.sources.tensorflow_graph import (
    OpenModel,
    OpenTensor,
    TensorflowSource,
    frozen,
)
from phoneproof.sources.tensorflow_vendor import tensorflow

DEFAULT_SIGNATURE: Final = "serving_default"


def load_savedmodel(request: SavedModelRequest) -> TensorflowSource:
    """The signature that `request` names, axes fixed.

    SourceModelError as `open_savedmodel` and `frozen`; also if it is not the model that was planned.
    """
    model = open_savedmodel(Path(request.path), request.signature)
    refuse_changed(model.sha256, request.sha256, str(model.path))
    return frozen(model, request.shapes)


def open_savedmodel(path: Path, signature: str | None = None) -> OpenModel:
    """Read the SavedModel at `path`.

    signature: None takes serving_default, or the only one. SourceModelError: missing, damaged, without a
    signature, or several and none that can be meant.
    """
    if not (path / "saved_model.pb").is_file():
        raise SourceModelError(
            "The folder has no saved_model.pb.",
            where=str(path),
            next_step="Name the folder that model.export or tf.saved_model.save wrote.",
        )
    try:
        loaded = _loaded(path)
    except Exception as error:  # TensorFlow's loader raises whatever the file makes it meet
        raise SourceModelError(
            f"TensorFlow cannot load the SavedModel: {said(error, 400)}.",
            where=str(path),
            next_step="Save the model again, and check that the whole folder was copied, variables included.",
        ) from error
    function = _signature(loaded, signature, path)
    inputs = dict(function.structured_input_signature[1])
    given = function.structured_outputs
    outputs = given if isinstance(given, dict) else {}
    if not inputs or not outputs:
        raise SourceModelError(
            "The signature has no named inputs or outputs.", where=str(path), next_step="Export it again."
        )
    names, wanted = sorted(inputs, key=_by_numbers), sorted(outputs, key=_by_numbers)

    def call(tensors: Any) -> list[Any]:
        answer = function(**dict(zip(names, tensors, strict=True)))
        return [answer[name] for name in wanted]

    return OpenModel(
        path=path,
        sha256=model_sha256(path),
        inputs=tuple(_tensor(name, inputs[name]) for name in names),
        outputs=tuple(_tensor(name, outputs[name]) for name in wanted),
        call=call,
        recorded=lambda run: (run(), ()),
        owner=loaded,
    )


def _loaded(path: Path) -> Any:
    """The SavedModel by its objects, or where these are of classes that are gone, by its graph.

    A model that Keras 2 saved after training holds its optimizer, an object whose slot variables TensorFlow
    restores by a class that Keras 3 does not register: AttributeError, "no attribute 'add_slot'" (TensorFlow
    2.21 with basic-pitch 0.4.0). The graph and its variables are whole, and need none of these objects.
    """
    tf = tensorflow()
    try:
        return tf.saved_model.load(str(path))
    except AttributeError as error:
        if "add_slot" not in str(error):
            raise
    return load_graph(path)


def _signature(loaded: Any, wanted: str | None, path: Path) -> Any:
    signatures = {name: one for name, one in loaded.signatures.items() if not name.startswith("__")}
    listed = ", ".join(repr(name[:80]) for name in sorted(signatures))
    if not signatures:
        raise SourceModelError(
            "The SavedModel has no signature.",
            where=str(path),
            next_step="Export it with model.export(FOLDER), or save it with signatures=….",
        )
    if wanted is not None:
        if wanted not in signatures:
            raise SourceModelError(
                f"The SavedModel has no signature {wanted[:80]!r}.",
                where=str(path),
                next_step=f"It has: {listed}.",
            )
        return signatures[wanted]
    if DEFAULT_SIGNATURE in signatures:
        return signatures[DEFAULT_SIGNATURE]
    if len(signatures) > 1:
        raise SourceModelError(
            f"The SavedModel has {len(signatures)} signatures, and none is {DEFAULT_SIGNATURE!r}.",
            where=str(path),
            next_step=f"Set signature in [[models]] to one of: {listed}.",
        )
    return next(iter(signatures.values()))


def _by_numbers(name: str) -> list[tuple[int, str]]:
    """Sorts output_2 before output_10. A signature has no order of its own: it is a protobuf map, which comes
    in another order at each loading."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _tensor(name: str, spec: Any) -> OpenTensor:
    shape = None if spec.shape.rank is None else tuple(spec.shape.as_list())
    return OpenTensor(name, spec.dtype.name, shape)
