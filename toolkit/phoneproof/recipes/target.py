"""What a build needs against what a plan says that the device has."""

from collections.abc import Iterator

from phoneproof.recipes.table import TargetFloor
from phoneproof.recipes.toolchain_table import release


def shortfalls(floor: TargetFloor, target: TargetFloor) -> Iterator[tuple[str, int | str, int | str]]:
    """Field, what is needed and what is there, for each field in which the target has less than the floor.

    Where either is None it says nothing.
    """
    for key in TargetFloor.__dataclass_fields__:
        needs, has = getattr(floor, key), getattr(target, key)
        if needs is not None and has is not None and _order(has) < _order(needs):
            yield key, needs, has


def _order(value: int | str) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else release(value.removeprefix("iOS"))
