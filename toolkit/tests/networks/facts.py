"""What tests ask of a report."""

import math
from dataclasses import dataclass

from phoneproof.report.model import Report, ReportedBuild, Result


@dataclass(frozen=True)
class Facts:
    """A report by the ends of its build ids: `tflite-int8`, `tflite-int8/entropy`, `model/onnx/onnx-int8`."""

    report: Report

    def build(self, end: str) -> ReportedBuild:
        (found,) = (
            one for one in self.report.builds if one.build_id.endswith(f"/{end}") or one.build_id == end
        )
        return found

    def result(self, end: str) -> Result:
        wanted = self.build(end).build_id
        (found,) = (one for one in self.report.results if one.configuration.build_id == wanted)
        return found

    def parity(self, end: str) -> dict[str, float]:
        """SQNR in dB of each output; infinite where it is equal."""
        told = self.result(end).parity
        assert told is not None, f"{end} has no outputs"
        values = {one.output: math.inf if one.exact else one.sqnr_db for one in told}
        return {name: value for name, value in values.items() if value is not None}

    def ratio(self, end: str) -> float:
        """Size against the float build of the format."""
        size = self.result(end).size
        assert size is not None, end
        return size.ratio

    def built(self) -> set[str]:
        """Ids without the model and its format."""
        return {one.build_id.split("/", 2)[2] for one in self.report.builds if one.error is None}

    def failed(self) -> dict[str, str]:
        """What kept a build from being made, by its whole id."""
        return {one.build_id: one.error.what for one in self.report.builds if one.error is not None}

    def float_types(self, end: str) -> set[str]:
        return {one.type for one in self.build(end).float_operators}
