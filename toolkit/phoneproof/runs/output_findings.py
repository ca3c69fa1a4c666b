"""Findings on what builds answered, where a fault has a name of its own."""

from collections.abc import Iterator

from phoneproof.findings import Finding
from phoneproof.runs.measuring import Measurement


def output_findings(measured: Measurement) -> Iterator[Finding]:
    """One for each fault of each output of a build at a place."""
    for output, fault in measured.faults:
        yield Finding.of(fault.id, measured.build.wanted.build_id, output=output, **fault.facts)
