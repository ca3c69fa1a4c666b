"""What is said of a build's outputs. Templates as in sentences.py."""

from collections.abc import Mapping
from typing import Final

OUTPUT_FINDINGS: Final[Mapping[str, str]] = {
    "OUTPUT-CONSTANT": "Output {output} is {value:number} in all of {samples:count} samples; the source "
    "model's goes from {low:number} to {high:number}. The build says nothing: look at the calibration set "
    "and at where the diagnosis finds the cause.",
    "OUTPUT-UNCHANGING": "Output {output} is the same for each of {samples:count} samples; the source "
    "model's, which goes from {low:number} to {high:number}, changes by {change:number} on average. The "
    "build does not depend on its input: look at the calibration set, and at where the diagnosis finds the "
    "cause.",
    "OUTPUT-DEAD-CHANNELS": "Output {output} is dead in {count:count} of {of:count} slices of axis {axis} "
    "({slices}): over {samples:count} samples they keep {kept:percent} at most of the change that the source "
    "model's have. In an int8 build quantize weights per channel, or keep the layers before the "
    "output in float (`keep_float_names`); a float build was converted wrongly, or is of another model.",
    "OUTPUT-SCORES-CRUSHED": "Output {output} joins numbers of unlike size: slices {slices} of axis {axis} "
    "({count:count} of {of:count}) go from {low:number} to {high:number}, the largest spans "
    "{largest:number}. They share one scale[ of {scale:number}], which leaves, of {reference_levels:count} "
    "different values or more, {levels:count}. Give boxes and scores outputs of their own before quantizing, "
    "or keep the head in float (`keep_float_names`).",
    "OUTPUT-RAILED": "{share:percent} of the numbers of output {output} lie at the {end} that the build can "
    "give, {value:number}; the source model's go on to {reached:number}, and lie beyond by {excess:percent} "
    "of their span on average. Calibrate with samples like those of the evaluation set, or with `minmax`.",
}
