"""Words for the closed sets of a report: verdicts, outcomes, causes and the like.

Each table has one entry for each member of its Literal; a test keeps them in step.
"""

from collections.abc import Mapping
from typing import Final

from phoneproof.builds.manifest import FloatReason
from phoneproof.devices.device import DeviceKind
from phoneproof.findings import Severity
from phoneproof.protocol.attempts import Outcome
from phoneproof.recipes.table import Format
from phoneproof.report.audited import Doubt
from phoneproof.report.edge import EdgeRange
from phoneproof.report.model import Platform, Speed, Validity
from phoneproof.verify.diagnosis import Cause, LegName, LegState
from phoneproof.verify.verdicts import GateId, Verdict

VERDICTS: Final[Mapping[Verdict, str]] = {"pass": "Pass", "fail": "Fail", "inconclusive": "Inconclusive"}

OUTCOMES: Final[Mapping[Outcome, str]] = {
    "passed": "passed",
    "failed": "failed",
    "crashed": "crashed",
    "killed_low_memory": "killed for lack of memory",
    "timed_out": "timed out",
    "device_lost": "ended because the device was lost",
    "not_run": "not run",
}

GATES: Final[Mapping[GateId, str]] = {
    "outcomes": "Outcomes",
    "fallback": "Fallback",
    "parity": "Parity",
    "edge": "Edge inputs",
    "accuracy": "Accuracy",
    "speed": "Speed",
    "latency": "Latency",
    "size": "Size",
}

SPEEDS: Final[Mapping[Speed, str]] = {
    "faster": "faster",
    "slower": "slower",
    "no_difference": "no measurable difference",
    "too_noisy": "too noisy to tell",
}

PLATFORMS: Final[Mapping[Platform, str]] = {"android": "Android", "ios": "iOS", "host": "the host"}

FORMATS: Final[Mapping[Format, str]] = {
    Format.TFLITE: "TFLite",
    Format.COREML: "Core ML",
    Format.EXECUTORCH: "ExecuTorch",
    Format.ONNX: "ONNX",
    Format.TORCHSCRIPT: "TorchScript",
}

OTHER_FORMAT: Final = "Other"

EDGE_RANGES: Final[Mapping[EdgeRange, str]] = {
    "in_range": "in range",
    "out_of_range": "out of range",
    "not_finite": "not finite",
}

DOUBTS: Final[Mapping[Doubt, str]] = {"absent": "no kernel", "refused": "refused"}

SHORT_OUTCOMES: Final[Mapping[Outcome, str]] = {
    "passed": "ran",
    "failed": "error",
    "crashed": "crash",
    "killed_low_memory": "memory",
    "timed_out": "hang",
    "device_lost": "lost",
    "not_run": "not run",
}
"""Outcomes where there is room for a word only."""

VALIDITIES: Final[Mapping[Validity, str]] = {"VALID": "valid", "INVALID": "not valid"}

DEVICE_KINDS: Final[Mapping[DeviceKind, str]] = {
    "host": "host",
    "phone": "phone",
    "browser": "browser",
    "simulated": "simulated",
    "replay": "replay of a recording",
    "farm": "device farm",
}

CAUSES: Final[Mapping[Cause, str]] = {
    "none": "Every step that was measured agrees with the source model.",
    "conversion": "The float build already differs from the source model: conversion is the cause.",
    "quantization": "The float build agrees with the source model, the quantized one does not: "
    "quantization is the cause.",
    "runtime_or_device": "The quantized build is right on the host but not on the device's CPU: the "
    "device or its runtime is the cause.",
    "accelerator": "The build is right on the device's CPU but not on its accelerator: the "
    "accelerator is the cause.",
    "not_separable": "A step that matters was not measured, so the cause cannot be told.",
}

SHORT_CAUSES: Final[Mapping[Cause, str]] = {
    "none": "No fault",
    "conversion": "Conversion",
    "quantization": "Quantization",
    "runtime_or_device": "Runtime or device",
    "accelerator": "Accelerator",
    "not_separable": "Not separable",
}

LEGS: Final[Mapping[LegName, str]] = {
    "source_host": "Source model, host",
    "float_host": "Float build, host",
    "quantized_host": "Quantized build, host",
    "device_cpu": "Quantized build, device CPU",
    "device_accelerator": "Quantized build, device accelerator",
}

LEG_STATES: Final[Mapping[LegState, str]] = {
    "agrees": "agrees",
    "disagrees": "disagrees",
    "missing": "not measured",
}

SEVERITIES: Final[Mapping[Severity, str]] = {
    Severity.INFO: "Note",
    Severity.WARNING: "Warning",
    Severity.SEVERE: "Severe",
}

FLOAT_REASONS: Final[Mapping[FloatReason, str]] = {
    "kept_by_plan": "the plan keeps it in float",
    "not_quantizable": "the toolchain cannot quantize it",
    "inputs_not_quantized": "its inputs are not quantized",
    "outputs_not_quantized": "what comes after it is not quantized",
    "data_movement": "it only moves data",
    "unsafe_to_quantize": "the toolchain's quantizer would change what it computes",
    "unsupported_by_recipe": "the recipe quantizes no operators of its type",
    "too_small": "its weights are too few to be worth it",
    "as_made": "it was made so elsewhere",
}


def format_name(form: Format | None) -> str:
    """What a format is called; one that is not known counts as other."""
    return OTHER_FORMAT if form is None else FORMATS[form]


def platform_name(platform: Platform) -> str:
    """A platform where it begins a line: `The host`; `iOS` stays as it is."""
    word = PLATFORMS[platform]
    return word[:1].upper() + word[1:] if word.islower() else word
