"""`[[builds]]`: the wished builds, made by a recipe here or by somebody else elsewhere."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from phoneproof.errors import RecipeError
from phoneproof.plan.values import PlainId, Problem, Section, Text, Texts, refuse, wrong
from phoneproof.recipes.rows import FILE_RECIPES, FILE_SUFFIXES, RECIPES, recipe_named
from phoneproof.recipes.table import Format, Method, Recipe, RecipeOptions, SourceFormat, TargetFloor

OPTION_KEYS: Final = tuple(RecipeOptions.__dataclass_fields__)


def _recipe(value: str) -> str:
    try:
        return recipe_named(value).name
    except RecipeError as error:
        raise wrong(error.what, error.next_step or "") from None


def options_of(recipe: Recipe) -> tuple[str, ...]:
    """The options that mean something for this recipe."""
    return recipe.options


def with_default_options(build: Mapping[str, Any]) -> dict[str, Any]:
    """The build with the default of every option that means something for its recipe and is not set."""
    row = RECIPES.get(str(build.get("recipe")))
    if row is None:
        return dict(build)
    unset = {name: default for name, default in _defaults(row).items() if build.get(name) is None}
    if (build.get("method") or RecipeOptions.method) != Method.PERCENTILE:
        unset.pop("percentile", None)
    return {**build, **unset}


def _defaults(row: Recipe) -> dict[str, Any]:
    options = RecipeOptions(io=row.io[0])
    return {name: getattr(options, name) for name in row.options if name != "target"}


class TargetSection(Section):
    """What the device has at least; a build that needs more is refused."""

    deployment_target: Literal["iOS15", "iOS16", "iOS17", "iOS18"] | None = None
    onnx_opset: Annotated[int, Field(ge=1, le=1000)] | None = None
    onnx_ir: Annotated[int, Field(ge=1, le=1000)] | None = None
    runtime_version: Annotated[str, Field(pattern=r"^\d+(\.\d+)*$")] | None = None


_TARGETS: Final[Mapping[Format, tuple[str, ...]]] = {
    Format.TFLITE: ("runtime_version",),
    Format.COREML: ("deployment_target",),
    Format.EXECUTORCH: ("runtime_version",),
    Format.ONNX: ("onnx_opset", "onnx_ir", "runtime_version"),
    Format.TORCHSCRIPT: (),
}


class BuildSection(Section):
    """A wished build. An option that means nothing for the recipe is None, the others always have a value."""

    recipe: Annotated[str, AfterValidator(_recipe)] | None = None
    file: Text | None = None
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
                *self._useless_target(),
                *self._named_twice(),
            ],
        )
        return self

    def _what_is_made(self) -> list[Problem]:
        if (self.recipe is None) == (self.file is None):
            what = "A build has a recipe or a file" + (", not both." if self.file is not None else ".")
            return [((), what, "Add recipe = ..., or file = the path of a build that was made elsewhere.")]
        if self.file is not None and PurePosixPath(self.file).suffix not in FILE_SUFFIXES:
            what = f"{self.file[:80]!r} is no build that can be run."
            return [(("file",), what, f"Builds end in {', '.join(FILE_SUFFIXES)}.")]
        if self.recipe is not None and self.names:
            step = "Remove it; a build that is made here keeps the names of its source."
            return [(("names",), "'names' means something for a build with file = ... only.", step)]
        return []

    @property
    def row(self) -> Recipe:
        """The recipe, or what stands for one where the build is a file."""
        if self.file is not None:
            return FILE_RECIPES[FILE_SUFFIXES[PurePosixPath(self.file).suffix]]
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
        return [(("percentile",), f"'percentile' means nothing with method {self.method!r}.", step)]

    def _useless_target(self) -> list[Problem]:
        if self.target is None:
            return []
        known = _TARGETS[self.row.format]
        given = [n for n in TargetSection.model_fields if getattr(self.target, n) is not None]
        allowed = f"It takes: {', '.join(known)}." if known else "It takes none."
        return [
            (("target", name), f"{name!r} means nothing for a {self.row.format} build.", allowed)
            for name in given
            if name not in known
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

    @property
    def options(self) -> RecipeOptions:
        """The options as toolchains take them."""
        row = self.row
        given = {n: getattr(self, n) for n in row.options if getattr(self, n) is not None}
        if self.target is not None:
            given["target"] = TargetFloor(**self.target.model_dump())
        return RecipeOptions(**{"io": row.io[0] if row.io else "float32", **given})
