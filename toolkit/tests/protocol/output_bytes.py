"""Golden output files, put together byte by byte without the code under test."""

import json
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.protocol.golden_files import keep

HEADER = b"PPOUT\0\x01\0"
CODES = {"bool": 1, "int8": 2, "uint8": 3, "int32": 6, "float32": 11}


def tensor(dtype: str, shape: list[int], data: bytes, length: int | None = None) -> bytes:
    length = len(data) if length is None else length
    return struct.pack(f"<BBH{len(shape)}QQ", CODES[dtype], len(shape), 0, *shape, length) + data


def record(sample: int, *tensors: bytes, count: int | None = None) -> bytes:
    body = struct.pack("<QI", sample, len(tensors) if count is None else count) + b"".join(tensors)
    return checked(struct.pack("<Q", len(body)) + body)


def checked(content: bytes) -> bytes:
    return content + struct.pack("<I", zlib.crc32(content))


@dataclass(frozen=True)
class GoldenFile:
    """expected: records read when the file must be whole, and when its tail may be torn, or `error`."""

    content: bytes
    expected: dict[str, Any]

    def kept(self, path: Path) -> bytes:
        index = {name: golden.expected for name, golden in OUTPUT_FILES.items()}
        keep(path.with_name("expected.json"), (json.dumps(index, indent=1) + "\n").encode())
        return keep(path, self.content)


_FLOATS = bytes.fromhex("0000c03f000000c0")  # 1.5, -2.0
_FIRST = record(
    0, tensor("float32", [1, 2], _FLOATS), tensor("int32", [], b"\7\0\0\0"), tensor("int8", [0, 3], b"")
)
_SECOND = record(2)
_THIRD = record(3, tensor("bool", [2], b"\1\0"))
_FIRST_READ = {
    "sample": 0,
    "tensors": [
        {"dtype": "float32", "shape": [1, 2], "hex": "0000c03f000000c0"},
        {"dtype": "int32", "shape": [], "hex": "07000000"},
        {"dtype": "int8", "shape": [0, 3], "hex": ""},
    ],
}
_SECOND_READ: dict[str, Any] = {"sample": 2, "tensors": []}
_THIRD_READ = {"sample": 3, "tensors": [{"dtype": "bool", "shape": [2], "hex": "0100"}]}


def _whole(content: bytes, *records: Any) -> GoldenFile:
    kept = {"whole": list(records), "torn_tail_allowed": list(records), "bytes_kept": len(content)}
    return GoldenFile(content, kept)


def _torn(kept: bytes, tail: bytes, *records: Any) -> GoldenFile:
    expected = {"whole": "error", "torn_tail_allowed": list(records), "bytes_kept": max(8, len(kept))}
    return GoldenFile(kept + tail, expected)


def _refused(content: bytes) -> GoldenFile:
    return GoldenFile(content, {"whole": "error", "torn_tail_allowed": "error", "bytes_kept": None})


def _flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


_BEGIN = HEADER + _FIRST
OUTPUT_FILES: dict[str, GoldenFile] = {
    "whole.bin": _whole(_BEGIN + _SECOND + _THIRD, _FIRST_READ, _SECOND_READ, _THIRD_READ),
    "no-records.bin": _whole(HEADER),
    "torn-empty.bin": _torn(b"", b""),
    "torn-in-header.bin": _torn(b"", HEADER[:5]),
    "torn-in-length.bin": _torn(_BEGIN, _SECOND[:3], _FIRST_READ),
    "torn-in-body.bin": _torn(_BEGIN + _SECOND, _THIRD[:20], _FIRST_READ, _SECOND_READ),
    "torn-in-checksum.bin": _torn(_BEGIN, _SECOND[:-1], _FIRST_READ),
    "torn-last-record-damaged.bin": _torn(_BEGIN, _flipped(_THIRD, 30), _FIRST_READ),
    "torn-header-zeros.bin": _torn(b"", HEADER[:3] + bytes(90)),
    "torn-body-zeros.bin": _torn(_BEGIN, _THIRD[:22] + bytes(500), _FIRST_READ),
    "torn-zeros.bin": _torn(_BEGIN, bytes(500), _FIRST_READ),
    "torn-length-beyond-the-file.bin": _torn(_BEGIN, b"\xff" * 8 + bytes(50), _FIRST_READ),
    "hostile-magic.bin": _refused(b"PPOUX\0\x01\0" + _FIRST),
    "hostile-version.bin": _refused(b"PPOUT\0\x02\0" + _FIRST),
    "hostile-damaged-before-others.bin": _refused(HEADER + _flipped(_FIRST, 40) + _SECOND),
    "hostile-order.bin": _refused(HEADER + _THIRD + _SECOND),
    "hostile-sample-twice.bin": _refused(_BEGIN + _SECOND + _SECOND),
    "hostile-negative-sample.bin": _refused(HEADER + record(2**63)),
    "hostile-short-body.bin": _refused(HEADER + checked(struct.pack("<Q", 4) + bytes(4)) + _SECOND),
    "hostile-count.bin": _refused(HEADER + record(0, tensor("int8", [1], b"\1"), count=2**32 - 1)),
    "hostile-count-too-small.bin": _refused(HEADER + record(0, tensor("int8", [1], b"\1"), count=0)),
    "hostile-dtype.bin": _refused(HEADER + record(0, b"\x0d\0\0\0" + struct.pack("<QB", 1, 5))),
    "hostile-reserved.bin": _refused(HEADER + record(0, b"\x02\0\1\0" + struct.pack("<QB", 1, 5))),
    "hostile-rank.bin": _refused(HEADER + record(0, tensor("int8", [1] * 33, b"\1"))),
    "hostile-shape.bin": _refused(HEADER + record(0, tensor("float32", [2**31 - 1, 2**31 - 1], b"", 0))),
    "hostile-dimension.bin": _refused(HEADER + record(0, tensor("float32", [0, 2**31], b""))),
    "hostile-byte-length.bin": _refused(HEADER + record(0, tensor("int8", [1], b"\1", 2**63))),
    "hostile-bool.bin": _refused(HEADER + record(0, tensor("bool", [1], b"\2"))),
}
