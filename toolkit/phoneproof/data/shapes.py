"""What most likely went wrong where an array does not have the shape of an input."""

import math
from typing import Final

Shape = tuple[int, ...]

_USUAL: Final = "Give each sample in the input's shape without its batch dimension."


def shape_advice(given: Shape, wanted: Shape) -> str:
    """The next step for a sample of the shape `given` where the input takes `wanted`, both without batch."""
    ones_less = tuple(side for side in given if side != 1) == tuple(side for side in wanted if side != 1)
    if len(given) == len(wanted) == 3:
        if (given[2], *given[:2]) == wanted:
            return (
                "It is NHWC and the input NCHW: transpose each sample by (2, 0, 1), an array of all of them "
                "by array.transpose(0, 3, 1, 2); do not reshape it."
            )
        if (*given[1:], given[0]) == wanted:
            return (
                "It is NCHW and the input NHWC: transpose each sample by (1, 2, 0), an array of all of them "
                "by array.transpose(0, 2, 3, 1); do not reshape it."
            )
        if given[0] == wanted[0] or given[2] == wanted[2]:
            return "The size of the pictures differs: resize them, or declare [data.preprocess.resize]."
        if 3 in wanted and 1 in given:
            return "It is grey and the input takes colour: repeat its channel three times."
    if ones_less:
        return "Only axes of one element differ: reshape it to the input's shape."
    if len(given) == len(wanted) + 1 and given[1:] == wanted:
        return f"It holds {given[0]} samples at once: give them one by one, along the first axis of the set."
    if math.prod(given) == math.prod(wanted):
        return f"{_USUAL} The number of elements is right, so see how its axes are ordered before reshaping."
    return _USUAL
