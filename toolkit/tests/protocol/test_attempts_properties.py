"""The rule of attempts under any mix of crashes, refused samples, torn lines, lost words and power cuts."""

import json
import random
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from phoneproof.protocol.attempts import CaseEnd, bad_samples, case_ends, lost, next_attempt
from phoneproof.protocol.events import CaseFinished, CaseStarted, parse_event_file
from phoneproof.protocol.job import InferCase, Job, Limits, new_job, read_job
from tests.protocol.scene import JOB
from tests.protocol.simulated_runner import Device, Faults

_JOB = read_job(json.dumps(JOB))
CASES = [case.case_id for case in _JOB.cases]
INFERS = [case for case in _JOB.cases if isinstance(case, InferCase)]
SAMPLES = [(case.case_id, sample) for case in INFERS for sample in range(case.first, case.first + case.count)]
PLACES = [*SAMPLES, *((case_id, None) for case_id in CASES)]

LIMITS = st.builds(
    Limits,
    bad_samples_per_case=st.integers(1, 4),
    max_attempts=st.sampled_from([2, 4, 50]),
    start_failures=st.integers(1, 3),
    interruptions_at_one_place=st.integers(1, 3),
)
FAULTS = st.builds(
    Faults,
    crashes=st.frozensets(st.sampled_from(PLACES), max_size=4),
    refused=st.frozensets(st.sampled_from(SAMPLES), max_size=4),
    cuts=st.lists(st.none() | st.integers(0, 6000), max_size=8).map(tuple),
    unseen=st.frozensets(st.integers(1, 12), max_size=5),
    power_cuts=st.dictionaries(st.integers(1, 8), st.integers(0, 5), max_size=3),
)


def job_with(limits: Limits) -> Job:
    return new_job(_JOB.configurations, _JOB.samples, _JOB.cases, limits)


def run_to_the_end(device: Device) -> dict[str, CaseEnd]:
    """The ends; while running, checks what must hold between any two attempts."""
    ends = case_ends(device.job, device.events())
    bad: dict[str, set[int]] = {}
    while device.attempt():
        assert device.attempts < 200, "the rule does not come to an end"
        events = device.events()
        now = case_ends(device.job, events)
        for case_id, end in ends.items():
            assert replace(now[case_id], finished=None) == replace(end, finished=None)
        ends = now
        bad_now = {case: set(samples) for case, samples in bad_samples(device.job, events).items()}
        for case_id, samples in bad.items():
            assert samples <= bad_now[case_id]
        bad = bad_now
    return ends


@settings(max_examples=300)
@given(limits=LIMITS, faults=FAULTS)
def test_a_job_ends_and_every_sample_has_an_output_or_a_reason(limits: Limits, faults: Faults) -> None:
    device = Device(job_with(limits), faults)
    ends = run_to_the_end(device)
    assert list(ends) == CASES
    for case in INFERS:
        end = ends[case.case_id]
        stored = device.outputs.get(case.case_id, set()) - set(end.bad_samples)
        begun = any(isinstance(e, CaseStarted) and e.case_id == case.case_id for e in device.events())
        # Outputs that went with the power after the rule had ended their case: nobody looked for them again.
        if begun and (end.finished is not None or not faults.power_cuts):
            without = set(range(case.first, case.first + case.count)) - stored
            assert without <= set(end.bad_samples)
        assert (end.outcome == "passed") == (not end.bad_samples and end.finished is not None)
        assert stored.isdisjoint(sample for case_id, sample in device.crashed if case_id == case.case_id)


@settings(max_examples=200)
@given(limits=LIMITS, faults=FAULTS)
def test_no_ended_case_is_begun_again(limits: Limits, faults: Faults) -> None:
    device = Device(job_with(limits), faults)
    run_to_the_end(device)
    events = device.events()
    for attempt in range(1, max(device.files, default=0) + 1):
        before = [e for e in events if e.stamp.attempt < attempt]
        ended = set(case_ends(device.job, before))
        started = {e.case_id for e in events if isinstance(e, CaseStarted) and e.stamp.attempt == attempt}
        assert started.isdisjoint(ended)
    finished = [e.case_id for e in events if isinstance(e, CaseFinished)]
    assert len(finished) == len(set(finished))


@settings(max_examples=200)
@given(
    crashes=st.frozensets(st.sampled_from(PLACES), max_size=4),
    refused=st.frozensets(st.sampled_from(SAMPLES)),
)
def test_with_a_word_on_every_end_exactly_the_faulty_places_are_blamed(
    crashes: frozenset[Any], refused: frozenset[Any]
) -> None:
    limits = Limits(bad_samples_per_case=50)
    device = Device(job_with(limits), Faults(crashes=crashes, refused=refused))
    ends = run_to_the_end(device)
    broken = {case for case, sample in crashes if sample is None}
    for case_id, end in ends.items():
        unloaded = "load-float" in broken and case_id in ("infer-float", "bench")
        unloaded |= "load-int8" in broken and case_id in ("infer-int8", "bench")
        faulty = {sample for case, sample in crashes | refused if case == case_id and sample is not None}
        if unloaded:
            assert (end.outcome, end.bad and end.bad.cause) == ("not_run", "load")
        elif case_id in broken:
            assert (end.outcome, end.bad and end.bad.cause) == ("crashed", "signal")
        else:
            assert set(end.bad_samples) == faulty
            for sample, bad in end.bad_samples.items():
                assert bad.outcome == ("crashed" if (case_id, sample) in crashes else "failed")


@given(limits=LIMITS, faults=FAULTS, data=st.data())
def test_any_prefix_of_the_bytes_has_an_answer_and_goes_on_to_the_end(
    limits: Limits, faults: Faults, data: st.DataObject
) -> None:
    device = Device(job_with(limits), faults)
    run_to_the_end(device)
    last = data.draw(st.sampled_from(sorted(device.files)))
    cut = data.draw(st.integers(0, len(device.files[last])))
    again = Device(device.job, replace(faults, cuts=(), unseen=frozenset(), power_cuts={}))
    again.files = {n: content for n, content in device.files.items() if n < last}
    again.files[last] = device.files[last][:cut]
    again.words = [word for word in device.words if word.stamp.attempt < last]
    # The outputs of an earlier moment: those of a case that is under way there are a part of the later ones.
    whole = parse_event_file(again.files[last], "cut", last)
    again.outputs = {case: set(kept) for case, kept in device.outputs.items()}
    if not whole:
        del again.files[last]
    ends = run_to_the_end(again)
    assert list(ends) == CASES
    for case in INFERS:
        end = ends[case.case_id]
        if end.outcome == "passed":
            assert again.outputs[case.case_id] == set(range(case.first, case.first + case.count))


@settings(max_examples=60)
@given(limits=LIMITS, faults=FAULTS, seed=st.integers(0, 2**32 - 1))
def test_the_order_in_which_events_are_read_does_not_matter(
    limits: Limits, faults: Faults, seed: int
) -> None:
    device = Device(job_with(limits), faults)
    run_to_the_end(device)
    numbers = list(device.files)
    random.Random(seed).shuffle(numbers)
    shuffled = list(device.events(numbers))
    expected = case_ends(device.job, device.events())
    assert case_ends(device.job, shuffled) == expected
    random.Random(seed).shuffle(shuffled)
    assert case_ends(device.job, shuffled) == expected
    assert next_attempt(device.job, shuffled) is None


@settings(max_examples=60)
@given(limits=LIMITS, faults=FAULTS, attempts=st.integers(0, 5))
def test_a_lost_device_loses_no_bad_sample(limits: Limits, faults: Faults, attempts: int) -> None:
    device = Device(job_with(limits), faults)
    for _ in range(attempts):
        device.attempt()
    events = device.events()
    ends = lost(device.job, events)
    assert list(ends) == CASES
    for case_id, end in case_ends(device.job, events).items():
        assert ends[case_id] == end
    for case_id, samples in bad_samples(device.job, events).items():
        for sample, bad in samples.items():
            assert ends[case_id].bad_samples[sample] == bad
