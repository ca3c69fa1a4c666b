"""An infer case: a range of samples, one at a time, outputs kept in the order they come."""

from phoneproof.harness.attempt import CurrentAttempt, Done, case_error, measured
from phoneproof.harness.event_log import UNSTAMPED
from phoneproof.protocol.events import OUTPUTS_FOLDER, SampleFailed, SampleStarted
from phoneproof.protocol.job import InferCase
from phoneproof.protocol.outputs import OutputWriter, apply_keep, missing_samples


def infer(attempt: CurrentAttempt, case: InferCase, next_sample: int, bad: frozenset[int]) -> Done | None:
    """Run the case from `next_sample`; samples in `bad` have failed before.

    None when too many samples are bad: the rule for attempts has then ended the case.
    """
    loaded = attempt.one_at_a_time.get(attempt.job.configuration(case.configuration))
    reader = attempt.reader(case.samples)
    writer: OutputWriter | None = None
    if case.keep.kind != "none":
        (attempt.folder / OUTPUTS_FOLDER).mkdir(exist_ok=True)
        path = attempt.folder / OUTPUTS_FOLDER / f"{case.case_id}.bin"
        lost = missing_samples(path, case.first, next_sample, bad)
        next_sample = min(lost, default=next_sample)
        writer = OutputWriter(path, next_sample)
    failed = len(bad)
    for sample in range(next_sample, case.first + case.count):
        if sample in bad:
            continue
        attempt.log.write(SampleStarted("sample_started", UNSTAMPED, case.case_id, sample), sync=False)
        try:
            outputs = tuple(loaded.session.prepare(reader.read(sample))())
        except Exception as raised:  # noqa: BLE001 - a runtime may raise anything; it is the sample's outcome
            error = case_error(raised)
            attempt.log.write(SampleFailed("sample_failed", UNSTAMPED, case.case_id, sample, error))
            failed += 1
            if failed >= attempt.job.limits.bad_samples_per_case:
                return None
            continue
        if writer is not None:
            writer.append(sample, apply_keep(case.keep, outputs))
    return Done(measured(loaded), writer.close() if writer is not None else None)
