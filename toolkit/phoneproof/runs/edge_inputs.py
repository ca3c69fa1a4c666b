"""The edge inputs of a run: made, stored, and found again for each build that takes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phoneproof.builds.manifest import source_named
from phoneproof.builds.store import cache_key
from phoneproof.data.edge import EdgeKind
from phoneproof.data.edge_sets import ListedEdge, Result, StoredEdgeSet
from phoneproof.data.set_specs import EntryPoint, set_to_dict
from phoneproof.data.store import SampleStore, SkippedSample
from phoneproof.data.subset import ALL
from phoneproof.plan.data_section import DeclaredSet
from phoneproof.plan.model import Plan
from phoneproof.protocol.codec import from_dict, to_dict
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.runs.audit import SIZE_CAP_KEY, Audit, AuditedModel, is_sound, part_of, set_mark
from phoneproof.runs.building import FinishedBuild
from phoneproof.runs.planned import edge_inputs_step
from phoneproof.runs.steps import RunContext

Inputs = tuple[TensorSpec, ...]

OWN: str = "own"
"""The label of the plan's own samples."""


@dataclass(frozen=True)
class EdgeSet:
    """A stored set of edge inputs. label: images, values or own. samples: in the set's order. not_held: names
    of those that the dtypes of the build's inputs do not hold."""

    label: str
    path: Path
    digest: str
    samples: tuple[ListedEdge, ...]
    not_held: tuple[str, ...]

    def open(self) -> SampleStore:
        """Access to the samples."""
        return SampleStore.open(self.path)


@dataclass(frozen=True)
class ModelEdges:
    """The edge inputs of one source model. source: as it takes them itself. refused: files that the
    preprocess does not take, and why."""

    kind: EdgeKind
    source: tuple[EdgeSet, ...]
    refused: tuple[SkippedSample, ...]
    by_inputs: Mapping[str, tuple[EdgeSet, ...]]

    def as_taken(self, inputs: Inputs) -> tuple[EdgeSet, ...]:
        """The sets for a build with these inputs, named as the source model names them."""
        return self.by_inputs[_key(inputs)]


Edges = Mapping[str, ModelEdges]
"""By the key of the source model; empty where the plan tries none."""


def store_edge_inputs(
    context: RunContext, plan: Plan, audit: Audit, builds: Sequence[FinishedBuild]
) -> dict[str, ModelEdges]:
    """Put all edge inputs into the store, or find them there. DataError as the worker's `carry_out`."""
    if not plan.edge.run:
        return {}
    found = {}
    for key, model in audit.models.items():
        made = [b.manifest for b in builds if b.wanted.model == key and b.manifest is not None]
        taken = dict.fromkeys([model.facts.inputs, *(source_named(m.inputs, m.source_names) for m in made)])
        found[key] = _model_edges(context, plan, model, tuple(taken))
    return found


def _key(inputs: Inputs) -> str:
    return cache_key({"inputs": to_dict(tuple(sorted(inputs, key=lambda tensor: tensor.name)))})


def _model_edges(
    context: RunContext, plan: Plan, model: AuditedModel, taken: tuple[Inputs, ...]
) -> ModelEdges:
    order = [tensor.name for tensor in model.facts.inputs]
    targets = tuple(tuple(sorted(inputs, key=lambda t: order.index(t.name))) for inputs in taken)
    declared = plan.declared_set("edge")
    request = _request(context, plan, model, targets, declared)
    step = edge_inputs_step(model.section.key)
    spec = None if declared is None else declared.spec
    python_path = (Path(spec.folder),) if isinstance(spec, EntryPoint) else ()

    def make() -> tuple[dict[str, Any], str]:
        answer = context.call(step, "phoneproof.data.edge_sets", request, python_path=python_path)
        return answer, "made"

    key = cache_key(
        {"request": request, "own": set_mark(plan, "edge", model.facts.inputs, context.store.root)}
    )
    result = from_dict(Result, dict(context.step(step, key, make)))
    if not all(is_sound(Path(one.path)) for sets in result.targets for one in sets):
        result = from_dict(Result, make()[0])
    sets = [tuple(_edge_set(one) for one in stored) for stored in result.targets]
    by_inputs = {_key(inputs): found for inputs, found in zip(targets, sets, strict=True)}
    return ModelEdges(result.kind, sets[0], result.refused, by_inputs)


def _edge_set(stored: StoredEdgeSet) -> EdgeSet:
    return EdgeSet(stored.label, Path(stored.path), stored.digest, stored.samples, stored.not_held)


def _request(
    context: RunContext,
    plan: Plan,
    model: AuditedModel,
    targets: tuple[Inputs, ...],
    declared: DeclaredSet | None,
) -> dict[str, Any]:
    preprocess = plan.data.preprocess
    return {
        "version": 1,
        "preprocess": None if preprocess is None else preprocess.to_dict(),
        "inputs": to_dict(model.facts.inputs),
        "targets": to_dict(targets),
        "evaluation": str(model.evaluation.path),
        "calibration": None if model.calibration is None else str(model.calibration.path),
        "kind": plan.edge.kind,
        "skip": list(plan.edge.skip),
        "audio_input": plan.edge.audio_input,
        "vocabulary": plan.edge.vocabulary or next(iter(model.facts.anatomy.vocabularies), None),
        "own": None if declared is None else set_to_dict(declared.spec),
        "own_part": to_dict(ALL if declared is None else part_of(plan, declared)),
        "own_names": plan.data.may_leave,
        "root": str(context.store.root),
        "size_cap_bytes": int(plan.data.max_gb * 1e9),
        "size_cap_key": SIZE_CAP_KEY,
    }
