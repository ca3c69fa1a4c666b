"""What a job must fulfil beyond its types: a device acts on it, so nothing in it is taken on trust."""

import math
from collections import Counter
from typing import Final

from phoneproof.errors import ProtocolError
from phoneproof.protocol.job_types import (
    BenchmarkCase,
    Case,
    Configuration,
    FileRef,
    InferCase,
    Job,
    Keep,
    Limits,
    LoadCase,
    RawInput,
    SampleSet,
    TableInput,
    configurations_of,
    samples_of,
)
from phoneproof.protocol.tensors import DTYPE_SIZES

_WHERE: Final = "job.json"
_MAX_COUNT: Final = 2**31 - 1
_HEX: Final = frozenset("0123456789abcdef")
_FORBIDDEN_IN_NAMES: Final = frozenset('\\:"<>|?*\x7f') | {chr(c) for c in range(32)}


def check_job(job: Job) -> None:
    """ProtocolError for the first thing that no harness could carry out.

    Ids used twice, undefined or not plain; names that leave their folder; sizes that contradict each other;
    ranges outside the samples; a load case that is missing, late or twice; numbers below their least value.
    """
    _check_ids("configuration", [c.configuration_id for c in job.configurations])
    _check_ids("samples", [s.samples_id for s in job.samples])
    _check_ids("case", [c.case_id for c in job.cases])
    for configuration in job.configurations:
        _check_configuration(configuration)
    for sample_set in job.samples:
        _check_samples(sample_set)
    _check_paths(job)
    _check_limits(job.limits)
    configurations = {c.configuration_id: c for c in job.configurations}
    counts = {s.samples_id: s.count for s in job.samples}
    loaded: set[str] = set()
    for case in job.cases:
        _check_case(case, configurations, counts, loaded)


def is_plain_id(text: str) -> bool:
    """Whether a text can name a case: 1 to 100 of a-z, 0-9, `-`, `_` and `.`, the first not a dot."""
    plain = all(c.isascii() and (c.islower() or c.isdigit() or c in "-_.") for c in text)
    return plain and 1 <= len(text) <= 100 and not text.startswith(".")


def is_inner_path(name: str) -> bool:
    """Whether a relative path stays inside its folder, and can be made, on every system.

    A part that ends in a dot or space is refused because Windows drops those: `.. ` would become `..`.
    """
    parts = name.split("/")
    return len(name) <= 1000 and all(_is_inner_part(part) for part in parts)


def _is_inner_part(part: str) -> bool:
    if not part or part[-1] in ". " or _FORBIDDEN_IN_NAMES & set(part):
        return False
    try:
        return len(part.encode()) <= 255
    except UnicodeEncodeError:
        return False


def is_sha256(text: str) -> bool:
    """Whether a text is 64 lower-case hexadecimal digits."""
    return len(text) == 64 and set(text) <= _HEX


def _wrong(what: str, place: str) -> ProtocolError:
    return ProtocolError(what, where=f"{_WHERE}: {place}")


def _least(value: int, least: int, name: str, place: str) -> None:
    if value < least:
        raise _wrong(f"{name} is {value}; the least is {least}.", place)


def _check_ids(kind: str, ids: list[str]) -> None:
    for one, times in Counter(ids).items():
        if times > 1 or not is_plain_id(one):
            raise _wrong(f"The {kind} id {one[:80]!r} is used twice or not plain.", kind)


def _check_configuration(configuration: Configuration) -> None:
    place = f"configuration {configuration.configuration_id}"
    _least(configuration.threads, 1, "threads", place)
    for name in (configuration.runtime, configuration.accelerator):
        if not is_plain_id(name):
            raise _wrong(f"{name[:80]!r} is no name of a runtime or accelerator.", place)
    model = configuration.model
    if not model.files or not is_inner_path(model.entry):
        raise _wrong("The model has no file, or its entry leaves its folder.", place)
    if model.is_folder:
        if not all(ref.name.startswith(model.entry + "/") for ref in model.files):
            raise _wrong("A file of the model's folder lies outside of it.", place)
        if is_sha256(model.entry.split("/")[0]):
            raise _wrong("The model's folder has the form of a digest.", place)


def _check_paths(job: Job) -> None:
    """The files of all configurations and samples go into one folder: no two may claim one place."""
    by_entry: dict[str, frozenset[FileRef]] = {}
    refs: list[FileRef] = []
    for configuration in job.configurations:
        model = configuration.model
        refs += model.files
        if model.is_folder:
            files = frozenset(model.files)
            if by_entry.setdefault(model.entry, files) != files or len(files) != len(model.files):
                raise _wrong("Two models with different files have one entry.", model.entry[:80])
    for one_input in (i for s in job.samples for i in s.inputs):
        refs += [shard.file for shard in one_input.shards]
        if isinstance(one_input, TableInput):
            refs.append(one_input.table)
    sizes: dict[str, int] = {}
    for ref in refs:
        if not is_inner_path(ref.name):
            raise _wrong(f"The file name {ref.name[:80]!r} leaves its folder.", "files")
        if not is_sha256(ref.sha256) or ref.size_bytes < 0:
            raise _wrong(f"The sha256 or size of {ref.name[:80]!r} is none.", "files")
        if sizes.setdefault(ref.sha256, ref.size_bytes) != ref.size_bytes:
            raise _wrong(f"One sha256 has two sizes: {ref.name[:80]!r}.", "files")
    _check_no_file_is_folder(set(job.files()))


def _check_no_file_is_folder(paths: set[str]) -> None:
    folded = Counter(path.casefold() for path in paths)
    for path in paths:
        parts = path.casefold().split("/")
        inside_file = any("/".join(parts[:n]) in folded for n in range(1, len(parts)))
        if inside_file or folded[path.casefold()] > 1:
            raise _wrong(f"Two files claim one place: {path[:80]!r}.", "files")


def _check_samples(sample_set: SampleSet) -> None:
    place = f"samples {sample_set.samples_id}"
    _least(sample_set.count, 1, "count", place)
    names = [one.name for one in sample_set.inputs]
    if not names or len(set(names)) != len(names):
        raise _wrong("The inputs are none, or two have one name.", place)
    if sample_set.count > _MAX_COUNT:
        raise _wrong(f"count is above {_MAX_COUNT}.", place)
    for one in sample_set.inputs:
        where = f"{place}: input {one.name[:80]}"
        if one.dtype not in DTYPE_SIZES:
            raise _wrong(f"Unknown dtype {one.dtype[:80]!r}.", where)
        for length in one.shape:
            _least(length, 1, "a length of the shape", where)
        _check_shards(one, sample_set.count, where)


def _check_shards(one: RawInput | TableInput, count: int, place: str) -> None:
    size = DTYPE_SIZES[one.dtype] * math.prod(one.shape)
    if isinstance(one, TableInput):
        height, width, channels = one.pixels_shape
        size = height * width * channels
        chw, hwc = (channels, height, width), (height, width, channels)
        if min(one.pixels_shape) < 1 or one.shape != (1, *(chw if one.layout == "nchw" else hwc)):
            raise _wrong("The shape is not that of one image of these pixels in this layout.", place)
        if one.table.size_bytes != channels * 256 * DTYPE_SIZES[one.dtype]:
            raise _wrong("The table does not hold 256 values for each channel.", place)
    for shard in one.shards:
        _least(shard.count, 1, "count of a shard", place)
        if shard.file.size_bytes != shard.count * size:
            raise _wrong(f"A shard of {shard.count} samples must have {shard.count * size} bytes.", place)
    if sum(shard.count for shard in one.shards) != count:
        raise _wrong("The shards do not hold as many samples as the set.", place)


def _check_limits(limits: Limits) -> None:
    for name, value in vars(limits).items():
        if value is not None:
            _least(value, 1, name, "limits")


def _check_case(
    case: Case, configurations: dict[str, Configuration], counts: dict[str, int], loaded: set[str]
) -> None:
    place = f"case {case.case_id}"
    for one in configurations_of(case):
        if one not in configurations:
            raise _wrong(f"Unknown configuration {one[:80]!r}.", place)
    if isinstance(case, LoadCase):
        if case.configuration in loaded:
            raise _wrong("A configuration has one load case.", place)
        loaded.add(case.configuration)
        return
    if not set(configurations_of(case)) <= loaded:
        raise _wrong("A configuration's first case must be its load case.", place)
    for samples in samples_of(case):
        if samples not in counts:
            raise _wrong(f"Unknown samples {samples[:80]!r}.", place)
    if isinstance(case, InferCase):
        if case.first < 0 or case.count < 1 or case.first + case.count > counts[case.samples]:
            raise _wrong("The range lies outside the samples.", place)
        _check_keep(case.keep, place)
    else:
        _check_benchmark(case, configurations, place)


def _check_keep(keep: Keep, place: str) -> None:
    if (keep.kind == "topk") != (keep.k is not None) or (keep.kind == "argmax") != (keep.axis is not None):
        raise _wrong("`k` goes with topk and `axis` with argmax, and only then.", place)
    if keep.k is not None:
        _least(keep.k, 1, "k", place)


def _check_benchmark(case: BenchmarkCase, configurations: dict[str, Configuration], place: str) -> None:
    if len({case.baseline is None, case.baseline_samples is None, case.interleaving == "none"}) > 1:
        raise _wrong("No baseline, no baseline_samples and interleaving `none` go together.", place)
    if case.baseline == case.candidate:
        raise _wrong("Baseline and candidate are one configuration.", place)
    if case.baseline is not None:
        one, other = configurations[case.baseline], configurations[case.candidate]
        if one.runtime != other.runtime:
            raise _wrong("Baseline and candidate must share one runtime.", place)
    for name in ("rounds", "visit_ms", "max_runs_per_visit"):
        _least(getattr(case, name), 1, name, place)
    for name in ("warmup_ms", "batch_below_ns", "pause_ms"):
        _least(getattr(case, name), 0, name, place)
