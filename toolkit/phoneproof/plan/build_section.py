"""`[[builds]]`: the wished builds, made by a recipe here or by somebody else elsewhere."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from phoneproof.errors import BuildFileError, RecipeError
from phoneproof.plan.values import PlainId, Problem, Section, Text, Texts, refuse, wrong
from phoneproof.recipes.build_headers import format_of_build
from phoneproof.recipes.rows import BASELINE_RECIPES, FILE_RECIPES, RECIPES, recipe_named
from phoneproof.recipes.table import Format, Method, Recipe, RecipeOptions, SourceFormat, TargetFloor
from phoneproof.recipes.target import shortfalls

OPTION_KEYS: Final = tuple(RecipeOptions.__dataclass_fields__)


def _recipe(value: str) -> str:
    try:
        return recipe_named(value).name
    except RecipeError as error:
        raise wrong(error.what, error.next_step or "") from None


def _file(value: str) -> str:
    try:
        format_of_build(Path(value))
    except BuildFileError as error:
        raise wrong(error.what, error.next_step or "") from None
    return value


def with_default_options(build: Mapping[str, Any]) -> dict[str, Any]:
    """The build with the default of every option that means something for its recipe and is not set."""
    row = RECIPES.get(str(build.get("recipe")))
    if row is None:
        return dict(build)
    unset = {name: default for name, default in _defaults(row).items() if build.get(name) is None}
    if (build.get("method") or RecipeOptions.method) != Method.PERCENTILE:
        unset.pop("percentile", None)
    if build.get("per_channel") is False:
        unset.pop("per_channel_dense", None)
    return {**build, **unset}


def _defaults(row: Recipe) -> dict[str, Any]:
    options = RecipeOptions(io=row.io[0])
    return {name: getattr(options, name) for name in row.options if name != "target"}


def _version(value: str) -> str:
    if not re.fullmatch(r"\d+(\.\d+){0,3}", value):
        raise wrong(f"{value[:80]!r} is no version.", "Write numbers and dots, for example '1.17.0'.")
    return value


class TargetSection(Section):
    """What the device has at least; a build that needs more is refused."""

    deployment_target: Literal["iOS15", "iOS16", "iOS17", "iOS18"] | None = None
    onnx_opset: Annotated[int, Field(ge=1, le=1000)] | None = None
    onnx_ir: Annotated[int, Field(ge=1, le=1000)] | None = None
    runtime_version: Annotated[str, AfterValidator(_version)] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if all(value is None for value in self.model_dump().values()):
            step = f"Set one of {', '.join(TargetSection.model_fields)}, or remove the table."
            refuse(self, [((), "The table is empty.", step)])
        return self

    @property
    def floor(self) -> TargetFloor:
        """The same as toolchains take it."""
        return TargetFloor(**self.model_dump())


TARGET_KEYS: Final[Mapping[Format, tuple[str, ...]]] = {
    Format.TFLITE: ("runtime_version",),
    Format.COREML: ("deployment_target",),
    Format.EXECUTORCH: ("runtime_version",),
    Format.ONNX: ("onnx_opset", "onnx_ir", "runtime_version"),
    Format.TORCHSCRIPT: (),
}
"""Keys of `[builds.target]` that mean something for builds of a format."""


class BuildSection(Section):
    """A wished build. An option that means nothing for the recipe is None, the others always have a value."""

    recipe: Annotated[str, AfterValidator(_recipe)] | None = None
    file: Annotated[Text, AfterValidator(_file)] | None = None
    model: PlainId | None = None
    source: SourceFormat | None = None
    variant: PlainId | None = None
    method: Method | None = None
    percentile: Annotated[float, Field(ge=50, lt=100)] | None = None
    per_channel: bool | None = None
    per_channel_dense: bool | None = None
    io: Literal["float32", "int8"] | None = None
    keep_float: bool | None = None
    keep_float_names: Texts | None = None
    keep_float_types: Texts | None = None
    quantize_names: Texts | None = None
    quantize_types: Texts | None = None
    target: TargetSection | None = None
    names: Mapping[Text, Text] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse(self, self._what_is_made())
        refuse(
            self,
            [
                *self._useless_options(),
                *self._useless_percentile(),
                *self._useless_dense(),
                *self._useless_target(),
                *self._target_below_floor(),
                *self._named_twice(),
                *self._useless_selection(),
            ],
        )
        return self

    def _what_is_made(self) -> list[Problem]:
        if self.recipe is not None and self.file is not None:
            step = "Remove one of the two; an entry is made by a recipe here, or was made elsewhere."
            return [((), "A build has a recipe or a file, not both.", step)]
        if self.recipe is None and self.file is None:
            step = "Add recipe = ..., or file = the path of a build that was made elsewhere."
            return [((), "A build has a recipe or a file.", step)]
        if self.recipe is not None and self.names:
            step = "Remove it; a build that is made here keeps the names of its source."
            return [(("names",), "'names' means something for a build with file = ... only.", step)]
        return []

    @property
    def row(self) -> Recipe:
        """The recipe, or what stands for one where the build is a file."""
        if self.file is not None:
            return FILE_RECIPES[format_of_build(Path(self.file))]
        return RECIPES[self.recipe or ""]

    def _useless_options(self) -> list[Problem]:
        row = self.row
        given = [n for n in OPTION_KEYS if getattr(self, n) is not None and n not in row.options]
        allowed = f"It takes: {', '.join(row.options)}." if row.options else "It takes no options."
        return [
            ((name,), f"{name!r} means nothing for {row.name}.", f"Remove it. {allowed}") for name in given
        ]

    def _useless_percentile(self) -> list[Problem]:
        if self.percentile is None or self.method in (None, Method.PERCENTILE):
            return []
        step = "Set method = 'percentile', or remove 'percentile'."
        return [(("percentile",), f"'percentile' means nothing with method {self.method.value!r}.", step)]

    def _useless_dense(self) -> list[Problem]:
        if self.per_channel_dense is None or self.per_channel is not False:
            return []
        what = "'per_channel_dense' means nothing with per_channel = false."
        return [(("per_channel_dense",), what, "Remove it: dense layers are then per tensor like the rest.")]

    def _useless_target(self) -> list[Problem]:
        if self.target is None:
            return []
        known = TARGET_KEYS[self.row.format]
        given = [n for n in TargetSection.model_fields if getattr(self.target, n) is not None]
        allowed = f"It takes: {', '.join(known)}." if known else "It takes none."
        return [
            (("target", name), f"{name!r} means nothing for builds of the format {self.row.format}.", allowed)
            for name in given
            if name not in known
        ]

    def _target_below_floor(self) -> list[Problem]:
        """A target that no build of this recipe fits; what one build needs above that is seen when made."""
        row = self.row
        target = TargetFloor() if self.target is None else self.target.floor
        what = "{} needs {} at least, and the target has {}."
        return [
            (("target", key), what.format(row.name, needs, has), "Raise the target, or take another recipe.")
            for key, needs, has in shortfalls(row.floor, target)
            if key in TARGET_KEYS[row.format]
        ]

    def _named_twice(self) -> list[Problem]:
        problems: list[Problem] = []
        for kept, quantized in (
            ("keep_float_names", "quantize_names"),
            ("keep_float_types", "quantize_types"),
        ):
            both = set(getattr(self, kept) or ()) & set(getattr(self, quantized) or ())
            step = f"Remove it from {kept} or from {quantized}."
            problems += [((quantized,), f"{name!r} stands in {kept} too.", step) for name in sorted(both)]
        return problems

    def _useless_selection(self) -> list[Problem]:
        """A choice that another one makes void: a name counts before a type, a type before keep_float.

        An operator can have several names and types (recipes/selection.py), so kinds of one rank do not void
        each other.
        """
        row = self.row
        types, names = bool(self.quantize_types), bool(self.quantize_names)
        if not row.is_quantized:
            return []
        if self.keep_float and not (types or names):
            step = "Name what is quantized in quantize_names or quantize_types, or take "
            what = "keep_float = true without a name or type to quantize leaves everything in float."
            return [(("keep_float",), what, f"{step}the recipe {BASELINE_RECIPES[row.format]!r}.")]
        void: list[Problem] = []
        kept = "everything is kept in float anyway"
        quantized = "everything is quantized anyway"
        only = "Set keep_float = true to quantize nothing else, or remove it."
        if types and not (self.keep_float or self.keep_float_types):
            void.append((("quantize_types",), f"'quantize_types' changes nothing: {quantized}.", only))
        if names and not (self.keep_float or self.keep_float_types or self.keep_float_names):
            void.append((("quantize_names",), f"'quantize_names' changes nothing: {quantized}.", only))
        if self.keep_float and self.keep_float_types and not types:
            what = f"'keep_float_types' changes nothing: {kept}."
            void.append((("keep_float_types",), what, "Remove it, or keep_float = true."))
        return void

    @property
    def options(self) -> RecipeOptions:
        """The options as toolchains take them."""
        row = self.row
        given = {n: getattr(self, n) for n in row.options if getattr(self, n) is not None}
        if self.target is not None:
            given["target"] = self.target.floor
        return RecipeOptions(**{"io": row.io[0] if row.io else "float32", **given})
