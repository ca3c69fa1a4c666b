"""Which operators a plan leaves in float: by name, by type or all; a name beats a type, a type beats all."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from phoneproof.errors import RecipeError
from phoneproof.recipes.table import RecipeOptions

_SHOWN: Final = 8


def wish(names: Sequence[str], types: Sequence[str], options: RecipeOptions) -> bool | None:
    """What the plan says of one operator: True for float, False for int8, None if it does not name it.

    names, types: all that the operator is called, the nearest first; the nearest that is named decides, and
    any name beats any type.
    """
    for called, kept, quantized in (
        (names, options.keep_float_names, options.quantize_names),
        (types, options.keep_float_types, options.quantize_types),
    ):
        for one in called:
            if one in kept:
                return True
            if one in quantized:
                return False
    return None


def is_kept_in_float(name: str, kind: str, options: RecipeOptions) -> bool:
    """Whether the plan keeps the operator `name` of type `kind` in float."""
    wanted = wish((name,), (kind,), options)
    return options.keep_float if wanted is None else wanted


def kept_in_float(types: Mapping[str, str], options: RecipeOptions) -> frozenset[str]:
    """Names of the operators that the plan keeps in float.

    types: type of each operator that can be quantized, by its name. RecipeError for a name or a type of the
    options that is not among them: vendors' tools ignore it silently.
    """
    refuse_unknown(types, set(types.values()), options)
    return frozenset(name for name, kind in types.items() if is_kept_in_float(name, kind, options))


def refuse_unknown(names: Iterable[str], types: Iterable[str], options: RecipeOptions) -> None:
    """RecipeError for a name or a type of the options that the source model does not have."""
    for unknown in unknown_words(names, types, options):
        raise RecipeError(unknown.what, where=unknown.key, next_step=unknown.next_step)


@dataclass(frozen=True)
class UnknownWord:
    """A name or type that a source model does not have. key: the option that holds it."""

    key: str
    word: str
    what: str
    next_step: str


def unknown_words(
    names: Iterable[str], types: Iterable[str], options: RecipeOptions
) -> Iterator[UnknownWord]:
    """Every name and type of the options that is not among these, with the nearest that are."""
    known = {"names": (sorted(names), "operator"), "types": (sorted(types), "operator type")}
    for ending, (choices, what) in known.items():
        for key in (f"keep_float_{ending}", f"quantize_{ending}"):
            for word in getattr(options, key):
                if word not in choices:
                    sentence = f"The source model has no {what} {word[:80]!r}."
                    yield UnknownWord(key, word, sentence, _nearest(word, choices))


def _nearest(word: str, choices: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, choices, n=3, cutoff=0.5)
    if near:
        return f"Near ones: {', '.join(map(repr, near))}."
    more = f" and {len(choices) - _SHOWN} more" if len(choices) > _SHOWN else ""
    return f"It has: {', '.join(map(repr, choices[:_SHOWN]))}{more}."
