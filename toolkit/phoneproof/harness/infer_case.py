"""An infer case: a range of samples, one at a time, outputs kept in the order they come."""

import time
from dataclasses import replace
from pathlib import Path

from phoneproof.errors import StorageError
from phoneproof.harness.attempt import CurrentAttempt, Done, case_error, measured
from phoneproof.harness.configurations import Loaded
from phoneproof.harness.event_log import UNSTAMPED
from phoneproof.harness.machine import resident_bytes
from phoneproof.harness.memory import peak_memory_bytes
from phoneproof.harness.own_files import leave_for_storage
from phoneproof.protocol.events import OUTPUTS_FOLDER, CaseError, Measured, SampleFailed, SampleStarted
from phoneproof.protocol.job import InferCase
from phoneproof.protocol.outputs import OutputWriter, Tensors, apply_keep, missing_samples


def infer(attempt: CurrentAttempt, case: InferCase, next_sample: int, bad: frozenset[int]) -> Done:
    """Run the case from `next_sample`; samples in `bad` have failed before.

    It stops where too many samples are bad: the rule for attempts has then ended the case.
    """
    loaded = attempt.one_at_a_time.get(attempt.job.configuration(case.configuration))
    if case.keep.kind == "none":
        began = _run(attempt, case, next_sample, bad, loaded, None)
        return Done(_with_memory(attempt, case, loaded, began))
    path = attempt.folder / OUTPUTS_FOLDER / f"{case.case_id}.bin"
    try:
        path.parent.mkdir(exist_ok=True)
        next_sample = _resume_at(path, case, next_sample, bad)
        with OutputWriter(path, next_sample) as writer:
            began = _run(attempt, case, next_sample, bad, loaded, writer)
            output = writer.close()
    except (StorageError, OSError) as error:
        # Nothing of a runtime comes here: _run keeps what a runtime raises.
        leave_for_storage(error)
    return Done(_with_memory(attempt, case, loaded, began), output)


def _with_memory(attempt: CurrentAttempt, case: InferCase, loaded: Loaded, began: float) -> Measured:
    """With the peak memory of the first sample, measured apart while this process keeps its own.

    Once for a configuration, since it costs a load of the model. It must not end a case that ran: it has half
    of a sample's time, counted from when the last sample began, and is left out where both processes may not
    fit into the job's limit.
    """
    told = measured(loaded)
    if not _is_first(attempt, case):
        return told
    limits, own, above = attempt.job.limits, resident_bytes(), loaded.memory.read()
    if limits.memory_bytes is not None and (
        own is None or above is None or 2 * own + above > limits.memory_bytes
    ):
        return told
    time_left_s = limits.sample_timeout_ms / 2_000 - (time.monotonic() - began)
    if time_left_s <= 0:
        return told
    peak = peak_memory_bytes(attempt, case, time_left_s)
    return replace(told, peak_memory_bytes=peak)


def _is_first(attempt: CurrentAttempt, case: InferCase) -> bool:
    """Whether no infer case of the same configuration comes before it in the job."""
    alike = (
        one
        for one in attempt.job.cases
        if isinstance(one, InferCase) and one.configuration == case.configuration
    )
    return next(alike).case_id == case.case_id


def _run(
    attempt: CurrentAttempt,
    case: InferCase,
    next_sample: int,
    bad: frozenset[int],
    loaded: Loaded,
    writer: OutputWriter | None,
) -> float:
    """Each sample that is left, until too many are bad; when the last one began (time.monotonic)."""
    reader = attempt.reader(case.samples)
    failed = len(bad)
    began = time.monotonic()
    for sample in range(next_sample, case.first + case.count):
        if sample in bad:
            continue
        began = time.monotonic()
        attempt.log.write(SampleStarted("sample_started", UNSTAMPED, case.case_id, sample), sync=False)
        error: CaseError | None
        try:
            outputs = loaded.session.prepare(reader.read(sample))()
            kept = apply_keep(case.keep, tuple(outputs))
        except Exception as raised:  # noqa: BLE001 - a runtime may raise anything; it is the sample's outcome
            error = case_error(raised)
        else:
            attempt.log.leave_if_forked()
            error = _append(writer, sample, kept)
        if error is not None:
            attempt.log.write(SampleFailed("sample_failed", UNSTAMPED, case.case_id, sample, error))
            failed += 1
            if failed >= attempt.job.limits.bad_samples_per_case:
                break
    return began


def _resume_at(path: Path, case: InferCase, next_sample: int, bad: frozenset[int]) -> int:
    """Where the file and the case go on: at the first record that is missing, or that a bad sample has.

    A runner that is ended a moment after a sample is blamed for it has written its record already.
    """
    without = set(missing_samples(path, case.first, next_sample, ()))
    with_record = {sample for sample in bad if sample < next_sample} - without
    return min([next_sample, *(without - bad), *with_record])


def _append(writer: OutputWriter | None, sample: int, kept: Tensors) -> CaseError | None:
    """Store what is kept of a sample; the error if it is nothing that can be stored (no array, no dtype)."""
    if writer is None:
        return None
    try:
        writer.append(sample, kept)
    except StorageError:
        raise
    except Exception as raised:  # noqa: BLE001 - an answer may be anything; it is the sample's outcome
        return case_error(raised)
    return None
