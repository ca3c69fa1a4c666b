"""Text in a .tflite file's metadata table, written without TensorFlow."""

from collections.abc import Mapping
from typing import Any, Final

from phoneproof.errors import ProtocolError

LEAST_RUNTIME: Final = "min_runtime_version"
_IDENTIFIER: Final = b"TFL3"


def with_metadata(content: bytes, metadata: Mapping[str, str], without: frozenset[str]) -> bytes:
    """The file with `metadata` as UTF-8 text by key, and without the entries named in `without`.

    Nothing else changes; the file is written anew. ProtocolError for a key that the file has already.
    """
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model: Any = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    model.metadata = [entry for entry in model.metadata or () if text_of(entry.name) not in without]
    add_metadata(model, metadata, schema)
    builder = flatbuffers.Builder(len(content) + 1024)
    builder.Finish(model.Pack(builder), file_identifier=_IDENTIFIER)
    return bytes(builder.Output())


def add_metadata(model: Any, metadata: Mapping[str, str], schema: Any) -> None:
    """Add text by key to a ModelT of `schema`, the module that holds its classes.

    ProtocolError for a key that it has already.
    """
    known = {text_of(entry.name) for entry in model.metadata or ()}
    for key, text in sorted(metadata.items()):
        if key in known:
            raise ProtocolError(f"The converter writes metadata {key!r} itself.", where="$.metadata")
        buffer, entry = schema.BufferT(), schema.MetadataT()
        buffer.data = list(text.encode())
        entry.name, entry.buffer = key.encode(), len(model.buffers)
        model.buffers.append(buffer)
        model.metadata = [*(model.metadata or ()), entry]


def text_of(value: Any) -> str:
    """A name in a flatbuffer, which may be bytes."""
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)
