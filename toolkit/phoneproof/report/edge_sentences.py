"""What is said of edge inputs. Templates as in sentences.py."""

from collections.abc import Mapping
from typing import Final

EDGE_REASONS: Final[Mapping[str, str]] = {
    "edge_passed": "As the source model, within the build's error on the evaluation set.",
    "edge_survived": "It neither crashed nor hung; NaN and infinities have no right answer.",
    "edge_out_of_range": "Beyond the data, so nothing is asked but an end: float gives {float_gives}, the "
    "build {build_gives}[; the same first class: {same_first_class}].",
    "edge_crashed": "It crashed[: {cause}][: {error}].",
    "edge_hung": "It did not come to an end in the time that the plan gives a sample.",
    "edge_out_of_memory": "It ran out of memory[: {error}].",
    "edge_refused": "The runtime raised an error[: {error}][: {cause}].",
    "edge_nonfinite": "{numbers:count} of {of:count} numbers of output {output} are not finite; the source "
    "model's are.",
    "edge_constant": "Output {output} is {value:number} throughout; the source model's numbers lie "
    "{spread:number} apart, and the build errs by {error:number} at most on the evaluation set.",
    "edge_railed": "Every number of output {output} is at an end of its quantized range, {lowest:number} or "
    "{highest:number}, up to {apart:number} from the source model's; {error:number} is its greatest error on "
    "the evaluation set.",
    "edge_flipped": "Another first class in output {output}: {build} for {reference}, which leads by "
    "{margin:number} in the source model; it takes two errors to turn that, and on {samples:count} samples "
    "of the evaluation set none was above {error:number}.",
    "edge_flipped_beyond": "Another first class in output {output}: {build} for {reference}, which leads by "
    "{margin:number}. But the source model's scores reach {reached:number} there, and {peak:number} on the "
    "evaluation set: how far the build errs beyond is not known.",
    "edge_reference_nonfinite": "The source model's own output {output} is not finite there, so nothing is "
    "asked of the build but an end.",
    "edge_not_compared": "It came to an end, but there is nothing to judge it by: {why:why}[ (output "
    "{output})].",
    "edge_not_run": "It was not run[: {cause}].",
    "edge_failed": "{failed:count} of {total:count} edge inputs failed: {inputs}.",
    "edge_undecided": "{open:count} of {total:count} edge inputs are not decided: {inputs}.",
}

EDGE_WHYS: Final[Mapping[str, str]] = {
    "no_error_measured": "the build's error on the evaluation set is not known",
    "outputs_differ": "the outputs differ in form from the source model's",
    "outputs_lost": "the case ended before its outputs were written",
    "not_held": "the build's integer inputs hold no such values",
    "reference_raised": "the source model raised an error",
    "reference_crashed": "the source model crashed",
    "reference_hung": "the source model did not come to an end",
    "reference_out_of_memory": "the source model ran out of memory",
    "reference_lost": "the source model's output was lost",
}

EDGE_FINDINGS: Final[Mapping[str, str]] = {
    "EDGE-CRASH": "It crashes, hangs or runs out of memory on {count:count} edge inputs: {inputs}[; {causes}]"
    ". `phoneproof rerun` repeats one with its log; keep such inputs from the build, or take another recipe"
    "[; the source model ends so too on {alike}: no recipe mends that, but the model can be].",
    "EDGE-ERROR": "The runtime raises an error on {count:count} edge inputs that data can hold: "
    "{inputs}[; {causes}]. Catch it in the app, or mend the operator that it names.",
    "EDGE-NONFINITE": "It gives NaN or an infinity on {count:count} edge inputs where the source model does "
    "not: {inputs}. Look for a sum or square that overflows its narrower type, and keep that layer in float.",
    "EDGE-BEYOND-DATA": "On {count:count} edge inputs the source model's scores go far beyond all on "
    "the evaluation set, and the build answers with another class: {inputs}. If the app meets such inputs, "
    "put some into the calibration and evaluation sets.",
    "EDGE-CONSTANT": "It gives the same numbers throughout, or the ends of its range, on {count:count} edge "
    "inputs where the source model does not: {inputs}. The ranges are too narrow there: put such samples "
    "into the calibration set.",
    "EDGE-FLIPPED": "It answers with another class on {count:count} edge inputs where the source model is "
    "sure: {inputs}. Put such samples into the calibration set, or keep the last layers in float.",
    "EDGE-OUT-OF-RANGE": "Beyond the data it need not agree with the source model. On {count:count} edge "
    "inputs: {inputs}. Check the app's inputs before the build, if they can be so.",
    "EDGE-REFERENCE": "The source model itself has no answer to {count:count} edge inputs: {inputs}. "
    "Builds of it are not compared there; check the app's inputs, or mend the model.",
    "EDGE-REFUSED": "The preprocess refuses {count:count} edge inputs, as the app must: {inputs}. Change "
    "the plan's preprocess if the app takes such files.",
    "EDGE-VOCABULARY-GUESSED": "The size of the vocabulary is not known, so {inputs} holds the greatest id "
    "in the data and one, which may be a good id. Set vocabulary in the plan's "
    "edge section.",
}
