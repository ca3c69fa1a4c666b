"""What an XNNPACK delegate holds: operators and constants, read out of its payload in a .pte file.

The payload is a header, a flatbuffer and constants (executorch/backends/xnnpack/serialization). ExecuTorch
generates no reader of that flatbuffer; its own flatc makes JSON of it, by the schema of the same package.
"""

import json
import re
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

XNNPACK: Final = "XnnpackBackend"

_HEADER_MAGIC: Final = b"XH00"
_CONVERT: Final = "XNNConvert"
"""Quantizes and dequantizes: it changes the representation and computes nothing of the model."""

_DTYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("fp32", "pfp32"), "float32"),
    "fp16": "float16",
    "bf16": "bfloat16",
    **dict.fromkeys(("qint8", "quint8", "qcint8", "qdint8", "qpint8"), "int8"),
    **dict.fromkeys(("qint32", "qcint32", "int32"), "int32"),
    **dict.fromkeys(("qcint4", "qbint4"), "int4"),
}
_BITS: Final[Mapping[str, int]] = {
    "float32": 32, "int32": 32, "float16": 16, "bfloat16": 16, "int8": 8, "int4": 4
}  # fmt: skip


@dataclass(frozen=True)
class XnnOperator:
    """One operator. type: without the prefix XNN, such as Conv2d. dtype: that it computes in."""

    type: str
    dtype: str


@dataclass(frozen=True)
class XnnConstant:
    """A constant. name: its reader's type, number in the graph and role: `Conv2d 3 filter`."""

    name: str
    dtype: str
    size_bytes: int


@dataclass(frozen=True)
class XnnGraph:
    """One delegate's graph; quantize and dequantize (Convert) are left out of its operators."""

    operators: tuple[XnnOperator, ...]
    constants: tuple[XnnConstant, ...]


def read_xnnpack_graph(payload: bytes) -> XnnGraph:
    """The graph in a delegate's payload. ValueError if it is damaged or of an unknown form."""
    return _graph(_as_json(_flatbuffer(payload)))


def _flatbuffer(payload: bytes) -> bytes:
    if payload[4:8] != _HEADER_MAGIC:
        return payload  # before the header existed, the payload was the flatbuffer itself
    offset, size = struct.unpack_from("<II", payload, 10)
    if offset + size > len(payload):
        raise ValueError("the XNNPACK delegate is truncated")
    return payload[offset : offset + size]


def _as_json(flatbuffer: bytes) -> Mapping[str, Any]:
    from executorch.backends.xnnpack.serialization.xnnpack_graph_serialize import _get_schema_bytes
    from executorch.exir._serialize._flatbuffer import _flatc_decompile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "graph.fbs").write_bytes(_get_schema_bytes())
        (folder / "graph.bin").write_bytes(flatbuffer)
        try:
            # --raw-binary: files of an older schema have another identifier and are read all the same.
            _flatc_decompile(name, str(folder / "graph.fbs"), str(folder / "graph.bin"), ["--raw-binary"])
            text = (folder / "graph.json").read_text(encoding="utf-8")
        except (subprocess.CalledProcessError, OSError, UnicodeDecodeError) as error:
            raise ValueError("the XNNPACK delegate cannot be read") from error
    # flatc writes inf and nan bare, as JSON has no word for them; bounds of activations are often infinite.
    text = re.sub(r"(?<=[:\s\[,])(-?)inf(?=[\s,\]}])", r"\1Infinity", text)
    graph: Mapping[str, Any] = json.loads(re.sub(r"(?<=[:\s\[,])-?nan(?=[\s,\]}])", "NaN", text))
    return graph


def _graph(graph: Mapping[str, Any]) -> XnnGraph:
    values = {value["id_out"]: value for value in map(_tensor_value, graph["xvalues"])}
    operators: list[XnnOperator] = []
    constants: dict[Any, XnnConstant] = {}
    for index, node in enumerate(graph["xnodes"]):
        used = dict(_values_of(node, values))
        kind = node["xnode_union_type"].removeprefix("XNN")
        for role, value in used.items():
            if value["constant_buffer_idx"]:
                constants.setdefault(value["id_out"], _constant(f"{kind} {index} {role}", value))
        if node["xnode_union_type"] != _CONVERT:
            operators.append(XnnOperator(kind, _compute_dtype(used)))
    return XnnGraph(tuple(operators), tuple(constants.values()))


def _tensor_value(value: Mapping[str, Any]) -> Mapping[str, Any]:
    inner: Mapping[str, Any] = value["xvalue_union"]
    quantized: Mapping[str, Any] = inner.get("tensor_value", inner)
    return quantized


def _values_of(
    node: Mapping[str, Any], values: Mapping[int, Mapping[str, Any]]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(role, value) of each input and output; an absent one, such as no bias, has an id that is no value."""
    for key, number in node["xnode_union"].items():
        if key.endswith("_id") and number in values:
            yield key.removesuffix("_id"), values[number]


def _compute_dtype(used: Mapping[str, Mapping[str, Any]]) -> str:
    """int8 where a value that flows is int8 (static or dynamic); weights alone do not decide it."""
    flowing = [_dtype(value) for value in used.values() if not value["constant_buffer_idx"]]
    for dtype in ("int8", "float16", "bfloat16", "float32"):
        if dtype in flowing:
            return dtype
    return flowing[0] if flowing else "none"


def _constant(name: str, value: Mapping[str, Any]) -> XnnConstant:
    dtype, elements = _dtype(value), 1
    for length in value["dims"]:
        elements *= length
    return XnnConstant(name, dtype, (elements * _BITS[dtype] + 7) // 8)


def _dtype(value: Mapping[str, Any]) -> str:
    name = value["datatype"].removeprefix("xnn_datatype_")
    if name not in _DTYPES:
        raise ValueError(f"XNNPACK's datatype {name!r} is unknown")
    return _DTYPES[name]
