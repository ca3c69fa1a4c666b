"""Source models in ONNX form: read safely, checked, with every axis fixed."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import onnx

from phoneproof.errors import SourceModelError
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.onnx_header import read_header
from phoneproof.sources.axes import open_inputs
from phoneproof.sources.onnx_shapes import declared, fixed, specs
from phoneproof.sources.planned_model import refuse_changed
from phoneproof.sources.request import OnnxSourceRequest

SIZE_LIMIT: Final = 2**31 - 1
"""A protobuf message, so a model with its weights inside, stays under 2 GiB (protobuf's own limit)."""


@dataclass(frozen=True)
class OnnxSource:
    """A source model ready for use: weights inside, axes fixed, shapes inferred, every node named once.

    sha256: hash of the content on disk (see `content_sha256`).
    model: onnx.ModelProto. Callers copy it before they change it. open_inputs: of axes.open_inputs.
    """

    path: Path
    sha256: str
    model: Any
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    open_inputs: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)


def load_source(request: OnnxSourceRequest) -> OnnxSource:
    """The source model that `request` names. SourceModelError if it is unusable or not the one planned."""
    source = load_onnx(Path(request.path), request.shapes)
    refuse_changed(source.sha256, request.sha256, request.path)
    return source


def load_onnx(path: Path, shapes: Mapping[str, tuple[int, ...]] | None = None) -> OnnxSource:
    """Read, check and fix the ONNX model at `path`.

    A dynamic first axis is the batch and becomes 1; any other dynamic axis takes its length from `shapes`.
    Raises SourceModelError: missing, truncated or not ONNX, external data outside the model's folder or too
    short, refused by the ONNX checker, an axis left dynamic, a shape that contradicts the model.
    """
    model, sha256 = read_whole(path)
    _drop_overridable_initializers(model)
    _check(model, path)
    _name_nodes(model)
    left_open = open_inputs(declared(model))
    model = fixed(model, dict(shapes or {}), str(path))
    inputs, outputs = specs(model, str(path))
    return OnnxSource(path, sha256, model, inputs, outputs, left_open)


def read_whole(path: Path) -> tuple[Any, str]:
    """The onnx.ModelProto in a file with its external data inside, else as it is, and its `content_sha256`.

    SourceModelError as `parse_onnx`, and for external data that is missing, too short or outside the folder.
    """
    model = parse_onnx(path)
    files = _external_files(model, path)
    if path.stat().st_size + sum(file.stat().st_size for file in files) > SIZE_LIMIT:
        raise SourceModelError(
            "The model with its weights is larger than 2 GiB.",
            where=str(path),
            next_step="Split the model; a model of this size does not fit a phone either.",
        )
    sha256 = _hash(path, files)
    onnx.load_external_data_for_model(model, str(path.parent))
    return model, sha256


def external_files(path: Path) -> tuple[Path, ...]:
    """The model's file and the files with its external data. SourceModelError as `load_onnx`."""
    return (path, *_external_files(parse_onnx(path), path))


def content_sha256(path: Path) -> str:
    """SHA-256 of the model's content.

    Of the file's bytes where all weights are inside; with external data, of the sorted lines
    `relative path NUL sha256 LF` of all files, so that the weights count too (the model's own path is empty:
    renaming it changes nothing).
    """
    return _hash(path, _external_files(parse_onnx(path), path))


def parse_onnx(path: Path) -> Any:
    """The onnx.ModelProto in a file, without its external data.

    SourceModelError for a file that is missing, truncated, not an ONNX model, or without operators.
    """
    read_header(path)
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model = onnx.load_model(str(path), load_external_data=False)
    except (DecodeError, ValueError) as error:
        raise SourceModelError(
            "The file is not an ONNX model, or is damaged.",
            where=str(path),
            next_step="Export the model again, and check that the copy is complete.",
            cause=str(error)[:200],
        ) from error
    if not model.graph.node:
        raise SourceModelError(
            "The ONNX model has no operators.", where=str(path), next_step="Export the model again."
        )
    return model


def tensors_of(graph: Any) -> Iterator[Any]:
    """Every TensorProto of a graph: initializers, attributes, and those of its subgraphs."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _tensors_of_attributes(node)


def _tensors_of_attributes(node: Any) -> Iterator[Any]:
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        if attribute.HasField("g"):
            yield from tensors_of(attribute.g)
        for graph in attribute.graphs:
            yield from tensors_of(graph)


def _external_files(model: Any, path: Path) -> tuple[Path, ...]:
    """The files that hold the model's external data, all proven to lie in the folder of the model."""
    tensors = list(tensors_of(model.graph))
    for function in model.functions:
        for node in function.node:
            tensors.extend(_tensors_of_attributes(node))
    files: set[Path] = set()
    for tensor in tensors:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            files.add(_external_file(tensor, path))
    return tuple(sorted(files))


def _external_file(tensor: Any, path: Path) -> Path:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    folder = path.parent.resolve()
    file: Path = folder / location
    place = f"{path}: weights {tensor.name!r}"
    # Resolved, so that a symbolic link cannot lead out of the folder either.
    if not location or Path(location).is_absolute() or not file.resolve().is_relative_to(folder):
        raise SourceModelError(
            f"External data is read only from the model's own folder, not from {location[:200]!r}.",
            where=place,
            next_step="Save the model again with its external data beside it.",
        )
    if not file.is_file():
        raise SourceModelError(
            f"The external data file {location[:200]!r} is missing.",
            where=place,
            next_step="Copy it into the model's folder; both files belong together.",
        )
    _check_extent(entries, file, place)
    return file


def _check_extent(entries: Mapping[str, str], file: Path, place: str) -> None:
    try:
        offset, length = int(entries.get("offset", "0")), int(entries.get("length", "0"))
    except ValueError as error:
        raise SourceModelError(
            "The place of external data is not a number.", where=place, next_step="Export the model again."
        ) from error
    if offset < 0 or length < 0 or offset + length > file.stat().st_size:
        raise SourceModelError(
            f"The external data file {file.name!r} is shorter than the model says.",
            where=place,
            next_step="Copy the file again; it is truncated, or belongs to another model.",
            offset=offset,
            length=length,
            size_bytes=file.stat().st_size,
        )


def _hash(path: Path, files: tuple[Path, ...]) -> str:
    def of_file(file: Path) -> str:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    if not files:
        return of_file(path)
    folder = path.parent.resolve()
    lines = [("", of_file(path)), *((f.relative_to(folder).as_posix(), of_file(f)) for f in files)]
    text = "".join(f"{name}\0{digest}\n" for name, digest in sorted(lines))
    return hashlib.sha256(text.encode()).hexdigest()


def _drop_overridable_initializers(model: Any) -> None:
    """Before IR 4 every weight also stood among the inputs, where no optimizer may fold it."""
    weights = {tensor.name for tensor in model.graph.initializer}
    real = [value for value in model.graph.input if value.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(real)
    model.ir_version = max(model.ir_version, 4)


def _check(model: Any, path: Path) -> None:
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise SourceModelError(
            "The ONNX checker refuses the model.",
            where=str(path),
            next_step="Export the model again with a current exporter.",
            cause=str(error).strip()[:400],
        ) from error


def _name_nodes(model: Any) -> None:
    """A node without a name gets that of its first output, which no other node has."""
    taken = {node.name for node in model.graph.node}
    for index, node in enumerate(model.graph.node):
        if not node.name:
            name = next((output for output in node.output if output), f"{node.op_type}_{index}")
            node.name = name if name not in taken else f"{name}:{index}"
            taken.add(node.name)
