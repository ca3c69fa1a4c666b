"""All files of a report, out of its model."""

from pathlib import Path

from phoneproof.report.json_report import write_report
from phoneproof.report.model import Report


def render(report: Report, folder: Path) -> tuple[Path, ...]:
    """Write report.json and index.html into `folder`, made if it is missing; return their paths.

    The data come first: a page is never newer than the numbers that it shows.
    Raises ProtocolError for a float that is not finite, StorageError if a file cannot be written.
    """
    from phoneproof.report.html import write_html

    return write_report(report, folder), write_html(report, folder)
