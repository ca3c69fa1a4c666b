"""The shipped schema describes what is written, and neither more nor less than the model."""

import dataclasses
import json
import types
import typing
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from phoneproof.protocol.schema_files import schema_text
from phoneproof.report.json_report import report_text
from phoneproof.report.model import Report
from tests.report import reports

SCHEMA: dict[str, Any] = json.loads(schema_text("report"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def dataclasses_in(kind: Any) -> Iterator[type]:
    """`kind`, if a dataclass, and every dataclass inside its annotation."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        yield kind
    for argument in typing.get_args(kind):
        yield from dataclasses_in(argument)


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """The object behind references, arrays and `or null`."""
    while True:
        if "$ref" in schema:
            schema = SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")]
        elif "anyOf" in schema:
            schema = next(one for one in schema["anyOf"] if one != {"type": "null"})
        elif "array" in schema.get("type", ()) and schema.get("items"):
            schema = schema["items"]
        else:
            return schema


def allows_null(schema: dict[str, Any]) -> bool:
    return {"type": "null"} in schema.get("anyOf", []) or "null" in schema.get("type", [])


def is_optional(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, types.UnionType) and type(None) in typing.get_args(kind)


def compare_record(kind: type, schema: dict[str, Any], place: str, seen: set[type]) -> None:
    if kind in seen:
        return
    seen.add(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    assert schema.get("additionalProperties") is False, place
    assert sorted(schema["required"]) == sorted(names), place
    assert sorted(schema["properties"]) == sorted(names), place
    for name, hint in typing.get_type_hints(kind).items():
        below = schema["properties"][name]
        assert allows_null(below) == is_optional(hint), f"{place}.{name}"
        if typing.get_origin(hint) is typing.Literal:
            values = resolved(below)
            assert values.get("enum", [values.get("const")]) == list(typing.get_args(hint)), f"{place}.{name}"
        for inner in dataclasses_in(hint):
            compare_record(inner, resolved(below), f"{place}.{name}", seen)


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_schema_and_model_have_the_same_fields() -> None:
    seen: set[type] = set()
    compare_record(Report, SCHEMA, "$", seen)
    assert len(seen) > 20


def test_every_object_of_the_schema_is_closed_or_a_map_of_one_type() -> None:
    for name, definition in SCHEMA["$defs"].items():
        if definition.get("type") == "object":
            assert "additionalProperties" in definition, name
            assert definition["additionalProperties"] is not True, name


@pytest.mark.parametrize("state", reports.STATES)
def test_written_reports_follow_the_schema(state: str) -> None:
    VALIDATOR.validate(json.loads(report_text(reports.STATES[state]())))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("results", 0, "latency", "median_ms"), -1),
        (("results", 0, "verdict"), "maybe"),
        (("results", 0, "outcomes"), {"vanished": 1}),
        (("results", 0, "comparison"), {"baseline": "x"}),
        (("builds", 0, "sha256"), "1234"),
        (("builds", 0, "colour"), "blue"),
        (("version",), 1),
    ],
)
def test_the_schema_refuses(path: tuple[Any, ...], value: object) -> None:
    plain = json.loads(report_text(reports.all_pass()))
    place = plain
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert not VALIDATOR.is_valid(plain)
