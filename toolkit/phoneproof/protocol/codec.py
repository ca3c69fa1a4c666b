"""Frozen dataclasses to JSON objects and back, strictly.

Worker processes load this in a vendor's environment, where only the standard library is certain; that is why
no validation library is used here. Unknown keys, missing keys and wrong types are ProtocolErrors that name
the place. A union of dataclasses is told apart by a field whose type is a one-word Literal (`kind`, `event`).
"""

import dataclasses
import difflib
import enum
import json
import types
import typing
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from phoneproof.errors import ProtocolError

T = TypeVar("T")


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

    Floats are refused, since their shortest decimal form differs between languages' standard libraries.
    """
    plain = to_dict(value)
    _refuse_floats(plain, "$")
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False)


def _refuse_floats(value: object, place: str) -> None:
    if isinstance(value, float):
        raise ProtocolError("A float has no canonical form.", where=place)
    if isinstance(value, dict):
        for key, item in value.items():
            if not key.isascii():
                raise ProtocolError("A key of a canonical object is not ASCII.", where=f"{place}.{key}")
            _refuse_floats(item, f"{place}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_floats(item, f"{place}[{index}]")


def _wrong(expected: str, value: object, place: str) -> ProtocolError:
    return ProtocolError(f"Expected {expected}, found {json.dumps(value, default=repr)[:80]}.", where=place)


def _decode(kind: Any, value: object, place: str) -> object:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _decode_union(get_args(kind), value, place)
    if origin is Literal:
        if value not in get_args(kind):
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
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind in (str, bool) and isinstance(value, kind):
        return value
    if kind in (None, type(None)) and value is None:
        return None
    raise _wrong(getattr(kind, "__name__", str(kind)), value, place)


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
    wrong: ProtocolError | None = None
    for option in options:
        try:
            return _decode(option, value, place)
        except ProtocolError as error:
            wrong = error
    raise wrong or _wrong("a value", value, place)


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
