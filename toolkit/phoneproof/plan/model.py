"""phoneproof.toml as a frozen, typed value. Everything in it is checked when it is read."""

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, time
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from phoneproof.data.preprocessing import canonical_json
from phoneproof.data.set_specs import set_from_dict
from phoneproof.errors import PlanError
from phoneproof.plan.build_section import BuildSection, with_default_options
from phoneproof.plan.data_section import CsvSection, DataSection, DeclaredSet, NpySection, Role, set_key
from phoneproof.plan.edge_section import EdgeSection
from phoneproof.plan.forms import form_for, no_form
from phoneproof.plan.model_section import ModelSection
from phoneproof.plan.positions import Lines
from phoneproof.plan.problems import Mistake, Place, mistakes_of, place_text, plan_error
from phoneproof.plan.sections import (
    BUILT_IN_METRICS,
    BenchmarkSection,
    DeviceSection,
    GatesSection,
    LimitsSection,
    ReportSection,
    TaskKind,
    TaskSection,
)
from phoneproof.plan.values import Problem, Section, is_plain_id, refuse
from phoneproof.plan.wording import nearest
from phoneproof.recipes.table import Recipe, RecipeOptions, Route

PLAN_FILE: Final = "phoneproof.toml"
LARGEST_PLAN_BYTES: Final = 1_000_000


@dataclass(frozen=True)
class PlannedBuild:
    """One wished build with everything looked up.

    route: how the recipe is reached from the model's format; None for a file. file: as it stands in the plan.
    names: of a file, the source's name of each input and output that it calls otherwise.
    """

    build_id: str
    model: ModelSection
    recipe: Recipe
    route: Route | None
    options: RecipeOptions
    variant: str | None
    file: str | None
    names: Mapping[str, str]


@dataclass(frozen=True)
class Origin:
    """Where a plan comes from. folder: what its relative paths start from; only it counts when comparing."""

    folder: Path
    where: str = field(default="plan", compare=False)
    lines: Lines = field(default_factory=lambda: Lines(None), compare=False)


class Plan(Section):
    """A whole plan."""

    models: Annotated[tuple[ModelSection, ...], Field(min_length=1)]
    data: DataSection = DataSection()
    task: TaskSection = TaskSection()
    builds: Annotated[tuple[BuildSection, ...], Field(min_length=1)]
    devices: Annotated[tuple[DeviceSection, ...], Field(min_length=1)]
    gates: GatesSection = GatesSection()
    edge: EdgeSection = EdgeSection()
    benchmark: BenchmarkSection = BenchmarkSection()
    report: ReportSection = ReportSection()
    limits: LimitsSection = LimitsSection()
    _origin: Origin = PrivateAttr(default=Origin(Path()))

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse(
            self,
            [
                *self._models_twice(),
                *self._unknown_models(),
                *self._devices_twice(),
                *self._accuracy(),
                *self._labels(),
                *self.edge.misfits(self.data),
            ],
        )
        refuse(self, self._without_a_form())
        refuse(self, self._builds_twice())
        return self

    def _models_twice(self) -> list[Problem]:
        keys = [(m.name, m.format) for m in self.models]
        what = "The model {!r} has two sources of the format {!r}."
        step = "Give one of the two another name."
        return [
            (("models", i, "name"), what.format(k[0], k[1].value), step)
            for i, k in enumerate(keys)
            if k in keys[:i]
        ]

    def _unknown_models(self) -> list[Problem]:
        names = sorted({m.name for m in self.models})
        problems: list[Problem] = []
        for i, build in enumerate(self.builds):
            if build.model is None:
                step = f"Add model = one of {', '.join(map(repr, names))}."
                problems.append((("builds", i), "There are several models, and the build names none.", step))
            elif build.model not in names:
                what = f"There is no model {build.model!r}."
                problems.append((("builds", i, "model"), what, nearest(build.model, names)))
        return problems

    def _without_a_form(self) -> list[Problem]:
        return [
            ((("builds", i, "source") if build.source else ("builds", i)), *problem)
            for i, build in enumerate(self.builds)
            if (problem := no_form(self._forms(build), build)) is not None
        ]

    def _forms(self, build: BuildSection) -> tuple[ModelSection, ...]:
        return tuple(m for m in self.models if m.name == build.model)

    def _builds_twice(self) -> list[Problem]:
        ids = [build.build_id for build in self.planned_builds()]
        step = "Remove one, or tell them apart by variant = 'a-name'."
        return [
            (("builds", i), f"The build {one!r} stands twice.", step)
            for i, one in enumerate(ids)
            if one in ids[:i]
        ]

    def _devices_twice(self) -> list[Problem]:
        keys = [(d.kind, d.threads) for d in self.devices]
        what = "The device {!r} with {} threads stands twice."
        return [
            (("devices", i), what.format(*k), "Remove one, or join their accelerators.")
            for i, k in enumerate(keys)
            if k in keys[:i]
        ]

    def _accuracy(self) -> list[Problem]:
        problems: list[Problem] = []
        if self.gates.accuracy_drop_max is not None and not self.task.metrics:
            step = "Add [task] metrics, for example kind = 'classification' and metrics = ['top1']."
            problems.append((("gates", "accuracy_drop_max"), "A limit for accuracy, but no metric.", step))
        classes = len(self.data.classes)
        if "top5" in self.task.metrics and 0 < classes <= 5:
            what = f"top5 of {classes} classes is always right."
            problems.append((("task", "metrics"), what, "Remove 'top5'."))
        return problems

    def _labels(self) -> list[Problem]:
        evaluation = self.data.evaluation
        built_in = [m for m in self.task.metrics if m in BUILT_IN_METRICS]
        if not built_in or not isinstance(evaluation, CsvSection | NpySection):
            return []
        key = "label_column" if isinstance(evaluation, CsvSection) else "labels_path"
        if getattr(evaluation, key) is not None:
            return []
        what = f"{built_in[0]!r} needs labels, and the evaluation set names none."
        return [(("data", "evaluation"), what, f"Add {key} = ...")]

    @property
    def folder(self) -> Path:
        """Absolute folder that relative paths start from."""
        return self._origin.folder

    def where(self, *place: str | int) -> str:
        """The place of a key as messages write it: `phoneproof.toml:12: builds #2.recipe`."""
        return place_text(self._origin.where, self._origin.lines.line_of(place), place)

    def locate(self, path: str) -> Path:
        """A path of the plan, absolute. `~/` is the home folder; `./~` is a folder of that odd name."""
        if path.startswith("~/"):
            return Path.home() / path.removeprefix("~/")
        return (self.folder / path).absolute()

    def declared_set(self, role: Role) -> DeclaredSet | None:
        """The set of that role with absolute paths, or None where the plan has none."""
        sets = {
            "calibration": self.data.calibration,
            "evaluation": self.data.evaluation,
            "edge": self.edge.own,
        }
        section = sets[role]
        if section is None:
            return None
        fields = section.model_dump(exclude={"skip", "take"})
        for key in ("path", "labels_path", "folder"):
            if fields.get(key) is not None:
                fields[key] = str(self.locate(fields[key]))
        spec = set_from_dict({**fields, "classes": list(self.data.classes) or None}, set_key(role))
        return DeclaredSet(role, spec, section.skip, section.take)

    def planned_builds(self) -> tuple[PlannedBuild, ...]:
        """The wished builds, in the order of the plan."""
        return tuple(self._planned(build) for build in self.builds)

    @property
    def build_ids(self) -> tuple[str, ...]:
        """model / source format / recipe [/ variant] of each wished build."""
        return tuple(build.build_id for build in self.planned_builds())

    def _planned(self, build: BuildSection) -> PlannedBuild:
        model = form_for(self._forms(build), build)
        row = build.row
        parts = [model.name, model.format.value, row.name, *([build.variant] if build.variant else [])]
        route = row.routes.get(model.format)
        return PlannedBuild(
            "/".join(parts), model, row, route, build.options, build.variant, build.file, build.names
        )

    def effective(self) -> dict[str, Any]:
        """The plan with every default written out, as JSON values. `from_effective` reads it back."""
        return self.model_dump(mode="json")

    @property
    def digest(self) -> str:
        """sha256 of the effective plan's canonical JSON. The folder and the plan's comments do not count."""
        return plan_digest(self.effective())


def plan_digest(effective: Mapping[str, Any]) -> str:
    """sha256 (hexadecimal) of an effective plan's canonical JSON."""
    return hashlib.sha256(canonical_json(dict(effective))).hexdigest()


def read_plan(path: Path) -> Plan:
    """The plan in this file. PlanError that lists everything wrong in it; nothing else is looked at."""
    text = _text_of(path)
    try:
        content = tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError is one, and so is a number of too many digits
        step = "Look at that place for a missing quote, bracket or '='."
        raise PlanError(f"The plan is not TOML: {error}.", where=str(path), next_step=step) from None
    except RecursionError:
        raise PlanError("The plan is nested too deep.", where=str(path)) from None
    dates = [
        Mistake(place, "A plan holds no dates.", "Write text in quotes.") for place in _dates(content, ())
    ]
    if dates:
        raise plan_error(str(path), dates, text)
    return _checked(content, str(path), path.absolute().parent, text)


def from_effective(effective: Mapping[str, Any], folder: Path, where: str = "plan") -> Plan:
    """The plan that `Plan.effective` wrote. PlanError when it is none."""
    return _checked(dict(effective), where, folder.absolute(), None)


def _written_out(content: dict[str, Any]) -> dict[str, Any]:
    """The content with what follows from it by rule: a build's only possible model, and its options.

    This is done before validation, not in it: pydantic goes on in its Python mode after such a validator,
    where strict refuses lists for tuples.
    """
    names = {m.get("name") for m in _tables(content, "models") if is_plain_id(m.get("name"))}
    model = {"model": names.pop()} if len(names) == 1 else {}
    if not isinstance(content.get("builds"), list):
        return content
    builds = [
        with_default_options(b if b.get("model") is not None else {**b, **model})
        if isinstance(b, dict)
        else b
        for b in content["builds"]
    ]
    return {**content, "builds": builds}


def _tables(content: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    entries = content.get(key)
    return [e for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []


def _checked(content: dict[str, Any], where: str, folder: Path, text: str | None) -> Plan:
    try:
        # Through JSON, because pydantic's strict mode takes lists and words for tuples and enums only there.
        plan = Plan.model_validate_json(json.dumps(_written_out(content)))
    except ValidationError as error:
        raise plan_error(where, mistakes_of(error, Plan), text) from None
    plan._origin = Origin(folder, where, Lines(text))
    return plan


def _text_of(path: Path) -> str:
    init = "Write one with `phoneproof init --model MODEL --data FOLDER`."
    try:
        if path.stat().st_size > LARGEST_PLAN_BYTES:
            raise PlanError(
                "The plan is larger than 1 MB.", where=str(path), next_step="Name the right file."
            )
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise PlanError("There is no plan.", where=str(path), next_step=init) from None
    except IsADirectoryError:
        step = f"Name the file, for example {path / PLAN_FILE}."
        raise PlanError("The plan is a folder.", where=str(path), next_step=step) from None
    except UnicodeDecodeError as error:
        what = f"The plan is not UTF-8 at byte {error.start}."
        raise PlanError(what, where=str(path), next_step="Save it as UTF-8.") from None
    except OSError as error:
        raise PlanError(f"The plan cannot be read: {error.strerror}.", where=str(path)) from None


def _dates(value: object, place: Place) -> Iterator[Place]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _dates(item, (*place, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _dates(item, (*place, index))
    elif isinstance(value, date | time):
        yield place


__all__ = ["PLAN_FILE", "Plan", "PlannedBuild", "TaskKind", "from_effective", "plan_digest", "read_plan"]
