"""The types of values in a plan, and how a check inside it reports what cannot be meant."""

import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from phoneproof.errors import RequestError

ENTRY_POINT: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_PLAIN_ID: Final = re.compile(r"[a-z0-9_][a-z0-9._-]{0,63}")

Member = TypeVar("Member")
Problem = tuple[tuple[str | int, ...], str, str]
"""Key path below the section, what is wrong, what to do."""


class Section(BaseModel):
    """A table of the plan: nothing unknown, nothing converted, nothing changed afterwards."""

    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


def wrong(what: str, next_step: str = "") -> PydanticCustomError:
    """An error that pydantic carries to the place it belongs to; plan/problems.py reads it back."""
    return PydanticCustomError("plan", "{what}", {"what": what, "next_step": next_step})


def refuse(section: object, problems: Iterable[Problem]) -> None:
    """Raise all `problems`, each at its own key, if there are any."""
    details = [
        InitErrorDetails(type=wrong(what, step), loc=place, input=None) for place, what, step in problems
    ]
    if details:
        raise ValidationError.from_exception_data(type(section).__name__, details)


def refuse_as_told(error: RequestError, key: str) -> ValidationError:
    """An error of another folder, whose `where` is `key` or `key.inner.keys`, at those inner keys."""
    inner = (error.where or "").removeprefix(key).strip(".")
    loc = tuple(inner.split(".")) if inner else ()
    if "key" in error.facts and error.what.startswith("Unknown key"):
        loc += (str(error.facts["key"]),)
    details = InitErrorDetails(type=wrong(error.what, error.next_step or ""), loc=loc, input=None)
    return ValidationError.from_exception_data(key, [details])


def is_plain_id(value: object) -> bool:
    """Whether a value is text that can name a model or variant: it becomes a part of build ids and paths."""
    return isinstance(value, str) and _PLAIN_ID.fullmatch(value) is not None


def _plain_id(value: str) -> str:
    if not is_plain_id(value):
        raise wrong(
            f"{value[:80]!r} cannot be a name here.",
            "Use 1 to 64 of a-z, 0-9, '-', '_' and '.', the first a letter, digit or '_'.",
        )
    return value


def _entry_point(value: str) -> str:
    if not ENTRY_POINT.fullmatch(value):
        raise wrong(
            f"{value[:80]!r} is no entry point.", "Write 'module:function', for example 'metrics:f1'."
        )
    return value


def _text(value: str) -> str:
    if not value.strip() or any(ord(c) < 32 or ord(c) == 127 for c in value):
        raise wrong(f"{value[:80]!r} is empty or holds control characters.", "Write text on one line.")
    return value


def unique(values: tuple[Member, ...]) -> tuple[Member, ...]:
    """The same values; an error when one stands twice."""
    for place, value in enumerate(values):
        if value in values[:place]:
            raise wrong(f"{value!r} stands twice.", "Remove one of the two.")
    return values


def _count_at_least(least: int) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value == "all" or (whole and value >= least):
            return value
        raise wrong(f"{value!r} is no number of samples.", f"Write a whole number from {least} up, or 'all'.")

    return read


PlainId = Annotated[str, AfterValidator(_plain_id)]
EntryPoint = Annotated[str, AfterValidator(_entry_point)]
Text = Annotated[str, AfterValidator(_text)]
Path = Text
"""A path as it stands in the plan: absolute, or relative to the plan's folder. It may point anywhere."""
Texts = Annotated[tuple[Text, ...], AfterValidator(unique)]
Count = Annotated[int | Literal["all"], PlainValidator(_count_at_least(1))]
Positive = Annotated[float, Field(gt=0)]
Milliseconds = Annotated[int, Field(ge=0, le=3_600_000)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
