"""What every toolchain is asked: one build to make."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from phoneproof.data.preprocessing import Layout, Preprocess
from phoneproof.data.store import SampleStore
from phoneproof.errors import ProtocolError, RecipeError
from phoneproof.protocol.codec import from_dict
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.quantize.ranges import Ranges, read_ranges
from phoneproof.recipes.rows import recipe_named
from phoneproof.recipes.table import Method, Mode, Recipe, RecipeOptions
from phoneproof.recipes.toolchain_table import Toolchain
from phoneproof.sources.request import SourceRequest


@dataclass(frozen=True)
class CalibrationSamples:
    """The stored calibration set. path: its folder (data/store.py).

    preprocess: as `Preprocess.to_dict` writes it; its value map makes stored pixels into the model's input.
    None where values are stored. layout: of the model's image inputs; None takes the preprocessing's.
    """

    path: str
    preprocess: Mapping[str, Any] | None = None
    layout: str | None = None

    def read(self, inputs: tuple[TensorSpec, ...]) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Every sample in order: input name to an array of the input's dtype and shape, batch included."""
        store = SampleStore.open(Path(self.path))
        preprocess = None if self.preprocess is None else Preprocess.from_dict(dict(self.preprocess))
        layout = None if self.layout is None else Layout(self.layout)
        for index in range(store.count):
            rows = store.read_inputs(index, 1, inputs, preprocess, layout)
            yield {one.name: rows[one.name].reshape(one.shape) for one in inputs}


@dataclass(frozen=True)
class BuildRequest:
    """One build to make.

    source: what is converted: the source model, or its export. source_sha256: of the source model as the plan
    names it, for the manifest. source_inputs, source_outputs: the source model's own, whose names samples and
    metrics use. ranges: path of a ranges.json, where a calibration worker made one (recipes/toolchain_table);
    samples: the calibration set, of every static recipe. calibration_sha256: of that set.
    metadata: text by key, embedded where the format has a place. out: folder to write into, relative to the
    request's; made if absent.
    """

    recipe: str
    source: SourceRequest
    source_sha256: str
    out: str
    source_inputs: tuple[TensorSpec, ...]
    source_outputs: tuple[TensorSpec, ...]
    options: RecipeOptions = field(default_factory=RecipeOptions)
    ranges: str | None = None
    samples: CalibrationSamples | None = None
    calibration_sha256: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


def read_request(request: Mapping[str, Any], toolchain: Toolchain) -> tuple[BuildRequest, Recipe]:
    """The request with its recipe, checked.

    RecipeError for an option that means nothing for the recipe or a format without a route, ProtocolError
    for calibration that is missing or not asked for.
    """
    wanted = from_dict(BuildRequest, request)
    recipe = recipe_named(wanted.recipe)
    check_options(recipe, wanted.options)
    if not any(route.toolchain == toolchain.name for route in recipe.routes.values()):
        raise ProtocolError(f"{toolchain.name} does not make {recipe.name}.", where="$.recipe")
    given = (wanted.ranges, wanted.samples, wanted.calibration_sha256)
    if not recipe.needs_calibration:
        if any(one is not None for one in given):
            raise ProtocolError(f"{recipe.name} uses no calibration set.", where="$.ranges")
        return wanted, recipe
    if wanted.samples is None or wanted.calibration_sha256 is None:
        raise ProtocolError(f"{recipe.name} needs a calibration set.", where="$.samples")
    if (wanted.ranges is not None) != (wanted.options.method in toolchain.calibration):
        raise ProtocolError(
            f"{toolchain.name} takes ranges for {', '.join(toolchain.calibration) or 'no method'}.",
            where="$.ranges",
        )
    return wanted, recipe


def ranges_of(wanted: BuildRequest) -> Ranges:
    """The ranges of a request that has some. ProtocolError if they were made for another."""
    if wanted.ranges is None:
        raise ProtocolError(f"{wanted.recipe} needs ranges.", where="$.ranges")
    ranges = read_ranges(Path(wanted.ranges))
    percentile = wanted.options.percentile if wanted.options.method is Method.PERCENTILE else None
    asked = (wanted.options.method, percentile, wanted.calibration_sha256)
    if asked != (ranges.method, ranges.percentile, ranges.calibration_sha256):
        raise ProtocolError("The ranges were made by another method or calibration set.", where="$.ranges")
    return ranges


def check_options(recipe: Recipe, options: RecipeOptions) -> None:
    """RecipeError for an option that means nothing for the recipe, rather than ignoring it."""
    if options.io not in recipe.io:
        raise RecipeError(
            f"{recipe.name} has no {options.io[:40]} inputs and outputs.",
            where="io",
            next_step=f"Use io = {' or '.join(repr(one) for one in recipe.io)}.",
        )
    usual = RecipeOptions(io=options.io)
    for name in RecipeOptions.__dataclass_fields__:
        if name == "io" or name in recipe.options or getattr(options, name) == getattr(usual, name):
            continue
        what = "quantizes nothing, so nothing can be kept in float"
        if recipe.mode is not Mode.NONE or not name.startswith(("keep_float", "quantize")):
            what = f"has no option {name!r}"
        raise RecipeError(f"{recipe.name} {what}.", where=name, next_step="Leave the option out.")
