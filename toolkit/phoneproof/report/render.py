"""All files of a report, out of its model."""

from pathlib import Path

from phoneproof.report.json_report import write_report
from phoneproof.report.model import Report


def render(report: Report, folder: Path) -> tuple[Path, ...]:
    """Write report.json, index.html, report.csv, junit.xml and summary.md into `folder`, made if it is
    missing; return their paths.

    The data come first: no other file is ever newer than the numbers that it shows.
    Raises ProtocolError for a float that is not finite, StorageError if a file cannot be written.
    """
    from phoneproof.report.csv_report import write_csv
    from phoneproof.report.html import write_html
    from phoneproof.report.junit import write_junit
    from phoneproof.report.markdown import write_markdown

    written = write_report(report, folder)
    return (
        written,
        write_html(report, folder),
        write_csv(report, folder),
        write_junit(report, folder),
        write_markdown(report, folder),
    )
