"""What every planned job fulfils, whatever the builds and the places."""

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phoneproof.jobs.planning import (
    BATCH_BELOW_NS,
    BenchmarkSettings,
    Placement,
    PlannedJob,
    RunnableBuild,
    plan_edge_job,
    plan_job,
)
from phoneproof.protocol.job import (
    BenchmarkCase,
    FileRef,
    InferCase,
    Limits,
    LoadCase,
    ModelFiles,
    RawInput,
    SampleSet,
    Shard,
    check_job,
    configurations_of,
)

SETTINGS = BenchmarkSettings(rounds=12, warmup_ms=5, visit_ms=7, max_runs_per_visit=90, pause_ms=3)
HERE = Placement("cpu", False, 1)


def ref(name: str, size: int) -> FileRef:
    return FileRef(name, hashlib.sha256(name.encode()).hexdigest(), size)


def samples(name: str, count: int) -> SampleSet:
    shards = (Shard(ref(f"{name}.bin", 4 * count), count),)
    return SampleSet(name, count, (RawInput("raw", "x", "float32", (1, 1), shards),))


def build(
    name: str,
    runtime: str = "onnxruntime",
    baseline: str | None = None,
    exact: bool = False,
    count: int = 5,
    edge: int = 0,
) -> RunnableBuild:
    """edge: number of sets of edge inputs."""
    model = ModelFiles("model.onnx", (ref(f"{name}/model.onnx".replace("/", "-"), 9),))
    model = replace(model, entry=model.files[0].name)
    options = {"x64quantprecision": "1"} if exact else {}
    sets = {f"edge{n}": samples(f"e{n}", n + 1) for n in range(edge)}
    return RunnableBuild(name, runtime, model, samples(f"s{count}", count), baseline, options, sets)


@st.composite
def some_builds(draw: st.DrawFn) -> list[RunnableBuild]:
    """Float builds, and builds compared with one of them, with one that is missing or with none."""
    runtimes = st.sampled_from(["onnxruntime", "litert"])
    counts = st.integers(1, 3)
    edges = st.integers(0, 2)
    floats = [
        build(f"m/f{i}", draw(runtimes), count=draw(counts), edge=draw(edges))
        for i in range(draw(st.integers(0, 3)))
    ]
    names = [one.build_id for one in floats]
    others = [
        build(
            f"m/q{i}",
            draw(runtimes),
            draw(st.sampled_from([*names, "m/missing"])),
            draw(st.booleans()),
            draw(counts),
            draw(edges),
        )
        for i in range(draw(st.integers(0, 4)))
    ]
    found = draw(st.permutations([*floats, *others]))
    return found or [build("m/only")]


placements = st.lists(
    st.builds(Placement, st.sampled_from(["cpu", "xnnpack"]), st.booleans(), st.integers(1, 4)),
    min_size=1,
    max_size=3,
    unique=True,
)


@st.composite
def plans(draw: st.DrawFn) -> tuple[list[RunnableBuild], list[Placement], bool, dict[str, bool], PlannedJob]:
    builds, places, timed = draw(some_builds()), draw(placements), draw(st.booleans())
    fits = {one.build_id: draw(st.booleans()) for one in builds if draw(st.booleans())}
    return builds, places, timed, fits, plan_job(builds, places, SETTINGS if timed else None, Limits(), fits)


@given(plans())
def test_a_planned_job_is_sound(
    case: tuple[list[RunnableBuild], list[Placement], bool, dict[str, bool], PlannedJob],
) -> None:
    builds, places, timed, _, planned = case
    job = planned.job
    check_job(job)
    ids = [one.case_id for one in job.cases]
    assert len(set(ids)) == len(ids)
    assert [one.case_id for one in planned.cases] == ids
    assert [one.kind for one in planned.cases] == [one.kind for one in job.cases]
    loads = [one.configuration for one in job.cases if isinstance(one, LoadCase)]
    assert sorted(loads) == sorted(one.configuration_id for one in job.configurations)
    for position, one in enumerate(job.cases):
        begun = {c.configuration for c in job.cases[:position] if isinstance(c, LoadCase)}
        assert isinstance(one, LoadCase) or set(configurations_of(one)) <= begun
    kinds = [one.kind for one in job.cases]
    assert "infer" not in kinds[kinds.index("benchmark") :] if "benchmark" in kinds else not timed
    infers = [one for one in job.cases if isinstance(one, InferCase)]
    sets = sum(len(one.edge) for one in builds)
    assert len(infers) == (len(builds) + sets) * len(places)
    more = sets * len(places) * Limits().bad_samples_per_case
    assert job.limits == replace(Limits(), max_attempts=Limits().max_attempts + more)


@given(plans())
def test_each_build_is_run_whole_at_each_place(
    case: tuple[list[RunnableBuild], list[Placement], bool, dict[str, bool], PlannedJob],
) -> None:
    builds, places, timed, _, planned = case
    seen = 0
    for build_ in builds:
        for place in places:
            own = planned.cases_of(build_.build_id, place)
            seen += len(own)
            (infer,) = [one for one in own if one.kind == "infer" and one.edge is None]
            found = planned.job.case(infer.case_id)
            assert isinstance(found, InferCase)
            assert (found.first, found.count, found.samples) == (
                0,
                build_.samples.count,
                build_.samples.samples_id,
            )
            configuration = planned.job.configuration(found.configuration)
            assert configuration.build_id == build_.build_id
            assert configuration.options == build_.exact_options
            assert (configuration.accelerator, configuration.allow_fallback, configuration.threads) == (
                place.accelerator,
                place.allow_fallback,
                place.threads,
            )
            assert sum(one.kind == "benchmark" for one in own) == timed
    assert seen == len(planned.cases)


@given(plans())
def test_edge_inputs_are_run_whole_where_the_evaluation_set_was(
    case: tuple[list[RunnableBuild], list[Placement], bool, dict[str, bool], PlannedJob],
) -> None:
    """After it, in the same configuration, so that what crashes on one has given its other outputs."""
    builds, places, _, _, planned = case
    position = {one.case_id: number for number, one in enumerate(planned.cases)}
    for build_ in builds:
        for place in places:
            own = planned.cases_of(build_.build_id, place)
            (usual,) = [one for one in own if one.kind == "infer" and one.edge is None]
            edge = [one for one in own if one.edge is not None]
            assert [one.edge for one in edge] == list(build_.edge)
            for one in edge:
                found, beside = planned.job.case(one.case_id), planned.job.case(usual.case_id)
                assert isinstance(found, InferCase)
                assert isinstance(beside, InferCase)
                assert (one.use, found.configuration) == ("edge", beside.configuration)
                assert position[one.case_id] > position[usual.case_id]
                wanted = build_.edge[one.edge or ""]
                assert (found.samples, found.first, found.count) == (wanted.samples_id, 0, wanted.count)


def test_a_job_of_edge_inputs_alone_runs_nothing_else() -> None:
    planned = plan_edge_job(build("m/source", "source", edge=2), HERE, Limits())
    check_job(planned.job)
    assert [one.case_id for one in planned.cases] == ["c000.load", "c000.edge-edge0", "c000.edge-edge1"]


@given(plans())
def test_speed_is_measured_without_exact_options_and_beside_the_baseline(
    case: tuple[list[RunnableBuild], list[Placement], bool, dict[str, bool], PlannedJob],
) -> None:
    builds, _, _, fits, planned = case
    by_id = {one.build_id: one for one in builds}
    for one in planned.job.cases:
        if not isinstance(one, BenchmarkCase):
            continue
        candidate = planned.job.configuration(one.candidate)
        own = by_id[candidate.build_id]
        baseline = by_id.get(own.baseline or "")
        assert candidate.options == {}
        assert one.samples == own.samples.samples_id
        assert one.batch_below_ns == BATCH_BELOW_NS
        assert (one.rounds, one.warmup_ms, one.visit_ms, one.max_runs_per_visit, one.pause_ms) == (
            12,
            5,
            7,
            90,
            3,
        )
        if baseline is None or baseline.runtime != own.runtime:
            assert (one.baseline, one.baseline_samples, one.interleaving) == (None, None, "none")
            continue
        assert one.baseline is not None
        beside = planned.job.configuration(one.baseline)
        assert beside.build_id == own.baseline
        assert beside.options == {}
        assert one.baseline_samples == baseline.samples.samples_id
        assert (beside.accelerator, beside.threads) == (candidate.accelerator, candidate.threads)
        fits_together = fits.get(own.build_id, True)
        assert one.interleaving == ("in_process" if fits_together else "by_process")


def test_exact_options_split_a_build_into_two_configurations() -> None:
    planned = plan_job(
        [build("m/f"), build("m/q", baseline="m/f", exact=True)], [HERE], SETTINGS, Limits(), {}
    )
    own = planned.cases_of("m/q", HERE)
    assert [(one.kind, one.use) for one in own] == [
        ("load", "outputs"),
        ("infer", "outputs"),
        ("load", "speed"),
        ("benchmark", "speed"),
    ]
    options = [c.options for c in planned.job.configurations if c.build_id == "m/q"]
    assert options == [{"x64quantprecision": "1"}, {}]
    assert [one.use for one in planned.cases_of("m/f", HERE)] == ["both", "outputs", "speed"]


def test_without_a_benchmark_nothing_is_split() -> None:
    planned = plan_job([build("m/q", exact=True)], [HERE], None, Limits(), {})
    assert [one.kind for one in planned.job.cases] == ["load", "infer"]
    assert planned.job.configurations[0].options == {"x64quantprecision": "1"}


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (lambda one: one, True),
        (lambda one: replace(one, samples=samples("s9", 9)), False),
        (lambda one: replace(one, exact_options={"x64quantprecision": "1"}), False),
    ],
)
def test_the_same_request_is_the_same_job(change: object, same: bool) -> None:
    assert callable(change)
    first = plan_job([build("m/f")], [HERE], SETTINGS, Limits(), {})
    second = plan_job([change(build("m/f"))], [HERE], SETTINGS, Limits(), {})
    assert (first.job.job_id == second.job.job_id) is same
