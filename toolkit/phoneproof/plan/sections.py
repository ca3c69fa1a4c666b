"""The sections of a plan except `[data]`, each checked when it is read."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from phoneproof.errors import RecipeError
from phoneproof.findings import FINDING_IDS
from phoneproof.plan.values import (
    ENTRY_POINT,
    Milliseconds,
    PlainId,
    Positive,
    Problem,
    Seconds,
    Section,
    Text,
    Texts,
    refuse,
    unique,
    wrong,
)
from phoneproof.plan.wording import nearest
from phoneproof.recipes.rows import RECIPES, recipe_named
from phoneproof.recipes.table import Method, Mode, Precision, Recipe, RecipeOptions, SourceFormat

DEFAULT_PERCENTILE: Final = RecipeOptions().percentile


class Accelerator(StrEnum):
    """Accelerators that the devices of this version have."""

    CPU = "cpu"


class TaskKind(StrEnum):
    """What the network does, as far as phoneproof scores it by itself."""

    CLASSIFICATION = "classification"
    OTHER = "other"


BUILT_IN_METRICS: Final = ("top1", "top5")


def _one_sample(shape: tuple[int, ...]) -> tuple[int, ...]:
    if shape and shape[0] != 1:
        what = f"The first length is the batch, and is {shape[0]}; samples are run one by one."
        raise wrong(what, f"Write {[1, *shape[1:]]}.")
    return shape


InputShape = Annotated[tuple[Annotated[int, Field(ge=1)], ...], AfterValidator(_one_sample)]


class ModelSection(Section):
    """One form of a source model."""

    name: PlainId
    source: Text
    format: SourceFormat
    shapes: Mapping[Text, InputShape] = Field(default_factory=dict)

    @property
    def is_entry_point(self) -> bool:
        """Whether `source` is a Python function. A file of such a name is written './module:function'."""
        return ENTRY_POINT.fullmatch(self.source) is not None


def _metric(value: str) -> str:
    if value not in BUILT_IN_METRICS and not ENTRY_POINT.fullmatch(value):
        step = nearest(value, BUILT_IN_METRICS) + " A metric of your own is 'module:function'."
        raise wrong(f"There is no metric {value[:80]!r}.", step)
    return value


class TaskSection(Section):
    """`[task]`: what the network is for and how it is scored."""

    kind: TaskKind = TaskKind.OTHER
    metrics: Annotated[tuple[Annotated[str, AfterValidator(_metric)], ...], AfterValidator(unique)] = ()
    output: Text | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        built_in = [m for m in self.metrics if m in BUILT_IN_METRICS]
        if built_in and self.kind is TaskKind.OTHER:
            step = "Set kind = 'classification', or score by an entry point 'module:function'."
            refuse(self, [(("metrics",), f"{built_in[0]!r} is a metric of classification.", step)])
        return self


def _recipe(value: str) -> str:
    try:
        return recipe_named(value).name
    except RecipeError as error:
        raise wrong(error.what, error.next_step or "") from None


def options_of(recipe: Recipe) -> tuple[str, ...]:
    """The options that mean something for this recipe."""
    if recipe.precision is Precision.FLOAT32:
        return ()
    if recipe.mode is Mode.STATIC:
        return ("method", "percentile", "per_channel", "io", "keep_float_names", "keep_float_types")
    return ("per_channel", "keep_float_names", "keep_float_types")


def with_default_options(build: Mapping[str, Any]) -> dict[str, Any]:
    """The build with the default of every option that means something for its recipe and is not set."""
    row = RECIPES.get(str(build.get("recipe")))
    if row is None:
        return dict(build)
    defaults = RecipeOptions()
    unset = {name: getattr(defaults, name) for name in options_of(row) if build.get(name) is None}
    if (build.get("method") or defaults.method) != Method.PERCENTILE:
        unset.pop("percentile", None)
    return {**build, **unset}


class BuildSection(Section):
    """A wished build. An option that means nothing for the recipe is None, the others always have a value."""

    recipe: Annotated[str, AfterValidator(_recipe)]
    model: PlainId | None = None
    variant: PlainId | None = None
    method: Method | None = None
    percentile: Annotated[float, Field(ge=50, lt=100)] | None = None
    per_channel: bool | None = None
    io: Literal["float32", "int8"] | None = None
    keep_float_names: Texts | None = None
    keep_float_types: Texts | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        row = RECIPES[self.recipe]
        refuse(self, [*self._useless_options(row), *self._useless_percentile()])
        return self

    def _useless_options(self, row: Recipe) -> list[Problem]:
        known = options_of(row)
        every = ("method", "percentile", "per_channel", "io", "keep_float_names", "keep_float_types")
        given = [name for name in every if getattr(self, name) is not None and name not in known]
        allowed = f"It takes: {', '.join(known)}." if known else "It takes no options."
        return [
            ((name,), f"{name!r} means nothing for {row.name}.", f"Remove it. {allowed}") for name in given
        ]

    def _useless_percentile(self) -> list[Problem]:
        if self.percentile is None or self.method in (None, Method.PERCENTILE):
            return []
        step = "Set method = 'percentile', or remove 'percentile'."
        return [(("percentile",), f"'percentile' means nothing with method {self.method!r}.", step)]

    @property
    def options(self) -> RecipeOptions:
        """The options as toolchains take them."""
        given = {
            n: getattr(self, n) for n in options_of(RECIPES[self.recipe]) if getattr(self, n) is not None
        }
        return RecipeOptions(**given)


class DeviceSection(Section):
    """Where builds run. Only devices that stand here are used."""

    kind: Literal["host"]
    threads: Annotated[int, Field(ge=1, le=256)] = 1
    accelerators: Annotated[tuple[Accelerator, ...], AfterValidator(unique), Field(min_length=1)] = (
        Accelerator.CPU,
    )
    allow_fallback: bool = False


class ParityLimits(Section):
    """Least signal-to-noise ratio of a build's outputs against the reference, in dB, by precision.

    Between int8_fail and int8 an int8 build is inconclusive unless its accuracy passes.
    """

    float32: float = 60.0
    float16: float = 40.0
    int8: float = 20.0
    int8_fail: float = 10.0

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.int8_fail > self.int8:
            what = f"int8_fail = {self.int8_fail} is above int8 = {self.int8}."
            refuse(self, [(("int8_fail",), what, "Set int8_fail to at most int8.")])
        return self


def _finding_id(value: str) -> str:
    if value not in FINDING_IDS:
        raise wrong(f"There is no finding {value[:80]!r}.", nearest(value, FINDING_IDS))
    return value


class GatesSection(Section):
    """`[gates]`: limits that turn measurements into verdicts. A gate that is not set is not judged."""

    accuracy_drop_max: Annotated[float, Field(ge=0, lt=1)] | None = None
    parity_min_db: ParityLimits = ParityLimits()
    speedup_min: Positive | None = None
    latency_max_ms: Positive | None = None
    size_ratio_max: Positive | None = None
    outcomes: bool = True
    waive: Annotated[tuple[Annotated[str, AfterValidator(_finding_id)], ...], AfterValidator(unique)] = ()


class BenchmarkSection(Section):
    """`[benchmark]`: how latency is measured."""

    rounds: Annotated[int, Field(ge=10, le=1000)] = 20
    visit_ms: Annotated[int, Field(ge=1, le=600_000)] = 200
    warmup_ms: Milliseconds = 1000
    max_runs_per_visit: Annotated[int, Field(ge=1, le=100_000)] = 200
    pause_ms: Milliseconds = 0


class ReportSection(Section):
    """`[report]`: what stands on the report."""

    title: Text | None = None
    client: Text | None = None


class LimitsSection(Section):
    """`[limits]`: when a step is ended. memory_gb: per worker process; None is no limit."""

    load_timeout_s: Seconds = 120.0
    sample_timeout_s: Seconds = 60.0
    round_timeout_s: Seconds = 120.0
    build_timeout_s: Seconds = 3600.0
    memory_gb: Positive | None = None
