"""From the class names that a set holds to class indices, without a guess."""

from collections.abc import Sequence

from phoneproof.data.declared import suggestion
from phoneproof.errors import DataError


def class_order(found: Sequence[str], classes: tuple[str, ...] | None, where: str) -> tuple[str, ...]:
    """The class names in order of their index: `classes` as given, else `found` (different names) sorted.

    Raises DataError for a found name that `classes` lacks, and without `classes` for names that are all
    whole numbers whose order as text is not their order as numbers: folder 10 sorts before folder 2, so
    what index the model means cannot be told.
    """
    if classes is not None:
        for name in found:
            if name not in classes:
                raise DataError(
                    f"The class {name!r} is not in the plan's classes.",
                    where=where,
                    next_step=suggestion(name, classes),
                )
        return classes
    ordered = tuple(sorted(found))
    if all(is_whole_number(name) for name in ordered) and list(ordered) != sorted(ordered, key=int):
        raise DataError(
            "The class names are numbers whose order as text (10 before 2) is not their order as numbers.",
            where=where,
            next_step="Set classes to the list of names in the order of the model's outputs.",
        )
    return ordered


def index_labels(
    texts: Sequence[str], classes: tuple[str, ...] | None, where: str
) -> tuple[list[int], tuple[str, ...] | None]:
    """(class index of each text, class names). Without `classes`, texts that are all whole numbers are the
    indices themselves and there are no names."""
    if classes is None and all(is_whole_number(text) for text in texts):
        return [int(text) for text in texts], None
    names = class_order(tuple(dict.fromkeys(texts)), classes, where)
    index = {name: position for position, name in enumerate(names)}
    return [index[text] for text in texts], names


def is_whole_number(text: str) -> bool:
    """Whether `text` is ASCII digits only."""
    return text.isascii() and text.isdigit()
