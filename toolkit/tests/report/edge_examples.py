"""Facts of edge inputs, with a part of what is said of them."""

from collections.abc import Mapping
from typing import Any, Final

_INPUTS: Final = {"count": 2, "inputs": ("black", "nan")}

EDGE_REASONS: Final[Mapping[str, tuple[dict[str, Any], str]]] = {
    "edge_passed": ({}, "As the source model"),
    "edge_survived": ({}, "neither crashed nor hung"),
    "edge_out_of_range": (
        {"float_gives": "numbers from 1 to 2", "build_gives": "3 of 4 numbers not finite"},
        "float gives numbers from 1 to 2, the build 3 of 4 numbers not finite.",
    ),
    "edge_crashed": ({"cause": "signal 11"}, "It crashed: signal 11."),
    "edge_hung": ({}, "did not come to an end"),
    "edge_out_of_memory": ({}, "ran out of memory."),
    "edge_refused": ({"error": "RuntimeError: bad index"}, "an error: RuntimeError: bad index."),
    "edge_nonfinite": ({"output": "y", "numbers": 3, "of": 10}, "3 of 10 numbers of output y are not finite"),
    "edge_constant": (
        {"output": "y", "value": 0.5, "spread": 4.0, "error": 0.25},
        "Output y is 0.500 throughout; the source model's numbers lie 4.00 apart",
    ),
    "edge_railed": (
        {"output": "y", "lowest": -1.0, "highest": 1.0, "apart": 0.75, "error": 0.5},
        "an end of its quantized range, \N{MINUS SIGN}1.00 or 1.00, up to 0.750 from the source model's",
    ),
    "edge_flipped": (
        {"output": "y", "reference": 3, "build": 1, "margin": 4.0, "error": 0.5, "samples": 20},
        "Another first class in output y: 1 for 3, which leads by 4",
    ),
    "edge_flipped_beyond": (
        {"output": "y", "reference": 3, "build": 1, "margin": 4.0, "reached": 18.0, "peak": 7.0},
        "scores reach 18.0 there, and 7.00 on the evaluation set",
    ),
    "edge_reference_nonfinite": ({"output": "y"}, "The source model's own output y is not finite there"),
    "edge_not_compared": ({"why": "reference_hung"}, "judge it by: the source model did not come to an end."),
    "edge_not_run": ({"cause": "bad_samples"}, "It was not run: bad_samples."),
    "edge_failed": ({"failed": 1, "total": 22, "inputs": ("black",)}, "1 of 22 edge inputs failed: black."),
    "edge_undecided": ({"open": 1, "total": 22, "inputs": ("black",)}, "1 of 22 edge inputs are not decided"),
}

EDGE_FINDINGS: Final[Mapping[str, tuple[dict[str, Any], str]]] = {
    "EDGE-BEYOND-DATA": (_INPUTS, "On 2 edge inputs the source model's scores go far beyond all"),
    "EDGE-CONSTANT": (
        _INPUTS,
        "ends of its range, on 2 edge inputs where the source model does not: black, nan.",
    ),
    "EDGE-CRASH": ({**_INPUTS, "causes": ("signal 11",)}, "on 2 edge inputs: black, nan; signal 11."),
    "EDGE-ERROR": ({**_INPUTS, "causes": ("RuntimeError: no",)}, "black, nan; RuntimeError: no."),
    "EDGE-FLIPPED": (_INPUTS, "another class on 2 edge inputs where the source model is sure: black, nan."),
    "EDGE-NONFINITE": (_INPUTS, "where the source model does not: black, nan."),
    "EDGE-OUT-OF-RANGE": ({"count": 1, "inputs": ("huge: float gives 1",)}, "On 1 edge inputs: huge: float"),
    "EDGE-REFERENCE": (
        {"count": 1, "inputs": ("black: crashed",)},
        "has no answer to 1 edge inputs: black: crashed.",
    ),
    "EDGE-REFUSED": (
        {"count": 1, "inputs": ("alpha: partly transparent",)},
        "as the app must: alpha: partly",
    ),
    "EDGE-VOCABULARY-GUESSED": (
        {"inputs": ("out_of_vocabulary",)},
        "out_of_vocabulary holds the greatest id",
    ),
}
