"""The text of a first plan, for `phoneproof init`. Whatever is guessed is a line marked CHECK THIS."""

import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import tomlkit

from phoneproof.errors import CommandLineError, PlanError
from phoneproof.plan.found_data import FoundData, find_data
from phoneproof.plan.model import Plan, from_effective
from phoneproof.plan.values import ENTRY_POINT, is_plain_id

_CHECK: Final = "# CHECK THIS: "


@dataclass(frozen=True)
class ModelTensor:
    """An input or output of a source model. shape: None where the model leaves a length open."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True)
class ModelFacts:
    """What a worker read out of a source model."""

    inputs: tuple[ModelTensor, ...]
    outputs: tuple[ModelTensor, ...]


_HEAD: Final = """\
# The plan of a phoneproof run. docs/plan.md in phoneproof's source describes every key.
# Paths start from the folder of this file."""


def initial_plan(model: Path, data: Path | None, facts: ModelFacts, folder: Path) -> str:
    """A commented plan for the source model at `model`, to be written into `folder`.

    It runs if `data` is given. Without `data` the sets stand in it as comments, and the preflight names what
    is missing.
    Raises CommandLineError for data that is no set phoneproof can read, that does not fit the model's inputs,
    or whose path cannot stand in a plan.
    """
    found = None if data is None else find_data(data, [one.name for one in facts.inputs])
    sections = [
        _HEAD,
        _models(model, facts, folder),
        _no_data(facts) if found is None else _data(found, facts, folder),
        _task(found, facts),
        _BUILDS,
        _DEVICES,
        _gates(found, facts),
        _BENCHMARK,
    ]
    text = "\n\n".join(sections) + "\n"
    _read_back(text, folder)
    return text


def _read_back(text: str, folder: Path) -> Plan:
    """The plan just written. An odd path is the only thing that can keep it from being read."""
    try:
        text.encode()
        return from_effective(tomllib.loads(text), folder)
    except (PlanError, ValueError) as error:
        what = f"A name among the model and the data cannot stand in a plan: {error}"
        raise CommandLineError(what, next_step="Rename the file or folder.") from None


def _models(model: Path, facts: ModelFacts, folder: Path) -> str:
    lines = [
        "[[models]]",
        f"name = {_toml(_plain_name(model.stem))}  # stands in the ids of its builds",
        f"source = {_toml(_path(model, folder))}",
        'format = "onnx"',
    ]
    described = [f"{one.name} {one.dtype} {_shape_text(one.shape)}" for one in facts.inputs]
    lines += [f"# Input: {_comment(text)}" for text in described]
    open_shapes = [one for one in facts.inputs if None in one.shape]
    if open_shapes:
        fixed = ", ".join(f"{_toml_key(one.name)} = {list(_fixed(one, facts))}" for one in open_shapes)
        lines += [
            f"{_CHECK}the model leaves lengths open, and builds have fixed ones. 1 for the batch, and",
            "# 224 for the sides of an image or 1 elsewhere, are only a beginning.",
            f"shapes = {{ {fixed} }}",
        ]
    return "\n".join(lines)


def _fixed(tensor: ModelTensor, facts: ModelFacts) -> tuple[int, ...]:
    layout = _layout(tensor)
    sides = {"nchw": (2, 3), "nhwc": (1, 2), None: ()}[layout]
    return tuple(n if n is not None else 224 if axis in sides else 1 for axis, n in enumerate(tensor.shape))


def _layout(tensor: ModelTensor) -> str | None:
    """nchw or nhwc by where 1 or 3 channels stand; None when the input does not look like an image."""
    if len(tensor.shape) != 4:
        return None
    if tensor.shape[1] in (1, 3):
        return "nchw"
    return "nhwc" if tensor.shape[3] in (1, 3) else None


_NO_DATA: Final = """\
[data]
# A calibration set gives the ranges of activations to static int8 builds; an evaluation set, which must not
# share samples with it, is what builds are judged on. Kinds: image_folder, csv, npz, npy, entry_point.
# calibration = { kind = "image_folder", path = "data/calibration" }
# evaluation = { kind = "image_folder", path = "data/evaluation" }"""


def _no_data(facts: ModelFacts) -> str:
    if len(facts.inputs) != 1 or _layout(facts.inputs[0]) is None:
        return _NO_DATA
    commented = [line if line.startswith("#") else f"# {line}" for line in _preprocess(facts.inputs[0])]
    return "\n".join([_NO_DATA, "", "# For images:", *commented])


def _data(found: FoundData, facts: ModelFacts, folder: Path) -> str:
    lines = ["[data]", *(f"# {_comment(said)}" for said in found.said)]
    for role, one in (("calibration", found.calibration), ("evaluation", found.evaluation)):
        keys = {
            key: _path(Path(str(value)), folder) if key == "path" else value for key, value in one.items()
        }
        lines.append(f"{role} = {{ {', '.join(f'{k} = {_toml(v)}' for k, v in keys.items())} }}")
    lines += [
        'samples = 500  # at most so many of the evaluation set; "all" for every one',
        "may_leave = false  # true lets the names of samples into the report",
    ]
    if found.images:
        lines += ["", *_preprocess(_only_image_input(facts))]
    return "\n".join(lines)


def _only_image_input(facts: ModelFacts) -> ModelTensor:
    inputs = facts.inputs
    if len(inputs) == 1 and _layout(inputs[0]) is not None:
        return inputs[0]
    said = "; ".join(f"{one.name} {_shape_text(one.shape)}" for one in inputs)
    raise CommandLineError(
        f"The data are images, and the model does not take one image: {_comment(said)}.",
        where="--data",
        next_step="Give an .npz with one array per input, or write an entry point into the plan.",
    )


def _preprocess(tensor: ModelTensor) -> list[str]:
    layout = _layout(tensor)
    channel, height, width = (1, 2, 3) if layout == "nchw" else (3, 1, 2)
    grey = tensor.shape[channel] == 1
    sides = {"width": tensor.shape[width] or 224, "height": tensor.shape[height] or 224}
    is_float = tensor.dtype.startswith("float")
    per_channel = "[0.0]" if grey else "[0.0, 0.0, 0.0]"
    ones = per_channel.replace("0.0", "1.0")
    size = f"width = {sides['width']}, height = {sides['height']}"
    resize = f'{size}, method = "stretch", interpolation = "bilinear"'
    lines = [
        "[data.preprocess]",
        f"{_CHECK}it must be what the model was trained with. A wrong mean or size costs accuracy in",
        "# every build alike, so no comparison shows it.",
        f'mode = "{"L" if grey else "RGB"}"',
        f'layout = "{layout}"',
        f"dtype = {_toml(tensor.dtype)}",
        '# Or method = "letterbox", or "shortest_side" with centre_crop = [height, width].',
        f"resize = {{ {resize} }}",
        'colour_order = "rgb"  # or "bgr"' if not grey else "# A grey image has no colour order.",
        "# value = (level * scale - mean) / std, for levels 0 to 255",
        f"scale = {1 / 255 if is_float else 1.0!r}{'  # levels become 0 to 1' if is_float else ''}",
        f"mean = {per_channel}",
        f"std = {ones}",
    ]
    if is_float and not grey:
        lines.append("# ImageNet in torchvision: mean = [0.485, 0.456, 0.406], std = [0.229, 0.224, 0.225]")
    return lines


def _scored(found: FoundData | None, facts: ModelFacts) -> bool:
    """Whether top-1 means something: as many classes in the data as numbers in the only output."""
    if found is None or found.classes is None or len(facts.outputs) != 1:
        return False
    shape = facts.outputs[0].shape
    return len(shape) == 2 and shape[1] == found.classes and found.classes > 1


def _task(found: FoundData | None, facts: ModelFacts) -> str:
    if found is not None and _scored(found, facts):
        metrics = '["top1", "top5"]' if (found.classes or 0) > 5 else '["top1"]'
        return "\n".join(
            [
                "[task]",
                f"{_CHECK}the data have {found.classes} classes and the output as many numbers.",
                "# Number i must belong to the i-th class in order of names; else set data.classes.",
                'kind = "classification"',
                f"metrics = {metrics}",
            ]
        )
    why = "# No metric: builds are compared with the source model by their outputs only."
    if found is not None and found.classes is not None:
        shapes = "; ".join(_shape_text(one.shape) for one in facts.outputs)
        why = f"# The data have {found.classes} classes, and the outputs are {shapes}: nothing is scored."
    return "\n".join(
        [
            "[task]",
            why,
            'kind = "other"',
            '# kind = "classification"',
            '# metrics = ["top1"]  # or your own function: "module:function"',
        ]
    )


_BUILDS: Final = """\
# The float baseline, onnx-float32, is added by itself.
[[builds]]
recipe = "onnx-int8"
# method = "minmax"  # or "entropy"; or "percentile" with percentile = 99.999
# per_channel = true
# keep_float_names = ["name_of_a_node"]  # operators left in float

# [[builds]]
# recipe = "onnx-int8-dynamic"  # needs no calibration set"""

_DEVICES: Final = """\
# Only devices that stand here are used.
[[devices]]
kind = "host"
threads = 1"""

_BENCHMARK: Final = """\
# [benchmark]
# rounds = 20  # interleaved rounds against the baseline; more rounds, narrower intervals"""


def _gates(found: FoundData | None, facts: ModelFacts) -> str:
    accuracy = "accuracy_drop_max = 0.01  # 0.01 is one point"
    return "\n".join(
        [
            "[gates]",
            "# A gate that is not set is not judged. outcomes (no crash) and parity_min_db have defaults.",
            accuracy if _scored(found, facts) else f"# {accuracy}; needs a metric in [task]",
            "# speedup_min = 1.2  # against the float baseline",
            "# size_ratio_max = 0.35  # size of the build / size of the baseline",
            "# latency_max_ms = 20.0",
        ]
    )


def _path(path: Path, folder: Path) -> str:
    """Relative when it lies below the plan's folder, else absolute."""
    absolute = Path(os.path.normpath(path.absolute()))
    base = Path(os.path.normpath(folder.absolute()))
    text = str(absolute.relative_to(base)) if absolute.is_relative_to(base) else str(absolute)
    return f"./{text}" if ENTRY_POINT.fullmatch(text) or text.startswith("~") else text


def _plain_name(stem: str) -> str:
    name = re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).strip("-.")[:64]
    return name if is_plain_id(name) else "model"


def _toml(value: str | int) -> str:
    return tomlkit.item(value).as_string()


def _toml_key(name: str) -> str:
    return tomlkit.key(name).as_string() if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _shape_text(shape: tuple[int | None, ...]) -> str:
    return "[" + ", ".join("?" if n is None else str(n) for n in shape) + "]"


def _comment(text: str) -> str:
    """Text that stays inside one comment line: names in models and data are the work of others."""
    return "".join(c if c.isprintable() else "?" for c in text)
