"""What the tables of a page can be filtered by: format, platform, verdict and device, as keys of rows."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from phoneproof.recipes.table import Format
from phoneproof.report import reading
from phoneproof.report.formats import PLATFORMS_OF, format_of
from phoneproof.report.model import Diagnosis, Report, ReportedBuild, Result
from phoneproof.report.reading import State
from phoneproof.report.words import PLATFORMS, VERDICTS, format_name, platform_name


@dataclass(frozen=True)
class Choice:
    """One value of a group. key: what rows that have it carry. sign: the verdict whose sign stands by it."""

    key: str
    title: str
    sign: State | None = None


@dataclass(frozen=True)
class FilterGroup:
    """Values of one kind, of which a row has to have one that is chosen."""

    name: str
    title: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class RowKeys:
    """The keys of the rows of one report."""

    recipes: dict[str, str | None]
    verdicts: dict[tuple[str, str], str]
    devices: dict[str, int]

    def of(self, row: Result | ReportedBuild | Diagnosis) -> str:
        """The keys of a row's subject, separated by spaces. They hold no foreign text."""
        build_id = row.configuration.build_id if isinstance(row, Result) else row.build_id
        form = format_of(self.recipes.get(build_id))
        return " ".join([*_format_keys(form), *self._verdict_keys(row), *self._device_keys(row)])

    def _verdict_keys(self, row: Result | ReportedBuild | Diagnosis) -> list[str]:
        match row:
            case Result():
                return [f"verdict:{row.verdict}"]
            case Diagnosis():
                return [f"verdict:{self.verdicts.get((row.build_id, row.device), 'none')}"]
            case ReportedBuild():
                if row.status == "failed":
                    return ["verdict:fail"]
                own = {verdict for (of, _), verdict in self.verdicts.items() if of == row.build_id}
                return [f"verdict:{verdict}" for verdict in sorted(own)]

    def _device_keys(self, row: Result | ReportedBuild | Diagnosis) -> list[str]:
        if isinstance(row, ReportedBuild):
            own = {device for build_id, device in self.verdicts if build_id == row.build_id}
        else:
            own = {row.device if isinstance(row, Diagnosis) else row.device.id}
        return [f"device:{self.devices[device]}" for device in sorted(own & set(self.devices))]


def row_keys(report: Report) -> RowKeys:
    """The keys of a report's rows."""
    recipes: dict[str, str | None] = {b.build_id: b.recipe for b in report.builds}
    recipes |= {r.configuration.build_id: r.recipe for r in report.results}
    verdicts: dict[tuple[str, str], str] = {
        (r.configuration.build_id, r.device.id): r.verdict for r in report.results
    }
    return RowKeys(recipes, verdicts, {one.id: place for place, one in enumerate(reading.devices(report))})


def filter_groups(report: Report) -> tuple[FilterGroup, ...]:
    """The groups in which there is something to choose."""
    formats = list(dict.fromkeys(_formats(report)))
    platforms = [p for p in PLATFORMS if any(p in PLATFORMS_OF[f] for f in formats if f is not None)]
    verdicts = [v for v in VERDICTS if any(r.verdict == v for r in report.results)]
    devices = enumerate(reading.devices(report))
    groups = (
        FilterGroup(
            "format", "Format", tuple(Choice(f"format:{f or 'other'}", format_name(f)) for f in formats)
        ),
        FilterGroup(
            "platform", "Platform", tuple(Choice(f"platform:{p}", platform_name(p)) for p in platforms)
        ),
        FilterGroup("verdict", "Verdict", tuple(Choice(f"verdict:{v}", VERDICTS[v], v) for v in verdicts)),
        FilterGroup("device", "Device", tuple(Choice(f"device:{i}", one.name) for i, one in devices)),
    )
    return tuple(group for group in groups if len(group.choices) > 1)


def _formats(report: Report) -> Iterator[Format | None]:
    recipes: Iterable[str | None] = [b.recipe for b in report.builds] + [r.recipe for r in report.results]
    return (format_of(recipe) for recipe in recipes)


def _format_keys(form: Format | None) -> list[str]:
    if form is None:
        return ["format:other"]
    return [f"format:{form}", *(f"platform:{platform}" for platform in PLATFORMS_OF[form])]
