"""The strict codec: what is read is exactly what was declared, and a refusal names the place."""

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phoneproof.errors import ProtocolError
from phoneproof.protocol.codec import (
    MAX_INTEGER,
    dumps_canonical,
    from_dict,
    parse_json,
    to_dict,
    without_lone_surrogates,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(max_codepoint=127)), inner),
    max_leaves=20,
)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Cat:
    kind: Literal["cat"]
    lives: int


@dataclass(frozen=True)
class Dog:
    kind: Literal["dog"]
    weight_kg: float
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Home:
    name: str
    pets: tuple[Cat | Dog, ...]
    colour: Colour | None
    size: tuple[int, int]
    facts: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    warm: bool = True


HOME: dict[str, Any] = {
    "name": "h",
    "pets": [{"kind": "cat", "lives": 9}, {"kind": "dog", "weight_kg": 7, "tags": ["x"]}],
    "colour": "red",
    "size": [2, 3],
    "facts": {"a": 1, "b": 1.5, "c": True, "d": None, "e": "t"},
    "warm": False,
}


def test_reads_what_was_declared_and_leaves_the_callers_dict_alone() -> None:
    before = json.dumps(HOME)
    home = from_dict(Home, HOME)
    assert json.dumps(HOME) == before
    assert home.pets == (Cat("cat", 9), Dog("dog", 7.0, ("x",)))
    assert home.colour is Colour.RED
    assert [type(v) for v in home.facts.values()] == [int, float, bool, type(None), str]
    assert from_dict(Home, to_dict(home)) == home


def test_defaults_are_taken_for_keys_that_are_left_out() -> None:
    home = from_dict(Home, {"name": "h", "pets": [], "colour": None, "size": [1, 1]})
    assert home == Home("h", (), None, (1, 1), {}, True)


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        ({"colours": "red"}, "$", "nearest known key is 'colour'"),
        ({"zzz": 1}, "$", "Known keys: name, pets"),
        ({"name": 5}, "$.name", "Expected str"),
        ({"name": None}, "$.name", "Expected str"),
        ({"warm": 1}, "$.warm", "Expected bool"),
        ({"size": [1]}, "$.size", "a list of 2"),
        ({"size": {"0": 1}}, "$.size", "Expected a list"),
        ({"size": [1, True]}, "$.size[1]", "Expected int"),
        ({"size": [1, 1.0]}, "$.size[1]", "Expected int"),
        ({"size": [1, MAX_INTEGER + 1]}, "$.size[1]", "Expected int"),
        ({"colour": "green"}, "$.colour", "'red' or 'blue'"),
        ({"colour": []}, "$.colour", ""),
        ({"pets": [{"kind": "cow"}]}, "$.pets[0]", "kind='cat' or kind='dog'"),
        ({"pets": [{"lives": 9}]}, "$.pets[0]", "kind='cat'"),
        ({"pets": [{"kind": "cat"}]}, "$.pets[0]", "Missing key 'lives'"),
        ({"pets": [{"kind": "cat", "lives": "9"}]}, "$.pets[0].lives", "Expected int"),
        ({"pets": ["cat"]}, "$.pets[0]", "Cat or Dog"),
        ({"pets": [{"kind": "dog", "weight_kg": float("inf")}]}, "$.pets[0].weight_kg", "Expected float"),
        ({"pets": [{"kind": "dog", "weight_kg": 10**400}]}, "$.pets[0].weight_kg", "Expected float"),
        ({"pets": [{"kind": "dog", "weight_kg": True}]}, "$.pets[0].weight_kg", "Expected float"),
        ({"facts": {"a": [1]}}, "$.facts.a", ""),
        ({"facts": []}, "$.facts", "an object"),
    ],
)
def test_a_refusal_names_the_place(change: dict[str, Any], place: str, words: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        from_dict(Home, HOME | change)
    assert caught.value.where == place
    assert words in str(caught.value)


def test_a_missing_key_is_named() -> None:
    with pytest.raises(ProtocolError, match="Missing key 'size'"):
        from_dict(Home, {"name": "h", "pets": [], "colour": None})


def test_a_literal_number_is_not_a_truth_value() -> None:
    @dataclass(frozen=True)
    class Versioned:
        version: Literal[1]

    globals()["Versioned"] = Versioned
    assert from_dict(Versioned, {"version": 1}).version == 1
    for other in (True, 1.0, "1"):
        with pytest.raises(ProtocolError):
            from_dict(Versioned, {"version": other})


def test_what_has_no_json_form_is_refused() -> None:
    assert to_dict(Path("a/b")) == "a/b"
    with pytest.raises(TypeError):
        to_dict({1, 2})


@given(value=JSON)
def test_canonical_form_is_read_back_and_does_not_depend_on_order(value: Any) -> None:
    def turned(one: Any) -> Any:
        if isinstance(one, dict):
            return {key: turned(one[key]) for key in reversed(one)}
        return [turned(item) for item in one] if isinstance(one, list) else one

    text = dumps_canonical(value)
    assert parse_json(text.encode(), "x") == value
    assert dumps_canonical(turned(value)) == text


@given(data=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        value = parse_json(data, "x")
    except ProtocolError:
        return
    assert json.loads(data.decode()) == value


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "1" * 5_000, '"\\ud800"', b"\xff", b"\xef\xbb\xbf{}"]
)
def test_hostile_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_json(text, "x")


@given(text=st.text(st.characters()) | st.text(st.characters(categories=["Cs"])))
def test_lone_surrogates_are_replaced(text: str) -> None:
    cleaned = without_lone_surrogates(text)
    cleaned.encode()
    assert len(cleaned) == len(text)
