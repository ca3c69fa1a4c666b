"""From what pydantic found to sentences: where it stands in the plan, what is wrong, what to do."""

import re
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from phoneproof.errors import PlanError
from phoneproof.plan.positions import Lines
from phoneproof.plan.values import Section
from phoneproof.plan.wording import near_word, nearest

Place = tuple[str | int, ...]

MOST_SHOWN: Final = 50
MOST_READ: Final = 500
"""More are not put into sentences: a broken megabyte has 60,000, and their suggestions take 12 s."""

_WHAT_TO_ADD: Final[Mapping[str, str]] = {
    "models": "Add [[models]] with name, source and format.",
    "builds": "Add [[builds]] with a recipe, for example recipe = 'onnx-int8'.",
    "devices": "Add [[devices]] with kind = 'host'. Only devices named in the plan are used.",
}


@dataclass(frozen=True)
class Mistake:
    """One thing in a plan that cannot be meant. place: the keys and list positions that lead to it."""

    place: Place
    what: str
    next_step: str


def place_text(file: str, line: int | None, place: Place) -> str:
    """`phoneproof.toml:12: builds #2.recipe`; lists are counted from 1."""
    keys = "".join(f" #{p + 1}" if isinstance(p, int) else f".{_key(p)}" for p in place).removeprefix(".")
    file_and_line = file if line is None else f"{file}:{line}"
    return f"{file_and_line}: {keys}" if keys else file_and_line


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]{1,80}", key) else repr(key[:80])


def plan_error(where: str, mistakes: Sequence[Mistake], text: str | None) -> PlanError:
    """One error for all mistakes of a plan. With several, the fact `problems` holds a sentence for each.

    text: the plan as it was read, for line numbers; None if it does not come from a file.
    """
    lines = Lines(text)
    shown = sorted(
        ((lines.line_of(mistake.place), mistake) for mistake in mistakes[:MOST_SHOWN]),
        key=lambda pair: (pair[0] is None, pair[0] or 0),
    )
    if len(shown) == 1:
        ((line, only),) = shown
        return PlanError(
            only.what, where=place_text(where, line, only.place), next_step=only.next_step or None
        )
    problems = tuple(
        f"{place_text(where, line, m.place)}: {m.what} {m.next_step}".rstrip() for line, m in shown
    )
    many = len(mistakes) > MOST_SHOWN
    head = (
        f"The plan has many mistakes; the first {MOST_SHOWN} are:"
        if many
        else f"The plan has {len(mistakes)} mistakes:"
    )
    what = "\n  ".join([head, *problems])
    return PlanError(what, where=where, next_step="Mend each of them.", problems=problems)


def mistakes_of(error: ValidationError, plan: type[Section]) -> tuple[Mistake, ...]:
    """The mistakes that pydantic found, in the order of the sections."""
    found: list[Mistake] = []
    excused: set[Place] = set()
    for details in error.errors(include_url=False)[:MOST_READ]:
        place, section = _locate(details["loc"], plan)
        if details["type"] == "extra_forbidden":
            known = _keys(section)
            meant = near_word(str(place[-1]), known)
            excused.add((*place[:-1], meant or ""))
            found.append(Mistake(place, f"Unknown key {str(place[-1])[:80]!r}.", _step(place, known, plan)))
        elif details["type"] == "too_short" and details["input"]:
            continue  # a list is short for pydantic when its items are wrong; those are told themselves
        elif details["type"] == "plan":
            facts = details["ctx"]
            found.append(Mistake(place, facts["what"], facts["next_step"]))
        else:
            found.append(_mistake(place, details))
    # `reciep = "x"` is one mistake, not an unknown and a missing key.
    return tuple(m for m in found if m.place not in excused or not m.what.startswith("Missing"))


def _step(place: Place, known: Sequence[str], plan: type[Section]) -> str:
    """The nearest key of the section, and the sections that a key of just this name belongs to."""
    key = str(place[-1])
    homes = dict.fromkeys(name for name, section in sections(plan) if key in section.model_fields)
    belongs = f"{key!r} belongs in {' or '.join(homes)}." if homes else ""
    if belongs and near_word(key, known) is None:
        return belongs
    return f"{nearest(key, known)} {belongs}".rstrip()


def _mistake(place: Place, details: ErrorDetails) -> Mistake:
    kind, given, facts = details["type"], details["input"], details.get("ctx", {})
    key = str(place[-1]) if place else ""
    if kind == "missing":
        step = _WHAT_TO_ADD.get(key, f"Add {key} = ...") if len(place) == 1 else f"Add {key} = ..."
        return Mistake(place, f"Missing key {key!r}.", step)
    if kind == "union_tag_not_found":
        known = ", ".join(_quoted(facts, "expected_tags")) or "see docs/plan.md in phoneproof's source"
        return Mistake((*place, "kind"), "Missing key 'kind'.", f"Add kind = ... ({known}).")
    if kind == "union_tag_invalid":
        what = f"{facts['tag']!r} is not known here."
        return Mistake((*place, "kind"), what, nearest(str(facts["tag"]), _quoted(facts, "expected_tags")))
    if kind in ("enum", "literal_error"):
        known_words = _quoted(facts, "expected")
        return Mistake(place, f"{_shown(given)} is not known here.", nearest(str(given), known_words))
    if kind in _WRONG_TYPE:
        expected, advice = _WRONG_TYPE[kind]
        return Mistake(place, f"Expected {expected}, not {_shown(given)}.", advice(place, given))
    if kind in _OUT_OF_RANGE:
        relation, fact = _OUT_OF_RANGE[kind]
        return Mistake(
            place, f"{_shown(given)} is out of range.", f"Write a number {relation} {facts[fact]:.12g}."
        )
    if kind == "too_short":
        return Mistake(place, "The list is empty.", _WHAT_TO_ADD.get(key, "Name at least one."))
    return Mistake(place, f"{details['msg']}, not {_shown(given)}.", "")


def _quoted(facts: Mapping[str, Any], name: str) -> list[str]:
    return re.findall(r"'([^']*)'", str(facts.get(name, "")))


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    return repr(value)[:80]


def _advice(expected: str) -> Callable[[Place, object], str]:
    """Advice for a plain value: its own text without quotes where that would do, else what is expected."""

    def advice(place: Place, given: object) -> str:
        if isinstance(given, str) and _is_plain(given):
            return f"Write {given} without quotes."
        if isinstance(given, float) and expected == "a whole number":
            return "Write it without a fraction."
        return f"Write {expected}."

    return advice


def _in_quotes(place: Place, given: object) -> str:
    return "Put it in quotes." if isinstance(given, int | float) else "Write text in quotes."


def _is_plain(text: str) -> bool:
    return re.fullmatch(r"true|false|[+-]?\d+(\.\d+)?", text) is not None


def _as_list(place: Place, given: object) -> str:
    key = place[-1]
    return f"Write [[{key}]]." if len(place) == 1 else f"Write {key} = [...]."


def _as_table(place: Place, given: object) -> str:
    path = ".".join(str(p) for p in place if isinstance(p, str))
    return f"Write [{path}]." if len(place) < 3 and isinstance(place[-1], str) else ""


_WRONG_TYPE: Final[Mapping[str, tuple[str, Callable[[Place, object], str]]]] = {
    "string_type": ("text", _in_quotes),
    "bool_type": ("true or false", _advice("true or false")),
    "int_type": ("a whole number", _advice("a whole number")),
    "int_from_float": ("a whole number", _advice("a whole number")),
    "float_type": ("a number", _advice("a number")),
    "finite_number": ("a finite number", _advice("a number")),
    "tuple_type": ("a list", _as_list),
    "dict_type": ("a table", _as_table),
    "model_type": ("a table", _as_table),
    "model_attributes_type": ("a table", _as_table),
}

_OUT_OF_RANGE: Final[Mapping[str, tuple[str, str]]] = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("of at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("of at most", "le"),
}


def _keys(section: type[Section] | None) -> list[str]:
    return list(section.model_fields) if section else []


def _locate(loc: tuple[str | int, ...], plan: type[Section]) -> tuple[Place, type[Section] | None]:
    """The place in the plan (pydantic's own steps into a tagged union left out), and the section it is in."""
    place: list[str | int] = []
    section: type[Section] | None = plan
    owner = section
    inside: tuple[type[Section], ...] = (plan,)
    for step in loc:
        if len(inside) > 1 and isinstance(step, str):
            inside = tuple(s for s in inside if step in typing.get_args(s.model_fields["kind"].annotation))
            continue
        if step == "[key]":
            continue
        place.append(step)
        owner = inside[0] if len(inside) == 1 else None
        if isinstance(step, str):
            field = owner.model_fields.get(step) if owner else None
            inside = tuple(_sections_in(field.annotation)) if field else ()
    return tuple(place), owner


def _sections_in(annotation: Any) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for inner in typing.get_args(annotation):
        yield from _sections_in(inner)


def sections(plan: type[Section]) -> Iterator[tuple[str, type[Section]]]:
    """Every section of a plan with its heading, `[gates]` or `[[builds]]`; kinds of sets have one each."""
    for name, field in plan.model_fields.items():
        many = typing.get_origin(field.annotation) is tuple
        for section in _sections_in(field.annotation):
            yield (f"[[{name}]]" if many else f"[{name}]"), section
            for inner, inner_field in section.model_fields.items():
                for kind in _sections_in(inner_field.annotation):
                    yield f"[{name}.{inner}]", kind


__all__ = ["Mistake", "Place", "mistakes_of", "place_text", "plan_error", "sections"]
