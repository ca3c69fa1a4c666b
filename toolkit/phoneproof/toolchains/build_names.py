"""Which input and output of a build made elsewhere is which of its source model's: never guessed.

Names that are equal count, then names that the plan gives, then what dtype and shape leave only one choice
for. Anything else is an error that lists both sides.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from phoneproof.errors import RecipeError
from phoneproof.protocol.tensors import TensorSpec

OPEN: Final = -1
"""A length that the file leaves open and the runtime takes from the input."""

_NHWC_OF_NCHW: Final = (0, 2, 3, 1)
_NCHW_OF_NHWC: Final = (0, 3, 1, 2)


@dataclass(frozen=True)
class Named:
    """Inputs or outputs of a build with their lengths fixed, and the source's name of each."""

    tensors: tuple[TensorSpec, ...]
    source_names: Mapping[str, str]


def named(
    build: Sequence[TensorSpec], source: Sequence[TensorSpec], names: Mapping[str, str], role: str, place: str
) -> Named:
    """Each tensor of the build with its partner in the source.

    build: shapes may have OPEN, which takes the source's length. names: the plan's, build name to source
    name, of inputs and outputs both. role: `input` or `output`. RecipeError where a partner is missing, has
    another dtype or shape, or there is more than one choice.
    """
    if len(build) != len(source):
        raise _refusal(
            f"The build has {len(build)} {role}s, the source model {len(source)}", build, source, role, place
        )
    found = _by_name(build, source, names)
    rest = [one for one in build if one.name not in found]
    free = [one for one in source if one.name not in found.values()]
    for one in rest:
        partners = [other for other in free if _fitted(one, other) is not None]
        mutual = [other for other in rest if partners and _fitted(other, partners[0]) is not None]
        if len(partners) != 1 or len(mutual) != 1:
            count = "no" if not partners else "more than one"
            what = f"For the build's {role} {one.name!r} there is {count} possible {role} of the source model"
            raise _refusal(what, build, source, role, place)
        found[one.name] = partners[0].name
    by_name = {one.name: one for one in source}
    tensors = []
    for one in build:
        fitted = _fitted(one, by_name[found[one.name]])
        if fitted is None:
            what = f"The build's {role} {one.name!r} has another dtype or shape than {found[one.name]!r}"
            raise _refusal(what, build, source, role, place)
        tensors.append(fitted)
    return Named(tuple(tensors), {key: value for key, value in found.items() if key != value})


def check_names(
    names: Mapping[str, str], build: Sequence[TensorSpec], source: Sequence[TensorSpec], place: str
) -> None:
    """RecipeError for a name of the plan that neither side has, or a source name given twice."""
    sides = (("build", names, build), ("source model", names.values(), source))
    for side, given, tensors in sides:
        known = [one.name for one in tensors]
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
                listed = ", ".join(repr(one) for one in near or known[:8])
                raise RecipeError(
                    f"The {side} has no input or output {name[:80]!r}.",
                    where=f"{place}: names",
                    next_step=f"{'Near ones' if near else 'It has'}: {listed}.",
                )
    twice = sorted({name for name in names.values() if list(names.values()).count(name) > 1})
    if twice:
        raise RecipeError(
            f"Two names of the build stand for the source model's {twice[0]!r}.",
            where=f"{place}: names",
            next_step="Give each its own.",
        )


def _by_name(
    build: Sequence[TensorSpec], source: Sequence[TensorSpec], names: Mapping[str, str]
) -> dict[str, str]:
    """The plan's names first, so that they may say otherwise than names that happen to be equal."""
    known = {one.name for one in source}
    found = {one.name: names[one.name] for one in build if names.get(one.name) in known}
    taken = set(found.values())
    for one in build:
        if one.name not in found and one.name in known and one.name not in taken:
            found[one.name] = one.name
    return found


def _fitted(one: TensorSpec, other: TensorSpec) -> TensorSpec | None:
    """`one` with the source's lengths where they are open, or None where it cannot be the same tensor.

    The shapes are equal, or one is the other with its channels moved (NCHW and NHWC); with open lengths both
    could be, and then the source's own order counts.
    """
    if _kind(one) != _kind(other):
        return None
    candidates = [other.shape]
    if len(other.shape) == 4:
        orders = (_NHWC_OF_NCHW, _NCHW_OF_NHWC)
        candidates += [tuple(other.shape[axis] for axis in order) for order in orders]
    for shape in candidates:
        if len(shape) == len(one.shape) and all(
            length in (OPEN, known) for length, known in zip(one.shape, shape, strict=True)
        ):
            return replace(one, shape=shape)
    return None


def _kind(tensor: TensorSpec) -> str:
    """Real numbers, integers or booleans: quantized integers stand for real numbers."""
    if tensor.dtype == "bool":
        return "bool"
    return "real" if tensor.dtype.startswith("float") or tensor.scale is not None else "integer"


def _refusal(
    what: str, build: Sequence[TensorSpec], source: Sequence[TensorSpec], role: str, place: str
) -> RecipeError:
    example = next((one.name for one in build if one.name not in {s.name for s in source}), build[0].name)
    partner = source[0].name if source else "name"
    step = f'Write names = {{ "{example}" = "{partner}" }} in the build, with the right pairs.'
    if len(build) != len(source):
        step = f"Convert a model with the same {role}s as the source model."
    return RecipeError(
        f"{what}. The build has {_listed(build)}; the source model has {_listed(source)}.",
        where=place,
        next_step=step,
    )


def _listed(tensors: Sequence[TensorSpec]) -> str:
    return ", ".join(f"{one.name!r} {one.dtype} {list(one.shape)}" for one in tensors) or "none"
