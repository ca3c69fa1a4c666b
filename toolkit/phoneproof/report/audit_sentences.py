"""What the audit of a source model says: its findings, its advice, and what to do about a loss."""

from collections.abc import Mapping
from typing import Final

AUDIT_REASONS: Final[Mapping[str, str]] = {
    "advice_convolutional": "{share:percent} of the weights are in convolutions: static int8, weights per "
    "channel, computes in integers on CPUs and NPUs. Begin with minmax; if accuracy falls, try entropy "
    "before percentile, when time allows.",
    "advice_plain": "Nothing speaks against static int8, weights per channel; {share:percent} of the weights "
    "are in convolutions. Begin with minmax; if accuracy falls, try entropy before percentile, when time "
    "allows.",
    "advice_text": "It looks up {vocabulary:count} rows of an embedding, so it reads text or other symbols: "
    "ranges of activations depend on the input, and a dynamic recipe takes them at run time.",
    "advice_recurrent": "It has recurrent layers ({operators}, {count:count} in all): errors add up over the "
    "steps, so keep activations out of fixed ranges.",
    "advice_generative": "It writes sequences ({evidence}): each step reads what came before, errors add up, "
    "and the time goes into reading weights. Store the weights in int8 or float16 and compute in float.",
    "advice_normalising": "{share:percent} of the operators that matter are normalisations ({operators}), "
    "which int8 hurts most: quantize weights only, or activations at run time.",
    "advice_without_data": "There is no calibration set, and a static recipe would guess the ranges: this "
    "one needs none. With 100 to 500 samples like those of the app, try a static one.",
    "advice_older_iphones": "For iPhones before A17 Pro, whose Neural Engines have no int8 arithmetic: the "
    "same size, activations in float16.",
    "advice_float16": "For GPUs, and on iPhones the Neural Engine, which compute in float16. Not for CPUs: "
    "they widen the weights again, and nothing gets faster.",
    "loss_small": "{drop:drop} lost: try another calibration method (entropy before percentile) and "
    "per_channel = true before anything else.",
    "loss_layers": "{drop:drop} lost: keep the most sensitive layers in float by keep_float_names; the first "
    "and the last are the usual ones.",
    "loss_calibration": "{drop:drop} lost: mend the calibration set first[ ({findings})]; then look for "
    "sensitive layers and keep them in float by keep_float_names; if that is not enough, train with "
    "quantization (QAT).",
}

AUDIT_FINDINGS: Final[Mapping[str, str]] = {
    "MODEL-SMALL": "It is too small to gain: {weights:count} weights and {multiplications:count} "
    "multiplications, where networks below {least_weights:count} and {least_multiplications:count} get "
    "neither much smaller nor faster in int8. Ship it in float unless measurements say otherwise.",
    "MODEL-GENERATIVE": "It looks generative ({evidence}), and such models lose most in static int8. Take a "
    "recipe that quantizes weights only or is dynamic, and judge whole sequences, not single steps.",
    "MODEL-NORMALISATION-HEAVY": "{count:count} normalisations ({operators}) against {weighing:count} "
    "convolutions and matrix products, {share:percent}: int8 hurts these most and speeds them least. Try a "
    "dynamic recipe or weights only beside the static one.",
    "MODEL-DYNAMIC-SHAPES": "It leaves lengths open that its builds fix: {axes}. For other lengths make a "
    "build for each, or pad the input.",
}
