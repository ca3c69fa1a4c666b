"""Golden scenes that a reader must refuse."""

from tests.protocol.scene import Scene


def refused_scenes() -> list[Scene]:
    """Scenes that are no protocol: a ProtocolError, and no guess at what was meant."""

    def scene(name: str, about: str) -> Scene:
        one = Scene(f"refused-{name}", about).refuse()
        one.runner().begin().start("load-float")
        return one

    def begun(name: str, about: str, **changes: object) -> Scene:
        one = Scene(f"refused-{name}", about).refuse()
        one.runner().begin(**changes)
        return one

    later = '{"event":"heartbeat","stamp":{"attempt":1,"seq":%s,"monotonic_ns":5,"wall_ms":5},%s}\n'
    idle = '"case_id":null,"memory_bytes":null'
    scenes = [
        begun("other-major", "Another major version.", protocol={"major": 2, "minor": 0}, new="key"),
        begun("newer-minor", "A newer minor version.", protocol={"major": 1, "minor": 1}),
        begun("no-version", "No version.", protocol=None),
        begun("other-job", "The events of another job.", job_id="0" * 64),
        begun("unknown-key", "A key that this version does not have.", batery=71),
    ]
    for name, about, line in (
        (
            "garbage",
            "A whole line that is no JSON, with more lines after it.",
            "linker: warning: unused DT entry\n",
        ),
        ("empty-line", "An empty line.", "\n"),
        ("duplicate-seq", "One seq twice: two writers, or a line written again.", later % (1, idle)),
        ("missing-seq", "A seq is missing: a line was lost.", later % (4, idle)),
        (
            "other-attempt",
            "Another attempt's event in this file.",
            later.replace('"attempt":1', '"attempt":2') % (2, idle),
        ),
        ("not-a-number", "NaN is no JSON.", later % (2, '"case_id":null,"memory_bytes":NaN')),
        (
            "fraction",
            "A fraction where a whole number belongs.",
            later % (2, '"case_id":null,"memory_bytes":1.5'),
        ),
        ("key-twice", "A key twice in one object.", later % (2, idle + ',"case_id":"bench"')),
        (
            "lone-surrogate",
            "Half of a surrogate pair.",
            later % (2, '"case_id":"\\ud83d","memory_bytes":null'),
        ),
        (
            "unknown-case",
            "An event of a case that the job does not have.",
            later % (2, '"case_id":"x","memory_bytes":1'),
        ),
        (
            "unknown-event",
            "An event that this version does not have.",
            later.replace("heartbeat", "paused") % (2, idle),
        ),
        ("carriage-return-only", "Lines end in a line feed.", (later % (2, idle)).replace("\n", "\r{}\n")),
    ):
        one = scene(name, about)
        one.runner().raw(line)
        one.runner().seq = 3 if name != "garbage" else 2
        one.runner().line("heartbeat", case_id=None, memory_bytes=None)
        scenes.append(one)
    utf16 = scene("utf-16", "A line that is not UTF-8.")
    utf16.runner().raw((later % (2, idle)).rstrip("\n").encode("utf-16-le") + b"\n")
    headless = Scene(
        "refused-no-job-started", "A runner's file that does not begin with job_started."
    ).refuse()
    headless.runner().start("load-float")
    restarted = scene("job-started-twice", "Two runners wrote one file.")
    restarted.runner().begin()
    outside = scene("sample-outside", "A sample that the case does not have.")
    outside.runner().samples("infer-int8", 1)
    no_samples = scene("sample-of-load", "A sample of a case without samples.")
    no_samples.runner().samples("load-float", 0)
    no_output = scene("passed-without-output", "An infer case that keeps outputs passed without its file.")
    no_output.runner().line("case_finished", **(_finish_fields() | {"output": None}))
    elsewhere = scene("output-elsewhere", "An output that is not the case's file.")
    ref = {"name": "../outputs/infer-float.bin", "sha256": "0" * 64, "size_bytes": 8}
    elsewhere.runner().line("case_finished", **(_finish_fields() | {"output": ref}))
    short = scene("three-visits", "An ABBA round has four visits.")
    short.runner().line(
        "round_finished",
        case_id="bench",
        round=0,
        order="ABBA",
        baseline_batch=1,
        candidate_batch=1,
        visits_ns=[[5], [5], [5]],
        waited_ns=None,
    )
    unsaid = scene("wait-of-one-visit-missing", "What the threads waited is told of every visit or of none.")
    unsaid.runner().line(
        "round_finished",
        case_id="bench",
        round=0,
        order="ABBA",
        baseline_batch=1,
        candidate_batch=1,
        visits_ns=[[5], [5], [5], [5]],
        waited_ns=[0, 0, 0],
    )
    foreign = scene("word-in-runners-file", "A supervisor's word in a runner's file.")
    foreign.runner().line("attempt_ended", cause="exited", code=0, confidence="high", facts={}, log_tail=[])
    cases = [outside, no_samples, no_output, elsewhere, short, unsaid]
    return [*scenes, utf16, headless, restarted, *cases, foreign]


def _finish_fields() -> dict[str, object]:
    measured = dict.fromkeys(
        (
            "load_ms",
            "first_ms",
            "baseline_first_ms",
            "peak_memory_bytes",
            "accelerator_actual",
            "operators",
            "clock_resolution_ns",
        )
    )
    return {"case_id": "infer-float", "outcome": "passed", "error": None, "measured": measured}
