"""Golden scenes of attempts: each end that a runner can come to. What is expected was thought out by hand."""

from tests.protocol.scene import PASSED, REFUSED, Scene, bad, end
from tests.protocol.torn_scenes import torn_scenes

A, B, C, D, E = (
    ("load-float", None),
    ("infer-float", 0),
    ("load-int8", None),
    ("infer-int8", 2),
    ("bench", None),
)
UNLOADED = end("not_run", bad("not_run", "load"))
UNREACHED = bad("not_run", "not_reached")
NEVER_STARTED = end("not_run", bad("not_run", "start"))


def _whole_job() -> list[Scene]:
    begun = Scene("nothing-begun", "No attempt was made: all cases are left.").expect([1, A, B, C, D, E])
    passed = Scene("all-passed", "Every case passed in one attempt.").word(1, "exited", 0)
    passed.runner().begin().load("float").infer_float().load("int8").infer_int8().bench().end()
    ends = {
        "load_float": PASSED,
        "infer_float": PASSED,
        "load_int8": PASSED,
        "infer_int8": PASSED,
        "bench": PASSED,
    }
    passed.expect(None, **ends)
    unseen = Scene(
        "all-passed-then-killed", "The last case ended; job_finished was not written, a signal came."
    )
    unseen.runner().begin().load("float").infer_float().load("int8").infer_int8().bench()
    unseen.word(1, "signal", 9).expect(None, **ends)
    hasty = Scene("job-finished-too-early", "job_finished while cases are left is an end between cases.")
    hasty.runner().begin().load("float").end()
    hasty.word(1, "exited", 0).expect([2, B, C, D, E], load_float=PASSED)
    hasty_thrice = Scene("job-finished-too-early-thrice", "A runner that never gets on is given up.")
    for attempt in (1, 2, 3):
        hasty_thrice.runner(attempt).begin().end()
        hasty_thrice.word(attempt, "exited", 0)
    hasty_thrice.expect(None, **dict.fromkeys(ends, NEVER_STARTED))
    return [begun, passed, unseen, hasty, hasty_thrice]


def _loads() -> list[Scene]:
    crash = Scene(
        "crash-at-load", "The candidate crashes at load: its cases and the pair's benchmark do not run."
    )
    crash.runner().begin().load("float").infer_float().start("load-int8")
    crash.word(1, "signal", 11).expect(
        None,
        load_float=PASSED,
        infer_float=PASSED,
        load_int8=end("crashed", bad("crashed", "signal", code=11, attempt=1)),
        infer_int8=UNLOADED,
        bench=UNLOADED,
    )
    baseline = Scene(
        "crash-at-load-of-baseline", "The baseline crashes at load: the pair's benchmark does not run."
    )
    baseline.runner().begin().start("load-float")
    baseline.word(1, "signal", 11).expect(
        [2, C, D],
        load_float=end("crashed", bad("crashed", "signal", code=11, attempt=1)),
        infer_float=UNLOADED,
        bench=UNLOADED,
    )
    failed = Scene("load-failed", "An error at load is an end; the runner goes on with other configurations.")
    failed.runner().begin().start("load-float").finish("load-float", "no such operator").start("load-int8")
    error = {"type": "RuntimeError", "message": "no such operator"}
    failed.expect(
        [2, C, D],
        load_float=end("failed", bad("failed", "error", attempt=1, error=error), finished=True),
        infer_float=UNLOADED,
        bench=UNLOADED,
    )
    slow = Scene("time-out-at-load", "The supervisor ended a load that took too long.")
    slow.runner().begin().load("float").infer_float().start("load-int8")
    slow.word(1, "timed_out").expect(
        None,
        load_float=PASSED,
        infer_float=PASSED,
        load_int8=end("timed_out", bad("timed_out", "timed_out", attempt=1)),
        infer_int8=UNLOADED,
        bench=UNLOADED,
    )
    return [crash, baseline, failed, slow]


def _samples() -> list[Scene]:
    scenes = []
    for name, about, sample in (
        ("crash-at-sample", "A crash is pinned to the sample under way; the case resumes after it.", 2),
        ("crash-at-first-sample", "A crash at a case's first sample.", 0),
        (
            "crash-at-last-sample",
            "After a crash at the last sample the case has no sample left but is not ended.",
            5,
        ),
    ):
        scene = Scene(name, about)
        scene.runner().begin().load("float").start("infer-float", 0).samples(
            "infer-float", *range(sample + 1)
        )
        scene.word(1, "signal", 6).expect([2, ("infer-float", sample + 1), C, D, E], load_float=PASSED)
        scenes.append(scene)
    crash = bad("crashed", "signal", code=6, attempt=1)
    closed = Scene(
        "crash-at-last-sample-closed", "The next attempt closes the case without running a sample."
    )
    closed.runner().begin().load("float").start("infer-float", 0).samples("infer-float", *range(6))
    closed.runner(2).begin().start("infer-float", 6).finish("infer-float").load(
        "int8"
    ).infer_int8().bench().end()
    closed.word(1, "signal", 6).word(2, "exited", 0).expect(
        None,
        load_float=PASSED,
        infer_float=end("crashed", crash, {5: crash}, finished=True),
        load_int8=PASSED,
        infer_int8=PASSED,
        bench=PASSED,
    )
    resumed = Scene(
        "crash-at-sample-resumed", "The next attempt goes on after the sample; the rest of the case runs."
    )
    resumed.runner().begin().load("float").start("infer-float", 0).samples("infer-float", 0, 1, 2)
    resumed.runner(2).begin().start("infer-float", 3).samples("infer-float", 3, 4, 5).finish("infer-float")
    resumed.word(1, "signal", 6).word(2, "interrupted").expect(
        [3, C, D, E], load_float=PASSED, infer_float=end("crashed", crash, {2: crash}, finished=True)
    )
    reload = Scene(
        "crash-before-any-sample", "The model crashes when it is loaded again: the case ends there."
    )
    reload.runner().begin().load("float").start("infer-float", 0).samples("infer-float", 0, 1, 2)
    reload.runner(2).begin().start("infer-float", 3)
    again = bad("crashed", "signal", code=11, attempt=2)
    reload.word(1, "signal", 6).word(2, "signal", 11).expect(
        [3, C, D, E],
        load_float=PASSED,
        infer_float=end("crashed", again, {2: crash, 3: UNREACHED, 4: UNREACHED, 5: UNREACHED}),
    )
    slow = Scene("time-out-at-sample", "A sample took too long: it is bad, the next one runs.")
    slow.runner().begin().load("float").start("infer-float", 0).samples("infer-float", 0, 1, 2, 3)
    slow.word(1, "timed_out", 9, "high").expect([2, ("infer-float", 4), C, D, E], load_float=PASSED)
    restart = Scene(
        "outputs-lost", "A runner that found outputs lost begins earlier; the crash is pinned there."
    )
    restart.runner().begin().load("float").start("infer-float", 0).samples("infer-float", 0, 1, 2, 3)
    restart.runner(2).begin().start("infer-float", 3).samples("infer-float", 1)
    restart.word(2, "signal", 6).expect([3, ("infer-float", 2), C, D, E], load_float=PASSED)
    broken = Scene(
        "infer-failed-midway", "The runner cannot go on with a case: what is left of it was not reached."
    )
    broken.runner().begin().load("float").start("infer-float", 0).samples("infer-float", 0, 1, 2, 3)
    broken.runner().finish("infer-float", "No space left on device")
    error = {"type": "RuntimeError", "message": "No space left on device"}
    broken.word(1, "interrupted").expect(
        [2, C, D, E],
        load_float=PASSED,
        infer_float=end(
            "failed",
            bad("failed", "error", attempt=1, error=error),
            {3: UNREACHED, 4: UNREACHED, 5: UNREACHED},
            finished=True,
        ),
    )
    return [*scenes, closed, resumed, reload, slow, restart, broken]


def _bad_samples() -> list[Scene]:
    def refused(attempt: int = 1) -> dict[str, object]:
        return bad("failed", "error", attempt=attempt, error=REFUSED)

    skipped = bad("not_run", "bad_samples")
    limit = Scene("bad-samples-limit", "The third bad sample ends the case; its last sample does not run.")
    limit.runner().begin().load("float").start("infer-float", 0).samples("infer-float", 0, 1)
    limit.runner(2).begin().start("infer-float", 2).samples("infer-float", 2)
    limit.runner(3).begin().start("infer-float", 3).samples("infer-float", 3, 4)
    limit.word(1, "signal", 11).word(2, "signal", 6).word(3, "timed_out")
    crashes = {
        1: bad("crashed", "signal", code=11, attempt=1),
        2: bad("crashed", "signal", code=6, attempt=2),
        4: bad("timed_out", "timed_out", attempt=3),
        5: skipped,
    }
    limit.expect([4, C, D, E], load_float=PASSED, infer_float=end("crashed", crashes[1], crashes))
    errors = Scene("sample-errors", "Refused samples are bad, and the case goes on and ends as failed.")
    errors.runner().begin().load("float").start("infer-float", 0)
    errors.runner().samples("infer-float", 0, 1).refuse("infer-float", 1).samples("infer-float", 2, 3)
    errors.runner().refuse("infer-float", 3).samples("infer-float", 4, 5).finish("infer-float")
    errors.word(1, "interrupted").expect(
        [2, C, D, E],
        load_float=PASSED,
        infer_float=end("failed", refused(), {1: refused(), 3: refused()}, finished=True),
    )
    scenes = [limit, errors]
    for name, about, finished in (
        (
            "sample-errors-limit",
            "At the limit the case is ended even if the runner says nothing more of it.",
            False,
        ),
        (
            "sample-errors-limit-closed",
            "The runner may close the case that the limit ended: its output counts.",
            True,
        ),
    ):
        scene = Scene(name, about)
        runner = scene.runner().begin().load("float").start("infer-float", 0)
        for sample in (0, 1, 2):
            runner.samples("infer-float", sample).refuse("infer-float", sample)
        if finished:
            runner.finish("infer-float")
        runner.load("int8").start("infer-int8", 2)
        samples = {0: refused(), 1: refused(), 2: refused(), 3: skipped, 4: skipped, 5: skipped}
        scene.word(1, "interrupted").expect(
            [2, D, E],
            load_float=PASSED,
            infer_float=end("failed", refused(), samples, finished),
            load_int8=PASSED,
        )
        scenes.append(scene)
    after = Scene(
        "crash-after-sample-error", "A crash after a refused sample and before the next is that sample's."
    )
    after.runner().begin().load("float").start("infer-float", 0).samples("infer-float", 0)
    after.runner().refuse("infer-float", 0)
    after.runner(2).begin().start("infer-float", 1).samples("infer-float", *range(1, 6)).finish("infer-float")
    crash = bad("crashed", "signal", code=11, attempt=1)
    after.word(1, "signal", 11).expect(
        [3, C, D, E], load_float=PASSED, infer_float=end("crashed", crash, {0: crash}, finished=True)
    )
    return [*scenes, after]


def _benchmarks() -> list[Scene]:
    four = {"load_float": PASSED, "infer_float": PASSED, "load_int8": PASSED, "infer_int8": PASSED}

    def scene(name: str, about: str) -> Scene:
        one = Scene(name, about)
        one.runner().begin().load("float").infer_float().load("int8").infer_int8().start("bench").round(0)
        return one

    crash = scene("benchmark-crash", "A crash ends the benchmark: its pair cannot be compared.").word(
        1, "signal", 11
    )
    crash.expect(None, **four, bench=end("crashed", bad("crashed", "signal", code=11, attempt=1)))
    memory = scene("benchmark-low-memory", "The system took the memory: an outcome of its own.")
    memory.word(1, "low_memory", 9, "medium")
    why = bad("killed_low_memory", "low_memory", "medium", 9, 1)
    memory.expect(None, **four, bench=end("killed_low_memory", why))
    interrupted = scene(
        "benchmark-interrupted", "An interrupted benchmark starts again whole: no round counts."
    )
    interrupted.expect([2, E], **four)
    again = scene("benchmark-again", "The second attempt ran the benchmark from its first round.")
    again.runner(2).begin().bench().end()
    again.word(1, "interrupted").word(2, "exited", 0).expect(None, **four, bench=PASSED)
    late = scene(
        "benchmark-late-word", "Passed in attempt 2, but the word on attempt 1 came after all: it crashed."
    )
    late.runner(2).begin().bench().end()
    late.word(2, "exited", 0).word(1, "signal", 11)
    late.expect(
        None, **four, bench=end("crashed", bad("crashed", "signal", code=11, attempt=1), finished=True)
    )
    unknown = scene(
        "benchmark-unknown-end", "The runner is gone and nothing tells why: crashed, low confidence."
    )
    unknown.word(1, "unknown", None, "low")
    unknown.expect(None, **four, bench=end("crashed", bad("crashed", "unknown", "low", attempt=1)))
    return [crash, memory, interrupted, again, late, unknown]


def _starts() -> list[Scene]:
    two = Scene("start-fails-twice", "A runner that wrote nothing, and one that ended before its first case.")
    two.runner(2).begin()
    two.word(1, "exited", 127).word(2, "signal", 11).expect([3, A, B, C, D, E])
    names = ("load_float", "infer_float", "load_int8", "infer_int8", "bench")
    never = Scene("never-starts", "Three failed starts in a row: nothing runs.")
    never.word(1, "exited", 127).word(2, "exited", 127).word(3, "exited", 127)
    never.expect(None, **dict.fromkeys(names, NEVER_STARTED))
    reset = Scene(
        "start-failures-in-a-row", "A case that ended in between sets the count of failed starts back."
    )
    reset.runner(3).begin().load("float")
    reset.word(1, "exited", 127).word(2, "exited", 127).word(3, "exited", 1)
    reset.expect([4, B, C, D, E], load_float=PASSED)
    blamed = Scene("start-failures-and-a-crash", "So does a crash in a case.")
    blamed.runner(3).begin().start("load-float")
    blamed.word(1, "exited", 127).word(2, "exited", 127).word(3, "signal", 11).word(4, "exited", 127)
    crash = bad("crashed", "signal", code=11, attempt=3)
    blamed.expect([5, C, D], load_float=end("crashed", crash), infer_float=UNLOADED, bench=UNLOADED)
    full = Scene("limit-then-start-failures", "A crash after the limit ended the case is one between cases.")
    full.runner().begin().load("float").start("infer-float", 0)
    for sample in (0, 1, 2):
        full.runner().samples("infer-float", sample).refuse("infer-float", sample)
    full.word(1, "signal", 11).word(2, "exited", 127).word(3, "exited", 127)
    refused = bad("failed", "error", attempt=1, error=REFUSED)
    samples = dict.fromkeys((0, 1, 2), refused) | dict.fromkeys((3, 4, 5), bad("not_run", "bad_samples"))
    full.expect(
        None,
        load_float=PASSED,
        infer_float=end("failed", refused, samples),
        load_int8=NEVER_STARTED,
        infer_int8=NEVER_STARTED,
        bench=NEVER_STARTED,
    )
    cap = Scene("attempts-cap", "The fifth attempt that is blamed is the last: what is left does not run.")
    cap.runner(1).begin().load("float").start("infer-float", 0).samples("infer-float", 0)
    cap.runner(2).begin().start("infer-float", 1).samples("infer-float", 1)
    cap.runner(3).begin().start("infer-float", 2).samples("infer-float", 2, 3, 4, 5).finish("infer-float")
    cap.runner(4).begin().load("int8").start("infer-int8", 2).samples("infer-int8", 2)
    cap.runner(5).begin().start("infer-int8", 3).samples("infer-int8", 3)
    for attempt in (1, 2, 3, 4, 5):
        cap.word(attempt, "signal", 11)
    crashed = {a: bad("crashed", "signal", code=11, attempt=a) for a in (1, 2, 4, 5)}
    unrun = bad("not_run", "attempts")
    cap.expect(
        None,
        load_float=PASSED,
        infer_float=end("crashed", crashed[1], {0: crashed[1], 1: crashed[2]}, finished=True),
        load_int8=PASSED,
        infer_int8=end("crashed", crashed[4], {2: crashed[4], 3: crashed[5], 4: unrun, 5: unrun}),
        bench=end("not_run", unrun),
    )
    return [two, never, reset, blamed, full, cap]


def _interruptions() -> list[Scene]:
    unseen = Scene("no-word", "Nobody saw the end: nothing is blamed, the sample runs again.")
    unseen.runner().begin().load("float").start("infer-float", 0).samples("infer-float", 0, 1, 2)
    unseen.expect([2, ("infer-float", 2), C, D, E], load_float=PASSED)

    late = Scene(
        "word-comes-late", "The sample passed in attempt 2, but the late word on attempt 1 keeps it bad."
    )
    late.runner().begin().load("float").start("infer-float", 0).samples("infer-float", 0, 1, 2)
    late.runner(2).begin().start("infer-float", 2).samples("infer-float", 2, 3, 4, 5).finish("infer-float")
    late.word(2, "interrupted").word(1, "signal", 11)
    crash = bad("crashed", "signal", code=11, attempt=1)
    late.expect([3, C, D, E], load_float=PASSED, infer_float=end("crashed", crash, {2: crash}, finished=True))

    thrice = Scene(
        "interrupted-thrice-at-sample", "Three ends that nobody saw, at one sample: it is blamed after all."
    )
    thrice.runner(1).begin().load("float").start("infer-float", 0).samples("infer-float", 0, 1, 2)
    thrice.runner(2).begin().start("infer-float", 2).samples("infer-float", 2)
    thrice.runner(3).begin().start("infer-float", 2).samples("infer-float", 2)
    thrice.word(2, "interrupted").expect([4, ("infer-float", 3), C, D, E], load_float=PASSED)

    load = Scene("interrupted-thrice-at-load", "Three ends that nobody saw, at one load.")
    for attempt in (1, 2, 3):
        load.runner(attempt).begin().start("load-float")
    why = bad("crashed", "interrupted", "low", attempt=3)
    load.expect([4, C, D], load_float=end("crashed", why), infer_float=UNLOADED, bench=UNLOADED)

    between = Scene(
        "interrupted-between-cases", "An interruption between cases blames nothing, however often."
    )
    for attempt in (1, 2, 3, 4):
        between.runner(attempt).begin()
    between.expect([5, A, B, C, D, E])

    twice = Scene("two-words", "Of two words on one attempt the first counts.")
    twice.runner().begin().start("load-float")
    twice.word(1, "interrupted").word(1, "signal", 11).expect([2, A, B, C, D, E])
    return [unseen, late, thrice, load, between, twice]


def scenes() -> list[Scene]:
    """All scenes that have an answer."""
    groups = (_whole_job, _loads, _samples, _bad_samples, _benchmarks, _starts, _interruptions, torn_scenes)
    return [scene for group in groups for scene in group()]
