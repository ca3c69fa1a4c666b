"""How one build took its edge inputs: out of events and output files, judged beside the reference."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from phoneproof.builds.manifest import source_named
from phoneproof.errors import ProtocolError
from phoneproof.jobs.planning import Placement
from phoneproof.protocol.attempts import Outcome
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.runs.building import FinishedBuild
from phoneproof.runs.edge_inputs import EdgeSet, ModelEdges
from phoneproof.runs.edge_reference import EdgeReference
from phoneproof.runs.verifying import DeviceRun
from phoneproof.verify.edge import EdgeJudgement, JudgedOutput, Taken, judge_edge
from phoneproof.verify.edge_outputs import bad_ends, judged_outputs, taken
from phoneproof.verify.outputs import KeptOutputs
from phoneproof.verify.parity import LabelParity, OutputParity


@dataclass(frozen=True)
class EdgeYardstick:
    """What a model's builds are judged against on edge inputs. outputs: the source model's. peak: greatest
    magnitude of each on the evaluation set. scored: the output with scores of classes."""

    edges: ModelEdges
    reference: EdgeReference
    outputs: tuple[TensorSpec, ...]
    peak: Mapping[str, float]
    scored: str | None

    def reference_taken(self, label: str) -> Iterator[tuple[str, Taken]]:
        """What the source model made of its own set of that label, by name; nothing where it was not run."""
        for own in self.edges.source:
            if own.label == label and self.reference.error is None:
                file = self.reference.outputs.get(label)
                kept = None if file is None else KeptOutputs(file, self.outputs)
                found = taken(kept, self.reference.bad.get(label, {}), len(own.samples))
                yield from zip((one.name for one in own.samples), found, strict=True)


@dataclass(frozen=True)
class MeasuredEdge:
    """One edge input of one build. sample: its number in the case."""

    name: str
    case_id: str
    sample: int
    outcome: Outcome
    judgement: EdgeJudgement


@dataclass(frozen=True)
class MeasuredEdges:
    """What a build made of all its edge inputs. not_held: names of those that its inputs do not hold."""

    results: tuple[MeasuredEdge, ...] = ()
    not_held: tuple[str, ...] = ()

    @property
    def outcomes(self) -> dict[Outcome, int]:
        """Number of edge inputs by outcome."""
        counts: dict[Outcome, int] = {}
        for one in self.results:
            counts[one.outcome] = counts.get(one.outcome, 0) + 1
        return counts


NO_EDGES: Final = MeasuredEdges()
"""Where none was tried."""


def measure_edges(
    run: DeviceRun,
    build: FinishedBuild,
    placement: Placement,
    yardstick: EdgeYardstick | None,
    parity: Mapping[str, OutputParity | LabelParity],
) -> MeasuredEdges:
    """Every edge input of one build at one place. parity: of the same, on the evaluation set."""
    manifest = build.manifest
    if yardstick is None or manifest is None:
        return NO_EDGES
    tensors = source_named(manifest.outputs, manifest.source_names)
    outputs = judged_outputs(yardstick.outputs, tensors, parity, yardstick.peak, yardstick.scored)
    sets = {
        one.label: one
        for one in yardstick.edges.as_taken(source_named(manifest.inputs, manifest.source_names))
    }
    found: list[MeasuredEdge] = []
    for case in run.planned.cases_of(build.wanted.build_id, placement):
        if case.edge is not None:
            found += _of_case(run, case.case_id, sets[case.edge], tensors, yardstick, outputs)
    not_held = tuple(name for one in sets.values() for name in one.not_held)
    return MeasuredEdges(tuple(found), not_held)


def _of_case(
    run: DeviceRun,
    case_id: str,
    edge_set: EdgeSet,
    tensors: tuple[TensorSpec, ...],
    yardstick: EdgeYardstick,
    outputs: tuple[JudgedOutput, ...],
) -> list[MeasuredEdge]:
    path = None if run.results is None else run.results.outputs.get(case_id)
    bad = bad_ends(run.ends[case_id], len(edge_set.samples))
    kept = None if path is None else KeptOutputs(path, tensors)
    try:
        return _judged(case_id, edge_set, taken(kept, bad, len(edge_set.samples)), yardstick, outputs)
    except ProtocolError:  # outputs of another form than the build declares, which its parity tells
        return _judged(case_id, edge_set, taken(None, bad, len(edge_set.samples)), yardstick, ())


def _judged(
    case_id: str,
    edge_set: EdgeSet,
    ends: Iterator[Taken],
    yardstick: EdgeYardstick,
    outputs: tuple[JudgedOutput, ...],
) -> list[MeasuredEdge]:
    """Both sides are read side by side: a build's set is the source model's without what it does not hold."""
    reference = yardstick.reference_taken(edge_set.label)
    found = []
    for sample, (listed, end) in enumerate(zip(edge_set.samples, ends, strict=True)):
        expected = next((one for name, one in reference if name == listed.name), None)
        judgement = judge_edge(listed.range, expected, end, outputs)
        found.append(MeasuredEdge(listed.name, case_id, sample, end.outcome, judgement))
    return found
