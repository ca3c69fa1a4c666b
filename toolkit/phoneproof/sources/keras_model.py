"""Keras source models: `.keras` files, read without running code that they bring along."""

import functools
import hashlib
import json
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from phoneproof.errors import SourceModelError, said
from phoneproof.sources.planned_model import refuse_changed
from phoneproof.sources.request import KerasSourceRequest
from phoneproof.sources.tensorflow_graph import (
    Layer,
    OpenModel,
    OpenTensor,
    TensorflowSource,
    frozen,
)
from phoneproof.sources.tensorflow_vendor import keras

_HDF5: Final = b"\x89HDF\r\n\x1a\n"
_CODE: Final = frozenset({"Lambda", "__lambda__"})
_EXPORT: Final = (
    "Load the model where its code is, save it with model.export(FOLDER), and name that SavedModel folder."
)


def load_keras(request: KerasSourceRequest) -> TensorflowSource:
    """The model that `request` names, axes fixed.

    SourceModelError as `open_keras` and `frozen`; also if it is not the model that was planned.
    """
    model = open_keras(Path(request.path), request.trust_pickle)
    refuse_changed(model.sha256, request.sha256, str(model.path))
    return frozen(model, request.shapes)


def open_keras(path: Path, trust_code: bool = False) -> OpenModel:
    """Read the model at `path`.

    SourceModelError: missing, damaged, HDF5, code inside and not trusted, classes that are not Keras's own,
    no declared inputs.
    """
    _check_archive(path)
    _check_classes(path, trust_code)
    vendor = keras()
    try:
        model = vendor.saving.load_model(path, compile=False, safe_mode=not trust_code)
    except Exception as error:  # Keras raises whatever its layers do
        raise SourceModelError(
            f"Keras cannot load the model: {said(error, 400)}.",
            where=str(path),
            next_step="Save it again with the Keras of this toolchain "
            f"({vendor.__version__}), and check that the copy is complete.",
        ) from error
    if not getattr(model, "inputs", None) or not getattr(model, "outputs", None):
        raise SourceModelError(
            "The model declares no inputs and outputs, as subclassed models do.",
            where=str(path),
            next_step=_EXPORT,
        )
    if isinstance(model, vendor.Sequential):
        # Keras 3.15's Sequential has `inputs` and `outputs`, but no `input`, `output` and `output_names`.
        model = vendor.Model(model.inputs, model.outputs, name=model.name)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    outputs = _tensors(model.outputs, _names(model.output, _unique(model.output_names)))
    inputs = _tensors(model.inputs, _names(model.input, [tensor.name for tensor in model.inputs]))
    return OpenModel(
        path, digest, inputs, outputs, _caller(model), functools.partial(_recorded, model), model
    )


def _check_archive(path: Path) -> None:
    if not path.is_file():
        raise SourceModelError(
            "There is no such file.", where=str(path), next_step="Check the path in [[models]]."
        )
    with path.open("rb") as file:
        is_hdf5 = file.read(len(_HDF5)) == _HDF5
    if is_hdf5 or path.suffix in (".h5", ".hdf5"):
        raise SourceModelError(
            "The file is an HDF5 model of an older Keras.",
            where=str(path),
            next_step=f'Save it as .keras: keras.models.load_model("{path.name[:80]}", compile=False)'
            '.save("model.keras").',
        )
    broken: str | None = "no archive"
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
            names = set(archive.namelist())
    except (zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError):
        names = set()
    if broken is not None or not {"config.json", "metadata.json"} <= names:
        raise SourceModelError(
            "The file is not a .keras model, or is damaged.",
            where=str(path),
            next_step='Save it again with model.save("model.keras"), and check that the copy is complete.',
        )


def _check_classes(path: Path, trust_code: bool) -> None:
    """Refuse what Keras would have to import or run: it looks classes up in modules that the file names."""
    with zipfile.ZipFile(path) as archive:
        try:
            config = json.loads(archive.read("config.json"))
        except ValueError as error:
            raise SourceModelError(
                "The model's config.json is damaged.", where=str(path), next_step="Save the model again."
            ) from error
    foreign = []
    for entry in _objects(config):
        name = str(entry["class_name"])
        if name in _CODE:
            if not trust_code:
                raise SourceModelError(
                    "The model has a Lambda layer, which holds code.",
                    where=str(path),
                    next_step="Set trust_pickle = true in [[models]] if you trust the file, or write the "
                    "layer with keras.ops.",
                )
            continue
        module = entry.get("module")
        if module is not None and module != "builtins" and str(module).partition(".")[0] != "keras":
            foreign.append(f"{module}.{name}")
        elif module is None and entry.get("registered_name"):
            foreign.append(str(entry["registered_name"]))
    if foreign:
        listed = ", ".join(repr(name[:80]) for name in sorted(set(foreign))[:5])
        raise SourceModelError(
            f"The model has objects that are not Keras's own: {listed}.", where=str(path), next_step=_EXPORT
        )


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every serialized object of a config."""
    if isinstance(value, dict):
        if isinstance(value.get("class_name"), str) and "config" in value:
            yield value
        for inner in value.values():
            yield from _objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _objects(inner)


def _names(structure: Any, usual: Sequence[str]) -> Sequence[str]:
    """Names of inputs or outputs: the keys where the model takes or gives a dict, else the usual ones."""
    return sorted(structure) if isinstance(structure, dict) and len(structure) == len(usual) else usual


def _unique(names: Sequence[str]) -> list[str]:
    """Several outputs of one layer have its name; then all of those are numbered."""
    counts, seen = Counter(names), Counter[str]()
    result = []
    for name in names:
        result.append(name if counts[name] == 1 else f"{name}_{seen[name]}")
        seen[name] += 1
    return result


def _tensors(values: Sequence[Any], names: Sequence[str]) -> tuple[OpenTensor, ...]:
    return tuple(
        OpenTensor(name, str(value.dtype), None if value.shape is None else tuple(value.shape))
        for name, value in zip(names, values, strict=True)
    )


def _caller(model: Any) -> Callable[[Sequence[Any]], Sequence[Any]]:
    tree = keras().tree
    structure = model.input

    def call(tensors: Sequence[Any]) -> Sequence[Any]:
        outputs: Sequence[Any] = tree.flatten(
            model(tree.pack_sequence_as(structure, list(tensors)), training=False)
        )
        return outputs

    return call


def _recorded(model: Any, run: Callable[[], Any]) -> tuple[Any, tuple[Layer, ...]]:
    """`run()` and the layers that it called, by name scope.

    Scopes are taken when a layer is called, since they do not follow from its name: Keras opens a scope twice
    for each call, and TensorFlow numbers the second, so that conv2d computes in `conv2d_1`, which may be
    another layer's name.
    """
    import tensorflow as tf

    layers = list(model._flatten_layers(include_self=False))
    counts = Counter(layer.name for layer in layers)
    found: list[Layer] = []

    def recording(layer: Any, call: Callable[..., Any]) -> Callable[..., Any]:
        name = layer.name if counts[layer.name] == 1 else (layer.path or layer.name)

        @functools.wraps(call)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            scope = tf.compat.v1.get_default_graph().get_name_scope()
            if scope:
                found.append(Layer(scope, name, type(layer).__name__))
            return call(*args, **kwargs)

        return wrapper

    with _replaced_calls(layers, recording):
        result = run()
    return result, tuple(dict.fromkeys(found))


@contextmanager
def _replaced_calls(
    layers: Sequence[Any], recording: Callable[[Any, Callable[..., Any]], Callable[..., Any]]
) -> Iterator[None]:
    # Set past Keras's __setattr__, which tracks what is assigned to a layer.
    for layer in layers:
        object.__setattr__(layer, "call", recording(layer, layer.call))
    try:
        yield
    finally:
        for layer in layers:
            object.__delattr__(layer, "call")
