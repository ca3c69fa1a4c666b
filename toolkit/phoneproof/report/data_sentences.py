"""What the checks of calibration and evaluation sets say; each sentence ends with what to do next."""

from collections.abc import Mapping
from typing import Final

DATA_FINDINGS: Final[Mapping[str, str]] = {
    "DATA-BORDERS": "{calibration_share:percent} of the calibration images[ of the input {input}] have "
    "borders of one colour, and {evaluation_share:percent} of the evaluation images[; the borders take "
    "{border:percent} of the side]. Letterbox, crop or stretch both sets in the same way.",
    "DATA-BROKEN-FILE": "{broken:count} of {total:count} files could not be read and were left out[; "
    "for example {examples}]. Mend or remove them.",
    "DATA-CALIBRATION-FEW": "{samples:count} calibration samples are few: the ranges may be too "
    "narrow; {advised:count} are advised. Add samples like those of the app.",
    "DATA-CALIBRATION-TOO-FEW": "{samples:count} calibration samples are too few to estimate ranges; "
    "at least {least:count} are needed. Add samples like those of the app.",
    "DATA-COLOUR-ORDER": "Red and blue of the calibration images look swapped: {distance:number} standard "
    "errors lie between their colours and the evaluation set's, {distance_swapped:number} after a swap[; the "
    "first channel's mean is {calibration_first:number} and the third's {calibration_third:number}, there "
    "{evaluation_first:number} and {evaluation_third:number}][; input {input}]. Write both sets in RGB, and "
    "say in colour_order what the model takes.",
    "DATA-CONSTANT": "{samples:count} of {total:count} samples[ ({fraction:percent})] have one value "
    "throughout[, {nearly:count} of them nearly so][; for example {examples}]. Look at them and take them "
    "out.",
    "DATA-DUPLICATES": "{samples:count} of {total:count} calibration samples[ ({fraction:percent})] are "
    "copies of others, which leaves {distinct:count}[; for example {examples}]. Replace the copies by "
    "other samples.",
    "DATA-LAYOUT": "The arrays of the input {input} have the shape of {given}, and read as {found} "
    "neighbours differ only {roughness:percent} as much: they were reshaped where they should have been "
    "transposed. Transpose them: array.transpose(0, 3, 1, 2) makes NCHW of NHWC, (0, 2, 3, 1) NHWC of NCHW.",
    "DATA-NEAR-DUPLICATES": "{samples:count} of {total:count} calibration images[ ({fraction:percent})] "
    "nearly equal another, like frames of one video, which leaves {distinct:count}[; for example "
    "{examples}]. Take frames farther apart, or from more videos.",
    "DATA-NEAR-OVERLAP": "{samples:count} of {total:count} calibration images[ ({fraction:percent})] nearly "
    "equal one of {compared:count} evaluation images, so accuracy may look better than it is[; for example "
    "{examples}]. Part the sets by scene or recording, not picture by picture.",
    "DATA-NOISE": "{samples:count} of {total:count} calibration samples[ ({fraction:percent})] look like "
    "random noise: neighbours correlate by {likeness:number} at most[; for example {examples}]. Calibrate "
    "with real samples.",
    "DATA-NONFINITE": "{samples:count} of {total:count} samples[ ({fraction:percent})] hold values "
    "that are not finite[; for example {examples}]. Mend what writes the arrays.",
    "DATA-NORMALISATION": "The calibration values of the input {input} {why:why}: they go from "
    "{calibration_low:number} to {calibration_high:number}[, those of the evaluation set from "
    "{evaluation_low:number} to {evaluation_high:number}]. Do to both sets what the model was trained with, "
    "once.",
    "DATA-ONE-CLASS": "All {samples:count} calibration samples are of one class[, {examples}], of "
    "{classes:count}. Take samples of every class.",
    "DATA-OVERLAP": "{samples:count} of {total:count} calibration samples[ ({fraction:percent})] are "
    "in the evaluation set too, so accuracy may look better than it is[; for example {examples}]. Part the "
    "sets, for instance by skip and take.",
    "DATA-RANGE": "The values of the input {input}[, channel {channel:count},] spread over {ratio:times} "
    "the range of the evaluation set's: {calibration_low:number} to {calibration_high:number}, there "
    "{evaluation_low:number} to {evaluation_high:number}. Preprocess both sets alike, and take samples of "
    "the whole range.",
    "DATA-STATISTICS": "The mean of the input {input}[, channel {channel:count},] is "
    "{calibration_mean:number} in the calibration set and {evaluation_mean:number} in the evaluation set, "
    "{effect:number} standard deviations of the samples apart. See that both come from the same place, and "
    "are preprocessed alike.",
    "DATA-UNBALANCED": "{misplaced:percent} of the calibration samples would have to be of other classes; "
    "chance explains {chance:percent}. The largest class has {largest_share:percent} of the samples[, in the "
    "evaluation set {evaluation_share:percent}][, equal shares are {equal_share:percent}], and "
    "{missing:count} of {classes:count} classes are missing. Draw the samples evenly.",
}

DATA_WHYS: Final[Mapping[str, str]] = {
    "divided_by_255_again": "look divided by 255 once too often",
    "not_divided_by_255": "look not divided by 255",
    "pixels_not_normalised": "look like pixels from 0 to 255 that were not normalised",
    "scaled_around_zero_again": "look scaled by x / 127.5 - 1 once too often",
    "not_scaled_around_zero": "look not scaled by x / 127.5 - 1",
    "imagenet_normalised_again": "look normalised with ImageNet's mean and std once too often",
    "not_imagenet_normalised": "look not normalised with ImageNet's mean and std",
    "pixels_not_imagenet_normalised": "look like pixels, neither divided by 255 nor normalised with "
    "ImageNet's mean and std",
    "mean_subtracted_again": "look as if ImageNet's mean pixel was subtracted once too often",
    "mean_not_subtracted": "look as if ImageNet's mean pixel was not subtracted",
    "divided_by_32768_again": "look divided by 32768 once too often",
    "not_divided_by_32768": "look like 16-bit sound that was not divided by 32768",
}
"""What a step of scaling did to values: the subject stands before."""
