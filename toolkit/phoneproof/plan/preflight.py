"""Static checks of a plan before anything is started: under 2 s, and no vendor's package is imported."""

import csv
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

from phoneproof.data.file_sets import IMAGE_SUFFIXES
from phoneproof.errors import (
    DataError,
    PhoneproofError,
    PlanError,
    RequestError,
    SourceModelError,
    StorageError,
    ToolchainError,
)
from phoneproof.plan.data_section import (
    AnySet,
    CsvSection,
    EntryPointSection,
    ImageFolderSection,
    NpySection,
    NpzSection,
    Role,
)
from phoneproof.plan.entry_points import check_entry_point
from phoneproof.plan.found_data import has_image
from phoneproof.plan.model import Plan, PlannedBuild
from phoneproof.plan.model_section import ModelSection
from phoneproof.plan.values import ENTRY_POINT
from phoneproof.plan.wording import nearest
from phoneproof.recipes.build_headers import read_build_header
from phoneproof.recipes.runtime_table import ONNX_EXPORTERS, READER_OF, runtime_on_host
from phoneproof.recipes.source_headers import check_source, check_state
from phoneproof.recipes.table import SourceFormat
from phoneproof.recipes.toolchain_table import TOOLCHAINS, installed_versions, version_findings

PackageCheck = Callable[[str], PhoneproofError | None]
"""What is wrong with the environment of the toolchain of that name; None if it can be used."""

_SPARE_BYTES: Final = 200_000_000
"""For samples, outputs and logs of a small run; what is over is refused when it is written."""


class Need(StrEnum):
    """What is going to be done with the plan."""

    BUILD = "build"
    VERIFY = "verify"


EVERYTHING: Final = frozenset(Need)

_SET_PLACES: Final[Mapping[Role, tuple[str, str]]] = {
    "calibration": ("data", "calibration"),
    "evaluation": ("data", "evaluation"),
    "edge": ("edge", "own"),
}
"""Where in a plan each set stands."""


def preflight(
    plan: Plan,
    *,
    out: Path,
    needs: frozenset[Need] = EVERYTHING,
    package_check: PackageCheck | None = None,
    free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
) -> tuple[PhoneproofError, ...]:
    """Everything that would stop the plan later and can be seen now, each with its place and next step.

    package_check: asked once for each toolchain whose packages the plan needs, to build or to run;
        None is `missing_here`, which does not know managed environments.
    out: where the run is going to be written; it need not exist.
    """
    return (
        *_models(plan),
        *_files(plan),
        *_sets(plan, needs),
        *_metrics(plan),
        *_packages(plan, package_check or missing_here, needs),
        *_disk(plan, out, free_bytes),
    )


def missing_here(name: str) -> PhoneproofError | None:
    """A PackageCheck for this interpreter alone, out of the metadata of installed packages."""
    toolchain = TOOLCHAINS[name]
    try:
        version_findings(toolchain, installed_versions(toolchain))
    except ToolchainError as error:
        return error
    return None


def _models(plan: Plan) -> Iterator[PhoneproofError]:
    for index, model in enumerate(plan.models):
        where = plan.where("models", index, "source")
        if model.is_entry_point:
            yield from _told(where, partial(check_entry_point, model.source, plan.folder, where))
        else:
            yield from _told(where, partial(check_source, plan.locate(model.source), model.format))
        if model.state is not None:
            check = partial(check_state, plan.locate(model.state))
            yield from _told(plan.where("models", index, "state"), check)


def _told(where: str, check: Callable[[], None]) -> Iterator[PhoneproofError]:
    """What a check of a source raises, with its place in the plan."""
    try:
        check()
    except RequestError as error:
        yield _at(where, error)
    except OSError as error:
        what = f"It cannot be read: {error.strerror}."
        yield SourceModelError(what, where=where, next_step="Correct the path, or its permissions.")


def _at(where: str, error: RequestError) -> RequestError:
    """The error with its place in the plan before the place it names itself."""
    place = where if error.where in (None, where) else f"{where}: {error.where}"
    return type(error)(error.what, where=place, next_step=error.next_step, **error.facts)


def _sets(plan: Plan, needs: frozenset[Need]) -> Iterator[PhoneproofError]:
    static = [build.build_id for build in plan.planned_builds() if build.recipe.needs_calibration]
    if static and plan.data.calibration is None and Need.BUILD in needs:
        yield DataError(
            f"{static[0]} needs a calibration set, and the plan names none.",
            where=plan.where("data", "calibration"),
            next_step="Add [data.calibration] with kind and path, or use a recipe without calibration.",
            builds=tuple(static),
        )
    if plan.data.evaluation is None and Need.VERIFY in needs:
        yield DataError(
            "Builds are judged on an evaluation set, and the plan names none.",
            where=plan.where("data", "evaluation"),
            next_step="Add [data.evaluation] with kind and path.",
        )
    sets: dict[Role, AnySet | None] = {
        "calibration": plan.data.calibration,
        "evaluation": plan.data.evaluation,
        "edge": plan.edge.own if plan.edge.run else None,
    }
    for role, section in sets.items():
        if section is None:
            continue
        try:
            _check_set(plan, section, role)
        except RequestError as error:
            yield error
        except OSError as error:
            what = f"The {role} set cannot be read: {error.strerror}."
            yield DataError(what, where=plan.where(*_SET_PLACES[role]), next_step="Check its permissions.")


def _check_set(plan: Plan, section: AnySet, role: Role) -> None:
    place = _SET_PLACES[role]
    where = plan.where(*place, "path")
    match section:
        case EntryPointSection():
            function = plan.where(*place, "function")
            check_entry_point(section.function, plan.locate(section.folder), function)
        case ImageFolderSection():
            folder = _existing(plan, section.path, where, folder=True)
            if not has_image(folder):
                step = f"Images end in {', '.join(sorted(IMAGE_SUFFIXES))}."
                raise DataError("The folder holds no images.", where=f"{where}: {folder}", next_step=step)
        case CsvSection():
            _check_csv(plan, section, role, _existing(plan, section.path, where))
        case NpzSection():
            _check_start(_existing(plan, section.path, where), b"PK", "an .npz archive", where)
        case NpySection():
            _check_start(_existing(plan, section.path, where), b"\x93NUMPY", "an .npy file", where)
            if section.labels_path is not None:
                labels = plan.where(*place, "labels_path")
                _check_start(
                    _existing(plan, section.labels_path, labels), b"\x93NUMPY", "an .npy file", labels
                )


def _existing(plan: Plan, path: str, where: str, *, folder: bool = False) -> Path:
    located = plan.locate(path)
    if not located.exists():
        step = "Correct the path; it starts from the folder of the plan."
        if located.parent.is_dir():
            step += f" {_neighbours(located)}"
        raise DataError("It does not exist.", where=f"{where}: {located}", next_step=step.rstrip())
    if not (located.is_dir() if folder else located.is_file()):
        wanted = "folder" if folder else "file"
        raise DataError(
            f"It is no {wanted}.", where=f"{where}: {located}", next_step="Set kind or path right."
        )
    return located


def _neighbours(path: Path) -> str:
    names = [entry.name for entry, _ in zip(path.parent.iterdir(), range(1000), strict=False)]
    said = nearest(path.name, names)
    return said if said.startswith("Did") else ""


def _check_start(path: Path, magic: bytes, expected: str, where: str) -> None:
    with path.open("rb") as file:
        start = file.read(len(magic))
    if start != magic:
        what = "The file is empty." if not start else f"The file is not {expected}."
        raise DataError(what, where=f"{where}: {path}", next_step="Set kind or path right.")


def _check_csv(plan: Plan, section: CsvSection, role: Role, path: Path) -> None:
    with path.open("rb") as file:
        utf16 = file.read(2) in (b"\xff\xfe", b"\xfe\xff")
    encoding = section.encoding or ("utf-16" if utf16 else "utf-8-sig")
    where = f"{plan.where(*_SET_PLACES[role], 'path')}: {path}"
    try:
        with path.open(encoding=encoding, newline="") as text:
            rows = csv.reader(text, delimiter=section.delimiter)
            header, first = next(rows, None), next(rows, None)
    except (UnicodeError, LookupError, csv.Error) as error:
        step = "Set encoding and delimiter to those of the file."
        raise DataError(f"The CSV file cannot be read: {error}.", where=where, next_step=step) from None
    if header is None or first is None:
        raise DataError("The CSV file has no lines below its header.", where=where, next_step="Fill it.")
    for key in ("path_column", "label_column"):
        column = getattr(section, key)
        if column is not None and column not in header:
            what = f"The CSV file has no column {column!r}."
            place = f"{plan.where(*_SET_PLACES[role], key)}: {path}"
            raise DataError(what, where=place, next_step=nearest(column, header))


def _metrics(plan: Plan) -> Iterator[PhoneproofError]:
    for index, metric in enumerate(plan.task.metrics):
        if ENTRY_POINT.fullmatch(metric):
            try:
                check_entry_point(metric, plan.folder, plan.where("task", "metrics", index))
            except PlanError as error:
                yield error


def _files(plan: Plan) -> Iterator[PhoneproofError]:
    """Builds that were made elsewhere: each must be what its suffix says."""
    for index, build in enumerate(plan.planned_builds()):
        if build.file is None:
            continue
        where = plan.where("builds", index, "file")
        try:
            read_build_header(plan.locate(build.file))
        except RequestError as error:
            yield _at(where, error)


def needed_toolchains(plan: Plan, needs: frozenset[Need]) -> tuple[str, ...]:
    """Every toolchain whose packages the plan needs: to read the models, to build, and to run."""
    names = {READER_OF[model.format] for model in plan.models}
    for build in plan.planned_builds():
        names |= _toolchains_of(build, needs)
    return tuple(sorted(names))


def _toolchains_of(build: PlannedBuild, needs: frozenset[Need]) -> set[str]:
    runtime = runtime_on_host(build.recipe.runtime)
    if build.route is None:
        return {runtime.toolchain}
    names = {runtime.toolchain} if Need.VERIFY in needs else set()
    if Need.BUILD in needs:
        names.add(build.route.toolchain)
        if build.route.through is SourceFormat.ONNX:
            names.add(ONNX_EXPORTERS[build.model.format])
    return names


def _packages(plan: Plan, check: PackageCheck, needs: frozenset[Need]) -> Iterator[PhoneproofError]:
    for name in needed_toolchains(plan, needs):
        problem = check(name)
        if problem is not None:
            yield problem


def _disk(plan: Plan, out: Path, free_bytes: Callable[[Path], int]) -> Iterator[PhoneproofError]:
    """Room for one copy of its source model per build and for each baseline; a quantized build is smaller."""
    folder = out.absolute()
    while not folder.exists():
        folder = folder.parent
    sizes = {model.name: _size_bytes(plan, model) for model in plan.models}
    needed = (
        sum(sizes.values()) + sum(sizes.get(b.model.name, 0) for b in plan.planned_builds()) + _SPARE_BYTES
    )
    free = free_bytes(folder)
    if free < needed:
        yield StorageError(
            f"The disk has {free / 1e9:.1f} GB free, and the builds need {needed / 1e9:.1f} GB.",
            where=str(folder),
            next_step="Free some space, or choose another folder with --out.",
            free_bytes=free,
            needed_bytes=needed,
        )
    if not os.access(folder, os.W_OK):
        yield StorageError(
            "The folder cannot be written to.", where=str(folder), next_step="Choose another with --out."
        )


def _size_bytes(plan: Plan, model: ModelSection) -> int:
    """Size of the model's files; 0 where they cannot be read, which is told elsewhere."""
    source = model.state if model.is_entry_point else model.source
    if source is None:
        return 0
    path = plan.locate(source)
    try:
        if path.is_dir():
            return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        return path.stat().st_size
    except OSError:
        return 0
