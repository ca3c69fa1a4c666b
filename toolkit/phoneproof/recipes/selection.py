"""Which operators a plan leaves in float: by name, by type or all; a name beats a type, a type beats all."""

import difflib
from collections.abc import Iterable, Mapping

from phoneproof.errors import RecipeError
from phoneproof.recipes.table import RecipeOptions


def is_kept_in_float(name: str, kind: str, options: RecipeOptions) -> bool:
    """Whether the plan keeps the operator `name` of type `kind` in float."""
    if name in options.keep_float_names:
        return True
    if name in options.quantize_names:
        return False
    if kind in options.keep_float_types:
        return True
    if kind in options.quantize_types:
        return False
    return options.keep_float


def kept_in_float(types: Mapping[str, str], options: RecipeOptions) -> frozenset[str]:
    """Names of the operators that the plan keeps in float.

    types: type of each operator that can be quantized, by its name. RecipeError for a name or a type of the
    options that is not among them: vendors' tools ignore it silently.
    """
    for key in ("keep_float_names", "quantize_names"):
        _refuse_unknown(getattr(options, key), types, key, "operator")
    for key in ("keep_float_types", "quantize_types"):
        _refuse_unknown(getattr(options, key), set(types.values()), key, "operator type")
    return frozenset(name for name, kind in types.items() if is_kept_in_float(name, kind, options))


def _refuse_unknown(names: Iterable[str], known: Iterable[str], key: str, what: str) -> None:
    choices = sorted(known)
    for name in names:
        if name not in choices:
            near = difflib.get_close_matches(name, choices, n=3, cutoff=0.5)
            listed = ", ".join(repr(choice) for choice in near or choices[:8])
            raise RecipeError(
                f"The source model has no {what} {name[:80]!r}.",
                where=key,
                next_step=f"{'Near ones' if near else 'It has'}: {listed}.",
            )
