"""Builder of golden scenes: the files of a job's folder, and what a reader must make of them.

Lines are made out of plain dictionaries, not by the code under test, and what is expected is written by hand.
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

LIMITS: Json = {
    "load_timeout_ms": 120000,
    "sample_timeout_ms": 60000,
    "round_timeout_ms": 120000,
    "memory_bytes": None,
    "heartbeat_ms": 1000,
    "bad_samples_per_case": 3,
    "max_attempts": 5,
    "start_failures": 3,
    "interruptions_at_one_place": 3,
}


def dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def file_ref(name: str, content: str, size: int) -> Json:
    return {"name": name, "sha256": hashlib.sha256(content.encode()).hexdigest(), "size_bytes": size}


def _configuration(name: str) -> Json:
    model = file_ref(f"{name}.onnx", name, 1000)
    return {
        "configuration_id": name,
        "build_id": f"digits/onnx/{name}",
        "runtime": "onnxruntime",
        "accelerator": "cpu",
        "allow_fallback": False,
        "threads": 1,
        "model": {"entry": model["name"], "files": [model]},
        "options": {},
    }


def job_content() -> Json:
    """The job of all scenes: float and int8, each loaded and inferred, then timed as a pair."""
    raw = {
        "kind": "raw",
        "name": "x",
        "dtype": "float32",
        "shape": [1, 4],
        "shards": [{"file": file_ref("x.bin", "x", 96), "count": 6}],
    }
    infer = {"kind": "infer", "samples": "six"}
    content: Json = {
        "protocol": {"major": 1, "minor": 0},
        "configurations": [_configuration("float"), _configuration("int8")],
        "samples": [{"samples_id": "six", "count": 6, "inputs": [raw]}],
        "cases": [
            {"kind": "load", "case_id": "load-float", "configuration": "float"},
            infer
            | {"case_id": "infer-float", "configuration": "float", "first": 0, "count": 6}
            | {"keep": {"kind": "full", "k": None, "axis": None}},
            {"kind": "load", "case_id": "load-int8", "configuration": "int8"},
            infer
            | {"case_id": "infer-int8", "configuration": "int8", "first": 2, "count": 4}
            | {"keep": {"kind": "argmax", "k": None, "axis": -1}},
            {
                "kind": "benchmark",
                "case_id": "bench",
                "candidate": "int8",
                "baseline": "float",
                "samples": "six",
                "baseline_samples": "six",
                "rounds": 2,
                "interleaving": "in_process",
                "warmup_ms": 100,
                "visit_ms": 50,
                "max_runs_per_visit": 100,
                "batch_below_ns": 100000,
                "pause_ms": 0,
            },
        ],
        "limits": LIMITS,
    }
    # ASCII keys and whole numbers: sorted compact JSON is the canonical form.
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return {"job_id": hashlib.sha256(canonical.encode()).hexdigest()} | content


JOB = job_content()


@dataclass
class Runner:
    """The event file of one attempt."""

    attempt: int
    data: bytes = b""
    seq: int = 0

    def line(self, event: str, **fields: Any) -> "Runner":
        stamp = {
            "attempt": self.attempt,
            "seq": self.seq,
            "monotonic_ns": self.attempt * 1_000_000_000 + self.seq * 1_000_000,
            "wall_ms": 1_790_000_000_000 + self.attempt * 60_000 + self.seq,
        }
        return self.raw(dumps({"event": event, "stamp": stamp} | fields) + "\n", count=1)

    def raw(self, text: str | bytes, count: int = 0) -> "Runner":
        self.data += text.encode() if isinstance(text, str) else text
        self.seq += count
        return self

    def begin(self, **changes: Any) -> "Runner":
        fields = {
            "protocol": {"major": 1, "minor": 0},
            "job_id": JOB["job_id"],
            "environment": {
                "os": "Android 14",
                "device": "Galaxy S24 \u2014 f\u00fcr Tests",
                "battery": None,
            },
            "runtimes": {"onnxruntime": "1.22.0"},
        }
        return self.line("job_started", **(fields | changes))

    def start(self, case: str, next_sample: int | None = None) -> "Runner":
        return self.line("case_started", case_id=case, next_sample=next_sample)

    def samples(self, case: str, *samples: int) -> "Runner":
        for sample in samples:
            self.line("sample_started", case_id=case, sample=sample)
        return self

    def refuse(self, case: str, sample: int) -> "Runner":
        error = {"type": "InvalidArgument", "message": "Got invalid dimensions"}
        return self.line("sample_failed", case_id=case, sample=sample, error=error)

    def round(self, number: int) -> "Runner":
        visits = [[1200, 1190], [610, 600, 605], [607, 603, 611], [1195, 1201]]
        return self.line(
            "round_finished",
            case_id="bench",
            round=number,
            order="ABBA",
            baseline_batch=1,
            candidate_batch=1,
            visits_ns=visits,
            waited_ns=None if number else [0, 0, 5, 0],
        )

    def finish(self, case: str, error: str | None = None) -> "Runner":
        kept = case.startswith("infer") and error is None
        return self.line(
            "case_finished",
            case_id=case,
            outcome="failed" if error else "passed",
            error={"type": "RuntimeError", "message": error} if error else None,
            measured={
                "load_ms": 12.5 if case.startswith("load") else None,
                "first_ms": None,
                "baseline_first_ms": None,
                "peak_memory_bytes": None,
                "accelerator_actual": "cpu",
                "operators": {"cpu": 12},
                "clock_resolution_ns": None,
            },
            output=file_ref(f"outputs/{case}.bin", case, 128) if kept else None,
        )

    def load(self, name: str) -> "Runner":
        return self.start(f"load-{name}").finish(f"load-{name}")

    def infer_float(self) -> "Runner":
        return self.start("infer-float", 0).samples("infer-float", *range(6)).finish("infer-float")

    def infer_int8(self) -> "Runner":
        return self.start("infer-int8", 2).samples("infer-int8", *range(2, 6)).finish("infer-int8")

    def bench(self) -> "Runner":
        return self.start("bench").round(0).round(1).finish("bench")

    def end(self) -> "Runner":
        return self.line("job_finished")


@dataclass
class Scene:
    """One folder of protocol/golden/attempts. expected: `next_attempt` and `case_ends`, or `error`."""

    name: str
    about: str
    runners: dict[int, Runner] = field(default_factory=dict)
    words: bytes = b""
    word_seq: int = 0
    expected: Json = field(default_factory=dict)

    def runner(self, attempt: int = 1) -> Runner:
        return self.runners.setdefault(attempt, Runner(attempt))

    def word(
        self, attempt: int, cause: str, code: int | None = None, confidence: str = "high", **changes: Any
    ) -> "Scene":
        stamp = {
            "attempt": attempt,
            "seq": self.word_seq,
            "monotonic_ns": attempt * 5_000_000_000,
            "wall_ms": 1_790_000_000_000 + attempt * 60_000 + 30_000,
        }
        line: Json = {"event": "attempt_ended", "stamp": stamp, "cause": cause, "code": code}
        line |= {"confidence": confidence, "facts": {}, "log_tail": []}
        self.words += (dumps(line | changes) + "\n").encode()
        self.word_seq += 1
        return self

    def expect(self, following: list[Any] | None, **ends: Any) -> "Scene":
        """following: [number, (case_id, next_sample), ...]; ends: case ids with _ for -."""
        attempt = None
        if following is not None:
            number, *cases = following
            attempt = {"number": number, "cases": [{"case_id": c, "next_sample": s} for c, s in cases]}
        self.expected = {
            "about": self.about,
            "next_attempt": attempt,
            "case_ends": {name.replace("_", "-"): end for name, end in ends.items()},
        }
        return self

    def refuse(self) -> "Scene":
        self.expected = {"about": self.about, "error": True}
        return self

    def files(self) -> dict[str, bytes]:
        files = {f"events/{number:04d}.jsonl": runner.data for number, runner in self.runners.items()}
        if self.words:
            files["attempts.jsonl"] = self.words
        text = json.dumps(self.expected, indent=1, ensure_ascii=False)
        return {**files, "expected.json": (text + "\n").encode()}


def bad(
    outcome: str,
    cause: str,
    confidence: str = "high",
    code: int | None = None,
    attempt: int | None = None,
    error: Json | None = None,
) -> Json:
    return {
        "outcome": outcome,
        "cause": cause,
        "confidence": confidence,
        "code": code,
        "error": error,
        "attempt": attempt,
    }


def end(
    outcome: str, why: Json | None = None, samples: dict[int, Json] | None = None, finished: bool = False
) -> Json:
    named = {str(sample): one for sample, one in (samples or {}).items()}
    return {"outcome": outcome, "bad": why, "bad_samples": named, "finished": finished}


PASSED = end("passed", finished=True)
REFUSED = {"type": "InvalidArgument", "message": "Got invalid dimensions"}
