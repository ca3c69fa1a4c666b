"""Make the networks of toolkit/tests/networks, run their plans, and write docs/networks.md of what came out.

With --folder, projects and the store are kept there, and runs that are finished are only read again.
"""

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "toolkit"))

from phoneproof.builds.manifest import FloatOperator  # noqa: E402
from phoneproof.report import units  # noqa: E402
from phoneproof.report.json_report import read_report  # noqa: E402
from phoneproof.report.model import Parity, Report, ReportedBuild, Result  # noqa: E402
from phoneproof.report.sentences import reason_sentence  # noqa: E402
from phoneproof.report.words import FLOAT_REASONS  # noqa: E402
from tests.networks.project import NETWORKS, Network, prepare, run  # noqa: E402

PAGE = ROOT / "docs" / "networks.md"

BEGINNING = """\
# Networks

Written by `scripts/networks_page.py`, which makes each network and its data, and runs its plan on the host
with one thread; do not edit it by hand. The same plans are tests (`toolkit/tests/networks`).

Made on {date} on {machine}. Times are left out: they say nothing about phones.

- **size**: against the float32 build of the same format.
- **parity**: SQNR against the source model, over all samples, of the output that agrees least.
- **worst slice**: the same of a single class, feature or place of an output, which decides the verdict. Gates
  are the defaults of the [plan](plan.md#gates).
- **in float**: operators of an int8 build that compute in float.

Random weights and synthesised sounds test the converters. They say nothing about the accuracy of trained
networks on real data.
"""


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="where the projects are kept")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.folder or Path(temporary)).absolute()
        reports = {network: report_of(network, folder) for network in NETWORKS}
    first = next(iter(reports.values()))
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors"
    head = BEGINNING.format(date=first.run.created[:10], machine=machine)
    versions = f"\n{versions_line(reports.values())}\n"
    PAGE.write_text(head + versions + "".join(section(*one) for one in reports.items()), encoding="utf-8")


def report_of(network: Network, folder: Path) -> Report:
    """Of the network's run in the folder; made if it is not there."""
    project = folder / network.module
    finished = project / "run" / "report" / "report.json"
    if finished.is_file():
        return read_report(finished)
    if not project.exists():
        prepare(network, project)
    return run(project, folder / "store")


def versions_line(reports: Iterable[Report]) -> str:
    """Versions of all toolchains and runtimes, as one sentence."""
    found: dict[str, str] = {}
    for report in reports:
        for build in report.builds:
            found.update(build.tool_versions)
    return "Versions: " + ", ".join(f"{name} {version}" for name, version in sorted(found.items())) + "."


def section(network: Network, report: Report) -> str:
    """A heading, a table, and the limits that were met."""
    lines = [f"\n## {network.title}\n", f"{network.about}\n"]
    lines += ["| build | size | parity | worst slice | in float | verdict |", "|---|---|---|---|---|---|"]
    results = {result.configuration.build_id: result for result in report.results}
    lines += [row(build, results.get(build.build_id)) for build in report.builds]
    limits = [line for build in report.builds for line in limits_of(build, results.get(build.build_id))]
    lines += ["", "Limits:\n", *dict.fromkeys(limits)] if limits else []
    return "\n".join(lines) + "\n"


def row(build: ReportedBuild, result: Result | None) -> str:
    """A build's line of the table."""
    name = f"| `{build.build_id}` "
    if build.error is not None:
        return name + "| | | | | not built |"
    size = units.bytes_text(build.size_bytes or 0)
    ratio = result.size.ratio if result is not None and result.size is not None else None
    told = size if ratio is None else f"{ratio:.2f} ({size})"
    whole, worst = ("", "") if result is None or result.parity is None else parity_of(result.parity)
    verdict = "" if result is None else result.verdict
    return f"{name}| {told} | {whole} | {worst} | {len(build.float_operators) or ''} | {verdict} |"


def parity_of(outputs: Sequence[Parity]) -> tuple[str, str]:
    """SQNR of the output that agrees least, and of the slice that does, of whichever output."""
    unequal = [one for one in outputs if not one.exact]
    if not unequal:
        return "equal", "equal"
    if any(one.sqnr_db is None for one in unequal):
        return "not defined", ""
    slices = [one.worst_slice_db for one in unequal if one.worst_slice_db is not None]
    return decibel(min(one.sqnr_db or 0.0 for one in unequal)), decibel(min(slices, default=None))


def decibel(value: float | None) -> str:
    """Empty where it is not defined."""
    return "" if value is None else f"{value:.1f} dB"


def limits_of(build: ReportedBuild, result: Result | None) -> Iterator[str]:
    """Why it was not built, why it does not pass, and why operators stay in float."""
    name = f"- `{build.build_id}`"
    if build.error is not None:
        yield f"{name}, not built: {build.error.what} {build.error.next_step or ''}".rstrip()
        return
    if result is not None and result.verdict != "pass":
        yield f"{name}, {result.verdict}: {reason_sentence(result.reason)}"
    for why in sorted({one.reason for one in build.float_operators}):
        kinds = sorted({kind(one) for one in build.float_operators if one.reason == why})
        yield f"{name}, in float: {', '.join(kinds)}: {FLOAT_REASONS[why]}."


def kind(operator: FloatOperator) -> str:
    """Type of an operator."""
    return f"`{operator.type}`"


if __name__ == "__main__":
    main()
