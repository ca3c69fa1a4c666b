"""The text of a first plan, for `phoneproof init`. Whatever is guessed is a line marked CHECK THIS."""

import math
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import tomlkit

from phoneproof.errors import CommandLineError, PlanError
from phoneproof.plan.found_data import FoundData, find_data
from phoneproof.plan.initial_builds import initial_builds
from phoneproof.plan.model import Plan, from_effective
from phoneproof.plan.values import ENTRY_POINT, is_plain_id
from phoneproof.recipes.table import SourceFormat

_CHECK: Final = "# CHECK THIS: "
_MOST_SAMPLES: Final = 500
_Z_SQUARED: Final = 1.959964**2
_MOST_POINTS: Final = 5
"""A wider limit on the drop of accuracy would pass builds that nobody wants."""


@dataclass(frozen=True)
class ModelTensor:
    """An input or output of a source model. shape: None where the model leaves a length open."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True)
class ModelFacts:
    """Inputs and outputs of a source model: read by a worker, or assumed for a Python function."""

    inputs: tuple[ModelTensor, ...]
    outputs: tuple[ModelTensor, ...]


_USUAL_IMAGE: Final = ModelTensor("image", "float32", (1, 3, 224, 224))

_HEAD: Final = """\
# The plan of a phoneproof run. docs/plan.md in phoneproof's source describes every key.
# Paths start from the folder of this file."""


def initial_plan(
    model: str, form: SourceFormat, data: Path | None, facts: ModelFacts | None, folder: Path
) -> str:
    """A commented plan for a source model, to be written into `folder`.

    model: path, or `module:function` of a PyTorch source. facts: None for a PyTorch source: nothing is known
    of a function until it is run, so its inputs stand in the plan as a comment, which must be filled in.
    Else the plan runs if `data` is given. Without `data` the sets stand in it as comments, and the preflight
    names what is missing.
    Raises CommandLineError for data that is no set phoneproof can read, that does not fit the model's inputs,
    or whose path cannot stand in a plan.
    """
    names = None if facts is None else [one.name for one in facts.inputs]
    found = None if data is None else find_data(data, names)
    about = _assumed(found) if facts is None else facts
    sections = [
        _HEAD,
        _models(model, form, about, found, folder),
        _no_data(about) if found is None else _data(found, about, folder),
        _task(found, about),
        initial_builds(form),
        _DEVICES,
        _gates(found, about),
        _EDGE,
        _BENCHMARK,
    ]
    text = "\n\n".join(sections) + "\n"
    _read_back(text, folder)
    return text


def _assumed(found: FoundData | None) -> ModelFacts:
    """What a function may take: arrays as the data have them, else one image as PyTorch models do."""
    if found is None or found.images or not found.rows:
        return ModelFacts((_USUAL_IMAGE,), ())
    return ModelFacts(
        tuple(ModelTensor(name, found.dtypes[name], (1, *row)) for name, row in found.rows.items()), ()
    )


def _read_back(text: str, folder: Path) -> Plan:
    """The plan just written. An odd path is the only thing that can keep it from being read."""
    try:
        text.encode()
        content = tomllib.loads(text)
        if content["models"][0]["format"] == SourceFormat.PYTORCH:
            content["models"][0]["inputs"] = [{"name": "to fill in", "shape": [1]}]
        return from_effective(content, folder)
    except (PlanError, ValueError) as error:
        what = f"A name among the model and the data cannot stand in a plan: {error}"
        raise CommandLineError(what, next_step="Rename the file or folder.") from None


def _models(model: str, form: SourceFormat, facts: ModelFacts, found: FoundData | None, folder: Path) -> str:
    is_function = form is SourceFormat.PYTORCH
    name = model.partition(":")[2] if is_function else Path(os.path.normpath(model)).stem
    lines = [
        "[[models]]",
        f"name = {_toml(_plain_name(name))}  # stands in the ids of its builds",
        f"source = {_toml(model if is_function else _path(Path(model), folder))}",
        f"format = {_toml(form.value)}",
    ]
    return "\n".join([*lines, *(_asked_inputs(facts) if is_function else _known_inputs(facts, found))])


def _asked_inputs(facts: ModelFacts) -> list[str]:
    """The inputs of a function, as comments: what it takes shows only when it is run."""
    tables = ", ".join(
        f"{{ name = {_toml(one.name)}, shape = {list(one.shape)}, dtype = {_toml(one.dtype)} }}"
        for one in facts.inputs
    )
    return [
        f"{_CHECK}fill in the inputs, in the order of the module's forward, the batch of 1 included.",
        f"# inputs = [{_comment(tables)}]",
        '# outputs = ["scores"]  # names of what forward gives, in order',
        '# state = "weights.pt"  # or .safetensors: loaded into the module that the function gives',
    ]


def _known_inputs(facts: ModelFacts, found: FoundData | None) -> list[str]:
    described = [f"{one.name} {one.dtype} {_shape_text(one.shape)}" for one in facts.inputs]
    lines = [f"# Input: {_comment(text)}" for text in described]
    unbatched = [one for one in facts.inputs if one.shape and one.shape[0] not in (1, None)]
    if unbatched:
        lines += [
            f"{_CHECK}a first axis longer than 1 is taken for no batch, and samples hold all of it.",
        ]
    open_shapes = [one for one in facts.inputs if None in one.shape or one in unbatched]
    if not open_shapes:
        return lines
    given = {one.name: _shape_of_rows(one, found) for one in open_shapes}
    shapes = {one.name: given[one.name] or _guessed(one) for one in open_shapes}
    if all(None not in one.shape for one in open_shapes):
        pass
    elif all(given.values()):
        lines.append("# The model leaves lengths open, and builds have fixed ones: those of the arrays.")
    else:
        lines += [
            f"{_CHECK}the model leaves lengths open, and builds have fixed ones. 1 for the batch, and",
            "# 224 for the sides of an image or 1 elsewhere, are only a beginning.",
        ]
    fixed = ", ".join(f"{_toml_key(name)} = {list(shape)}" for name, shape in shapes.items())
    return [*lines, f"shapes = {{ {fixed} }}"]


def _shape_of_rows(tensor: ModelTensor, found: FoundData | None) -> tuple[int, ...] | None:
    """A batch of one row of the arrays; None where there are none, or where they do not fit the input."""
    row = None if found is None else found.rows.get(tensor.name)
    if row is None:
        return None
    shape = row if len(row) == len(tensor.shape) else (1, *row)
    fits = len(shape) == len(tensor.shape) and shape[0] == 1
    return shape if fits and all(m in (None, n) for m, n in zip(tensor.shape, shape, strict=True)) else None


def _guessed(tensor: ModelTensor) -> tuple[int, ...]:
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
        f'samples = {_MOST_SAMPLES}  # at most so many of the evaluation set; "all" for every one',
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
        "# A level x of 0 to 255 becomes (x * scale - mean) / std.",
        f"scale = {1 / 255 if is_float else 1.0!r}{'  # levels become 0 to 1' if is_float else ''}",
        f"mean = {per_channel}",
        f"std = {ones}",
    ]
    if is_float and not grey:
        lines.append("# ImageNet in torchvision: mean = [0.485, 0.456, 0.406], std = [0.229, 0.224, 0.225]")
    return lines


def _scored(found: FoundData | None, facts: ModelFacts) -> tuple[ModelTensor, int] | None:
    """The only output that top-1 can mean, and its width: as many numbers as the data have classes.

    Indices tell the largest class that occurs; the only output of a model may have more.
    """
    if found is None or found.classes is None:
        return None
    fitting = []
    for one in facts.outputs:
        width = one.shape[1] if len(one.shape) == 2 and one.shape[0] in (1, None) else None
        is_wider = found.indices and len(facts.outputs) == 1 and width is not None and width > found.classes
        if width is not None and width > 1 and (width == found.classes or is_wider):
            fitting.append((one, width))
    return fitting[0] if len(fitting) == 1 else None


def _task(found: FoundData | None, facts: ModelFacts) -> str:
    scored = _scored(found, facts)
    if found is not None and scored is not None:
        output, width = scored
        lines = [
            f"{_CHECK}the data have {found.classes} classes and the output as many numbers.",
            "# Number i must belong to the i-th class in order of names; else set data.classes.",
        ]
        if found.indices:
            highest = (found.classes or 0) - 1
            lines = [
                f"{_CHECK}the labels are class indices up to {highest}, and the output has {width} numbers.",
                "# Label i must mean number i of the output.",
            ]
        metrics = '["top1", "top5"]' if width > 5 else '["top1"]'
        named = [] if len(facts.outputs) == 1 else [f"output = {_toml(output.name)}"]
        return "\n".join(["[task]", *lines, 'kind = "classification"', f"metrics = {metrics}", *named])
    why = "# No metric: builds are compared with the source model by their outputs only."
    if not facts.outputs:
        why = "# No metric: the outputs of the model are not known yet."
    elif found is not None and found.classes is not None:
        shapes = "; ".join(_shape_text(one.shape) for one in facts.outputs)
        have = (
            f"labels go up to {found.classes - 1}" if found.indices else f"data have {found.classes} classes"
        )
        why = f"# The {have}, and the outputs are {shapes}: nothing is scored."
    return "\n".join(
        [
            "[task]",
            why,
            'kind = "other"',
            '# kind = "classification"',
            '# metrics = ["top1"]  # or your own function: "module:function"',
        ]
    )


_DEVICES: Final = """\
# Only devices that stand here are used.
[[devices]]
kind = "host"
threads = 1"""

_EDGE: Final = """\
# Odd inputs (black, noise, odd files, NaN, ...) are tried one by one; docs/edge.md lists them.
# [edge]
# skip = ["very_large"]
# own = { kind = "image_folder", path = "hard-images" }  # samples of yours beside them"""

_BENCHMARK: Final = """\
# [benchmark]
# rounds = 20  # interleaved rounds against the baseline; more rounds, narrower intervals"""


def _accuracy_limit(samples: int) -> str:
    """A limit on the drop that so many samples can decide, commented out where no useful one is.

    Where no sample changes, the upper end of Tango's interval is z^2 / (n + z^2), with z = 1.96 at 95 %.
    """
    needed = math.ceil(_Z_SQUARED * 99)
    points = math.ceil(100 * _Z_SQUARED / (samples + _Z_SQUARED))
    if points <= 1:
        return "accuracy_drop_max = 0.01  # 0.01 is one point"
    what = f"{samples} samples cannot decide less than {points} points; one point needs {needed}"
    if points > _MOST_POINTS:
        return f"# accuracy_drop_max = 0.01  # {what}"
    return f"accuracy_drop_max = {points / 100}  # {what}"


def _gates(found: FoundData | None, facts: ModelFacts) -> str:
    accuracy = "# accuracy_drop_max = 0.01  # needs a metric in [task]"
    if found is not None and _scored(found, facts) is not None:
        accuracy = _accuracy_limit(min(found.samples, _MOST_SAMPLES))
    return "\n".join(
        [
            "[gates]",
            "# A gate that is not set is not judged. outcomes (no crash) and parity_min_db have defaults.",
            accuracy,
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
