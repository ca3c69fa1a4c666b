"""Settings for all tests."""

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

# Hypothesis fails an example that takes more than 200 ms: on a machine with two busy cores that is chance.
# Its own profile for CI (derandomised) is kept where CI is set, because the new profile starts from it.
settings.register_profile("no-deadline", settings(), deadline=None)
settings.load_profile("no-deadline")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a test that cannot run has failed: a part that is never tried there is not tested at all."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which in CI is a failure: {report.longrepr}"
    return report
