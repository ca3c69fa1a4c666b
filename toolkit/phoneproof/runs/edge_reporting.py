"""Edge inputs in the report: what was tried, how each build took it, and what that says."""

import base64
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from phoneproof.data.edge import MADE_OF_DATA
from phoneproof.data.preprocessing import ColourOrder
from phoneproof.data.store import PIXELS, SampleStore
from phoneproof.errors import Fact
from phoneproof.findings import Finding
from phoneproof.plan.model import Plan
from phoneproof.report.edge import EdgeInput, EdgeResult
from phoneproof.report.model import NotMeasured
from phoneproof.runs.edge_inputs import OWN, Edges, EdgeSet, ModelEdges
from phoneproof.runs.edge_measuring import MeasuredEdge, MeasuredEdges
from phoneproof.runs.edge_reference import EdgeReference
from phoneproof.verify.verdicts import Reason

LONGEST_SIDE: Final = 64
"""Pixels of a thumbnail: forty of them add less than half a megabyte to a report."""

_FOUND_BY: Final[Mapping[str, str]] = {
    "edge_crashed": "EDGE-CRASH",
    "edge_hung": "EDGE-CRASH",
    "edge_out_of_memory": "EDGE-CRASH",
    "edge_refused": "EDGE-ERROR",
    "edge_nonfinite": "EDGE-NONFINITE",
    "edge_constant": "EDGE-CONSTANT",
    "edge_railed": "EDGE-CONSTANT",
    "edge_flipped": "EDGE-FLIPPED",
}
"""Finding by the reason of a failure."""


def edge_results(edges: MeasuredEdges) -> tuple[EdgeResult, ...]:
    """How one build took each edge input."""
    return tuple(
        EdgeResult(
            one.name, one.case_id, one.sample, one.outcome, one.judgement.verdict, one.judgement.reason
        )
        for one in edges.results
    )


def edge_findings(build_id: str, edges: MeasuredEdges) -> Iterator[Finding]:
    """One finding for each kind of failure of a build, and one for what it did out of range."""
    failed: dict[str, list[MeasuredEdge]] = {}
    for one in edges.results:
        if one.judgement.verdict == "fail":
            failed.setdefault(_FOUND_BY[one.judgement.reason.id], []).append(one)
    for found, listed in failed.items():
        names = tuple(one.name for one in listed)
        causes = tuple(dict.fromkeys(_cause(one.judgement.reason) for one in listed))
        known = tuple(cause for cause in causes if cause)
        alike = tuple(one.name for one in listed if one.judgement.reason.facts.get("source_too"))
        facts: dict[str, Fact] = {
            "count": len(names),
            "inputs": names,
            "causes": known or None,
            "alike": alike or None,
        }
        yield Finding.of(found, build_id, **facts)
    flipped = tuple(one.name for one in edges.results if one.judgement.reason.id == "edge_flipped_beyond")
    if flipped:
        yield Finding.of("EDGE-BEYOND-DATA", build_id, count=len(flipped), inputs=flipped)
    beyond = [one for one in edges.results if _differs(one.judgement.reason)]
    if beyond:
        told = tuple(_beyond(one) for one in beyond)
        yield Finding.of("EDGE-OUT-OF-RANGE", build_id, count=len(beyond), inputs=told)


def _differs(reason: Reason) -> bool:
    """Whether a build does something else beyond the data than the source model, as far as that is told."""
    facts = reason.facts
    alike = facts.get("float_gives") == facts.get("build_gives") and facts.get("same_first_class", True)
    return not alike


def _cause(reason: Reason) -> str:
    told = reason.facts.get("cause") or reason.facts.get("error")
    if reason.id in ("edge_crashed", "edge_refused", "edge_hung", "edge_out_of_memory"):
        return str(told or "")
    return ""


def _beyond(one: MeasuredEdge) -> str:
    facts = one.judgement.reason.facts
    return f"{one.name}: float gives {facts['float_gives']}, the build {facts['build_gives']}"


def model_findings(
    key: str, edges: ModelEdges, reference: EdgeReference, builds: Iterable[MeasuredEdges]
) -> Iterator[Finding]:
    """What edge inputs say of a source model and its preprocess. builds: what its builds made of them, which
    tells where the source model is not finite."""
    if edges.refused:
        told = tuple(f"{one.id}: {one.reason}" for one in edges.refused)
        yield Finding.of("EDGE-REFUSED", key, count=len(told), inputs=told)
    guessed = tuple(one.name for a_set in edges.source for one in a_set.samples if one.guess)
    if guessed:
        yield Finding.of("EDGE-VOCABULARY-GUESSED", key, inputs=guessed)
    ended = tuple(
        f"{a_set.samples[sample].name}: {bad.outcome}"
        for a_set in edges.source
        for sample, bad in sorted(reference.bad.get(a_set.label, {}).items())
        if bad.outcome != "not_run" and (bad.outcome != "failed" or a_set.samples[sample].range == "in_range")
    )
    nonfinite = dict.fromkeys(
        f"{one.name}: not finite"
        for made in builds
        for one in made.results
        if one.judgement.reason.id == "edge_reference_nonfinite"
    )
    if ended or nonfinite:
        told = (*ended, *nonfinite)
        yield Finding.of("EDGE-REFERENCE", key, count=len(told), inputs=told)


def edge_inputs(plan: Plan, edges: Edges) -> tuple[EdgeInput, ...]:
    """All edge inputs that were made, by model, in the order in which they are run."""
    return tuple(
        one for key, found in edges.items() for a_set in found.source for one in _of_set(plan, key, a_set)
    )


def _of_set(plan: Plan, key: str, a_set: EdgeSet) -> Iterator[EdgeInput]:
    own = a_set.label == OWN
    store = a_set.open()
    for number, listed in enumerate(a_set.samples):
        is_of_data = own or listed.name in MADE_OF_DATA
        shown = plan.data.may_leave or not is_of_data
        picture = _thumbnail(plan, store, number) if shown else None
        if picture is None:
            yield EdgeInput(key, listed.name, listed.range, own)
        else:
            text, width, height = picture
            yield EdgeInput(key, listed.name, listed.range, own, text, width, height)


def _thumbnail(plan: Plan, store: SampleStore, number: int) -> tuple[str, int, int] | None:
    """(PNG in base64, width, height) of stored pixels; None where no pixels are stored."""
    from PIL import Image  # loads slowly, and is not needed where nothing is reported

    stored = store.stored.inputs[0]
    preprocess = plan.data.preprocess
    if stored.encoding != PIXELS or preprocess is None:
        return None
    levels: npt.NDArray[np.uint8] = store.rows(stored.name, number, 1)[0]
    if preprocess.colour_order is ColourOrder.BGR:
        levels = levels[:, :, ::-1]
    image = Image.fromarray(np.ascontiguousarray(levels if levels.shape[2] == 3 else levels[:, :, 0]))
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    written = io.BytesIO()
    image.save(written, "PNG", optimize=True)
    return base64.b64encode(written.getvalue()).decode("ascii"), image.width, image.height


def edge_not_measured(
    plan: Plan, references: Mapping[str, EdgeReference], builds: Sequence[tuple[str, MeasuredEdges]]
) -> Iterator[NotMeasured]:
    """Edge inputs that were not tried, or had nothing to be judged by. builds: build_id and what it made."""
    if not plan.edge.run:
        yield NotMeasured("edge inputs", Reason.of("not_measured", why="not_asked"))
    for key, reference in references.items():
        if reference.error is not None:
            facts: dict[str, Fact] = {"why": "reference_failed", "error": reference.error.what}
            yield NotMeasured(f"edge inputs of {key}", Reason("not_measured", facts))
    for build_id, edges in builds:
        if edges.not_held:
            names = ", ".join(edges.not_held)
            yield NotMeasured(f"{names} of {build_id}", Reason.of("not_measured", why="not_held"))
