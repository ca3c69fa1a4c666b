"""Frozen dataclasses to JSON objects and back, strictly.

Worker processes load this in a vendor's environment, where only the standard library is certain; that is why
no validation library is used here. Unknown keys, missing keys and wrong types are ProtocolErrors that name
the place. A union of dataclasses is told apart by a field whose type is a one-word Literal (`kind`, `event`).
"""

import contextlib
import dataclasses
import difflib
import enum
import json
import math
import re
import types
import typing
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin

from phoneproof.errors import ProtocolError

T = TypeVar("T")

MAX_INTEGER: Final = 2**63 - 1
"""Integers on the wire fit a signed 64-bit one: Kotlin's Long, Swift's Int64."""

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")

MAX_CANONICAL_INTEGER: Final = 2**53 - 1
"""Integers of a canonical form are exact in a double, as RFC 8785 takes every number for one."""


def parse_json(text: str | bytes, where: str) -> object:
    """JSON as every language reads it alike; anything else is a ProtocolError at `where`.

    Refused besides bad syntax: bytes that are not UTF-8, a byte order mark, NaN and Infinity, a key that is
    written twice (readers differ in which one they take), a lone surrogate, nesting too deep to read.
    """
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        value: object = json.loads(decoded, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
        _refuse_surrogates(decoded)
    except ValueError as error:
        raise ProtocolError(f"Not JSON: {str(error)[:200]}.", where=where) from None
    except RecursionError:
        raise ProtocolError("Not JSON that can be read: it is nested too deeply.", where=where) from None
    return value


def without_lone_surrogates(text: str) -> str:
    """Lone surrogates (arguments and logs that were not UTF-8) become U+FFFD: JSON cannot carry them."""
    return _LONE_SURROGATE.sub("\ufffd", text)


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key is written twice in one object")
    return content


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")


def _refuse_surrogates(text: str) -> None:
    # In a file only an escape can make one; the escapes of a pair are joined into one character when read.
    text.encode()
    if "\\u" in text:
        json.dumps(json.loads(text), ensure_ascii=False).encode()


def to_dict(value: object) -> Any:
    """A value of JSON types only. Mappings keep their order; tuples become lists; enums their value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_dict(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_dict(item) for key, item in value.items()}
    if isinstance(value, (tuple, list, frozenset)):
        return [to_dict(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"no JSON form for {type(value).__name__}")


def from_dict(cls: type[T], value: object, place: str = "$") -> T:
    """The dataclass `cls` (or a union of such) that `value`, parsed JSON, stands for.

    Raises ProtocolError naming the place (`$.cases[3].kind`) of the first thing that is wrong.
    """
    return typing.cast(T, _decode(cls, value, place))


def dumps_canonical(value: object) -> str:
    """RFC 8785 for values without floats: sorted ASCII keys, no white space, minimal escapes.

    Floats are refused, since their shortest decimal form differs between standard libraries. So are
    integers that a double does not hold exactly, and lone surrogates, which have no UTF-8 form.
    """
    plain = to_dict(value)
    _check_canonical(plain, "$")
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ProtocolError("A lone surrogate has no canonical form.") from None
    return text


def _check_canonical(value: object, place: str) -> None:
    if isinstance(value, float):
        raise ProtocolError("A float has no canonical form.", where=place)
    if isinstance(value, int) and abs(value) > MAX_CANONICAL_INTEGER:
        raise ProtocolError("An integer beyond 2^53 - 1 has no canonical form.", where=place)
    if isinstance(value, dict):
        for key, item in value.items():
            if not key.isascii():
                raise ProtocolError("A key of a canonical object is not ASCII.", where=f"{place}.{key[:80]}")
            _check_canonical(item, f"{place}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_canonical(item, f"{place}[{index}]")


def _wrong(expected: str, value: object, place: str) -> ProtocolError:
    return ProtocolError(f"Expected {expected}, found {json.dumps(value, default=repr)[:80]}.", where=place)


def _decode(kind: Any, value: object, place: str) -> object:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _decode_union(get_args(kind), value, place)
    if origin is Literal:
        if not any(type(value) is type(known) and value == known for known in get_args(kind)):
            raise _wrong(" or ".join(repr(v) for v in get_args(kind)), value, place)
        return value
    if origin is tuple:
        return _decode_tuple(get_args(kind), value, place)
    if origin is not None and issubclass(origin, Mapping):
        return _decode_mapping(get_args(kind)[1], value, place)
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(typing.cast(type, kind), value, place)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(value)
        except ValueError:
            raise _wrong(" or ".join(repr(m.value) for m in kind), value, place) from None
    return _decode_scalar(kind, value, place)


def _decode_scalar(kind: Any, value: object, place: str) -> object:
    if kind is Any or kind is object:
        return value
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is float and is_number and _is_finite(typing.cast(float, value)):
        return float(typing.cast(float, value))
    if kind is int and is_number and isinstance(value, int) and abs(value) <= MAX_INTEGER:
        return value
    if kind in (str, bool) and isinstance(value, kind):
        return value
    if kind in (None, type(None)) and value is None:
        return None
    raise _wrong(getattr(kind, "__name__", str(kind)), value, place)


def _is_finite(value: float) -> bool:
    return abs(value) <= MAX_INTEGER or (type(value) is float and math.isfinite(value))


def _decode_tuple(args: tuple[Any, ...], value: object, place: str) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise _wrong("a list", value, place)
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_decode(args[0], item, f"{place}[{i}]") for i, item in enumerate(value))
    if len(args) != len(value):
        raise _wrong(f"a list of {len(args)}", value, place)
    return tuple(
        _decode(a, item, f"{place}[{i}]") for i, (a, item) in enumerate(zip(args, value, strict=True))
    )


def _decode_mapping(item_kind: Any, value: object, place: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _wrong("an object", value, place)
    return {str(key): _decode(item_kind, item, f"{place}.{key}") for key, item in value.items()}


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _decode_dataclass(cls: type, value: object, place: str) -> object:
    if not isinstance(value, dict):
        raise _wrong("an object", value, place)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    for key in value:
        if key not in fields:
            near = difflib.get_close_matches(str(key), fields, n=1)
            advice = f"The nearest known key is {near[0]!r}." if near else f"Known keys: {', '.join(fields)}."
            raise ProtocolError(f"Unknown key {str(key)[:80]!r}.", where=place, next_step=advice)
    arguments: dict[str, object] = {}
    for name, field in fields.items():
        if name in value:
            arguments[name] = _decode(_hints(cls)[name], value[name], f"{place}.{name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ProtocolError(f"Missing key {name!r}.", where=place)
    return cls(**arguments)


def _decode_union(options: tuple[Any, ...], value: object, place: str) -> object:
    if value is None and type(None) in options:
        return None
    records = [o for o in options if dataclasses.is_dataclass(o)]
    if isinstance(value, dict) and records:
        if len(records) == 1:
            return _decode(records[0], value, place)
        return _decode_tagged(typing.cast(list[type], records), value, place)
    others = [option for option in options if option is not type(None)]
    if len(others) == 1:
        return _decode(others[0], value, place)
    for option in others:
        with contextlib.suppress(ProtocolError):
            return _decode(option, value, place)
    raise _wrong(" or ".join(getattr(o, "__name__", str(o)) for o in others), value, place)


def _decode_tagged(records: list[type], value: dict[str, object], place: str) -> object:
    known: list[str] = []
    for record in records:
        for name, hint in _hints(record).items():
            if get_origin(hint) is Literal and len(get_args(hint)) == 1:
                if value.get(name) == get_args(hint)[0]:
                    return _decode(record, value, place)
                known.append(f"{name}={get_args(hint)[0]!r}")
                break
    raise _wrong(" or ".join(known), value, place)
