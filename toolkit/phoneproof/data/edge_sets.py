"""The worker that stores edge inputs: `python -m phoneproof.data.edge_sets REQUEST.json`.

Request: Request below. Up to three sets for each way in which builds take the inputs: `images` (files through
the preprocess, stored as pixels like any image), `values` (numbers, in the build's own dtypes) and `own` (a
set that the plan names). It answers with Result.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from phoneproof.data.edge import NAMES_OF, EdgeKind, EdgeRange, kind_of, takes_ids
from phoneproof.data.edge_images import write_edge_images
from phoneproof.data.edge_ranges import input_data
from phoneproof.data.edge_values import EdgeSample, InputData, Settings, edge_values, range_of
from phoneproof.data.file_sets import FileSet
from phoneproof.data.materialization import Materialization
from phoneproof.data.pixels import open_image, pixels
from phoneproof.data.preprocessing import Layout, Preprocess
from phoneproof.data.samples import Content, Entry, SampleSet
from phoneproof.data.set_specs import set_from_dict
from phoneproof.data.sets import open_set
from phoneproof.data.store import SampleStore, SkippedSample
from phoneproof.data.store_writer import materialize
from phoneproof.data.subset import Part, chosen
from phoneproof.data.values import is_quantized, layout_of
from phoneproof.errors import BrokenSampleError, DataError, ProtocolError
from phoneproof.protocol import codec
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import Progress, run_worker

REQUEST_VERSION: Final = 1


@dataclass(frozen=True)
class Request:
    """REQUEST.json.

    inputs: as the source model takes them. targets: the same, under the same names, as builds take them.
    evaluation, calibration: folders of stored sets, by which a value is in range or not.
    kind: None where the plan does not say. own: as `set_to_dict` writes it; None without. own_names: whether
    own samples may be called by their names, which reports then hold.
    """

    version: int
    preprocess: Any
    inputs: tuple[TensorSpec, ...]
    targets: tuple[tuple[TensorSpec, ...], ...]
    evaluation: str
    calibration: str | None
    kind: EdgeKind | None
    skip: tuple[str, ...]
    audio_input: str | None
    vocabulary: int | None
    own: Any
    own_part: Part
    own_names: bool
    root: str
    size_cap_bytes: int
    size_cap_key: str


@dataclass(frozen=True)
class ListedEdge:
    """One sample of a stored set: its name and range. guess: as EdgeSample."""

    name: str
    range: EdgeRange
    guess: bool = False


@dataclass(frozen=True)
class StoredEdgeSet:
    """label: images, values or own. path: folder of the stored set. samples: in its order. not_held: names
    of edge inputs that the build's input dtypes do not hold."""

    label: str
    path: str
    digest: str
    samples: tuple[ListedEdge, ...]
    not_held: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """result.json. targets: the sets of each of the request's targets. refused: files that the preprocess
    does not take, by their names, and why."""

    version: int
    kind: EdgeKind
    targets: tuple[tuple[StoredEdgeSet, ...], ...]
    refused: tuple[SkippedSample, ...]


@dataclass(frozen=True)
class _ArraySet:
    """Edge samples as a set that can be stored."""

    samples: Sequence[EdgeSample]
    class_names: tuple[str, ...] | None = None
    ignored_files: int = 0

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(Entry(sample.name) for sample in self.samples)

    def contents(self, indices: Sequence[int]) -> Iterator[Content]:
        return (self.samples[index].arrays for index in indices)


@dataclass(frozen=True)
class _Storing:
    """What every set of one request needs. folder: for the image files, until they are stored."""

    request: Request
    preprocess: Preprocess | None
    kind: EdgeKind
    data: tuple[SampleStore, ...]
    folder: Path

    def materialization(
        self, inputs: tuple[TensorSpec, ...], preprocess: Preprocess | None
    ) -> Materialization:
        request = self.request
        return Materialization(
            inputs, preprocess, Path(request.root), request.size_cap_bytes, request.size_cap_key
        )

    def seen(self, target: tuple[TensorSpec, ...]) -> tuple[InputData, ...]:
        """What the data show of each input that a build takes: it may have lost one that nothing reads."""
        sources = {one.name: one for one in self.request.inputs}
        return tuple(input_data(self.data, sources[one.name], one, self.preprocess) for one in target)


def carry_out(request: Request, folder: Path, progress: Progress) -> Result:
    """Store all sets of a request. DataError as `edge_values`, `open_set` and `materialize`, and where the
    kind does not fit the plan."""
    preprocess = None if request.preprocess is None else Preprocess.from_dict(request.preprocess)
    kind = request.kind or kind_of(request.inputs, preprocess is not None)
    paths = [request.evaluation, *([] if request.calibration is None else [request.calibration])]
    data = tuple(SampleStore.open(Path(path)) for path in paths)
    with tempfile.TemporaryDirectory(dir=folder) as images:
        storing = _Storing(request, preprocess, kind, data, Path(images))
        progress.say("images", 0, len(request.targets) + 1)
        shared, refused = _images(storing)
        own, own_refused = _own(storing)
        sets = []
        for number, target in enumerate(request.targets):
            progress.say("values", number + 1, len(request.targets) + 1)
            values = _values(storing, target)
            mine = own if preprocess is not None else _own_as_taken(storing, own, target)
            sets.append(tuple(one for one in (shared, mine, values) if one is not None))
    return Result(1, kind, tuple(sets), (*refused, *own_refused))


def _images(storing: _Storing) -> tuple[StoredEdgeSet | None, tuple[SkippedSample, ...]]:
    request, preprocess = storing.request, storing.preprocess
    names = [name for name in NAMES_OF["image"] if name not in request.skip]
    if preprocess is None or storing.kind != "image":
        return None, ()
    (tensor,) = request.inputs
    size = (1, 2) if layout_of(tensor, preprocess) is Layout.NHWC else (2, 3)
    first = storing.data[0].rows(tensor.name, 0, 1)[0]
    sides = (tensor.shape[size[0]], tensor.shape[size[1]])
    drawn = write_edge_images(storing.folder, names, preprocess, sides, first)
    opened = FileSet(tuple(map(Entry, drawn.files)), tuple(drawn.files.values()), None)
    try:
        store = materialize(
            opened, range(len(opened.paths)), storing.materialization(request.inputs, preprocess)
        )
    except DataError:
        refused = _refused(drawn.files, preprocess)
        if len(refused) < len(drawn.files):
            raise
        return None, (*refused, *drawn.refused)
    listed = tuple(ListedEdge(name, "in_range") for name in store.stored.ids)
    found = StoredEdgeSet("images", str(store.path), store.digest, listed)
    return found, (*store.stored.skipped, *drawn.refused)


def _refused(files: Mapping[str, Path], preprocess: Preprocess) -> tuple[SkippedSample, ...]:
    """The files that the preprocess does not take: a set of nothing else is not stored."""
    refused = []
    for name, path in files.items():
        try:
            with path.open("rb") as file, open_image(file) as image:
                pixels(image, preprocess)
        except BrokenSampleError as error:
            refused.append(SkippedSample(name, error.what.removesuffix(".")))
    return tuple(refused)


def _values(storing: _Storing, target: tuple[TensorSpec, ...]) -> StoredEdgeSet | None:
    request = storing.request
    settings = Settings(storing.kind, request.skip, request.audio_input, request.vocabulary)
    made = edge_values(storing.seen(target), settings)
    if not made.samples:
        return None
    materialization = storing.materialization(target, None)
    store = materialize(_ArraySet(made.samples), range(len(made.samples)), materialization)
    listed = tuple(ListedEdge(one.name, one.range, one.guess) for one in made.samples)
    return StoredEdgeSet("values", str(store.path), store.digest, listed, made.not_held)


def _own(storing: _Storing) -> tuple[StoredEdgeSet | None, tuple[SkippedSample, ...]]:
    """The plan's own set as the source model takes it."""
    request = storing.request
    if request.own is None:
        return None, ()
    opened, indices = _own_opened(storing)
    store = materialize(opened, indices, storing.materialization(request.inputs, storing.preprocess))
    names = _own_names(store.stored.ids, request.own_names)
    ranges: list[EdgeRange] = ["in_range"] * store.count
    if storing.preprocess is None:
        seen = storing.seen(request.inputs)
        ranges = [_own_range(store, seen, index) for index in range(store.count)]
    listed = tuple(ListedEdge(name, range_) for name, range_ in zip(names, ranges, strict=True))
    skipped = store.stored.skipped
    if not request.own_names:
        skipped = tuple(SkippedSample(f"own/{n}", "It cannot be read") for n in range(len(skipped)))
    return StoredEdgeSet("own", str(store.path), store.digest, listed), skipped


def _own_opened(storing: _Storing) -> tuple[SampleSet, tuple[int, ...]]:
    opened = open_set(
        set_from_dict(storing.request.own, "edge.own"), [one.name for one in storing.request.inputs]
    )
    return opened, chosen([entry.label for entry in opened.entries], storing.request.own_part, "edge.own")


def _own_names(ids: Sequence[str], may_leave: bool) -> list[str]:
    """By their names in the set where these may leave and differ, else by their numbers."""
    named = may_leave and len(set(ids)) == len(ids)
    return [f"own/{name if named else number}" for number, name in enumerate(ids)]


def _own_range(store: SampleStore, seen: Sequence[InputData], index: int) -> EdgeRange:
    """The worst of all inputs. Of ids the range is that of all positions, which padding may hold any of."""
    found: set[EdgeRange] = set()
    for one in seen:
        values = store.rows(one.source.name, index, 1)[0]
        ends = (one.lowest, one.highest)
        if takes_ids(one.source):
            ends = (one.lowest.min(), one.highest.max())
        found.add(range_of(values, *ends))
    for worst in ("not_finite", "out_of_range"):
        if worst in found:
            return worst
    return "in_range"


def _own_as_taken(
    storing: _Storing, own: StoredEdgeSet | None, target: tuple[TensorSpec, ...]
) -> StoredEdgeSet | None:
    """The own set in a build's dtypes, without the samples that these do not hold: NaN has no integer."""
    if own is None or target == storing.request.inputs:
        return own
    opened, indices = _own_opened(storing)
    held = list(range(len(own.samples)))
    if any(is_quantized(tensor) for tensor in target):
        held = [number for number in held if own.samples[number].range != "not_finite"]
    not_held = tuple(one.name for number, one in enumerate(own.samples) if number not in held)
    if not held:
        return None
    kept = tuple(indices[number] for number in held)
    store = materialize(opened, kept, storing.materialization(target, None))
    listed = tuple(own.samples[number] for number in held)
    return StoredEdgeSet("own", str(store.path), store.digest, listed, not_held)


def work(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """See protocol/work.py. ProtocolError for a request of another version."""
    if request.get("version") != REQUEST_VERSION:
        raise ProtocolError("A request of another version.", where="$.version")
    answer: Mapping[str, Any] = codec.to_dict(
        carry_out(codec.from_dict(Request, dict(request)), folder, progress)
    )
    return answer


if __name__ == "__main__":
    sys.exit(run_worker(work))
