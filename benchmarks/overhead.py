"""What the harness adds to the time of an inference, against a bare loop over the same runtime.

Each pair is two fresh processes that live side by side and run in turn, some ten milliseconds each, so that
a change of the machine's load meets both:

- harness: a benchmark case on the host device, as in use: supervisor polling, heartbeat, events, files.
  The run times that it reports are taken. While it rests between rounds,
- bare: a script with nothing but onnxruntime and numpy, the same model, input, threads and warm-up, makes the
  same number of timed runs.

The log-ratio of a pair is the mean over its rounds of that of the two medians. The answer is the geometric
mean over the pairs, with a 95 % t-interval: so the interval holds what differs between processes (memory
layout) too. Last line: JSON {"overhead_ratio", "ci95"}. Aim: at most 1.02.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import stats

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "toolkit"))

from phoneproof.devices.host import HostDevice  # noqa: E402
from phoneproof.protocol.events import RoundFinished  # noqa: E402
from phoneproof.protocol.job import SampleSet  # noqa: E402
from tests.models.jobs import JobFiles, benchmark, configuration, job_of, load  # noqa: E402
from tests.models.small_convolution import convolution, images  # noqa: E402

WARMUP_MS = 200
CHANNELS, SIDE, LAYERS = 16, 32, 40
LEAST_NS = 1_000_000
RUNS = 40
REST_MS = 250
"""Longer than the bare side's runs and the time until this script sees that it is their turn."""

BARE = """
import json, sys, time
import numpy as np, onnxruntime as ort
model, sample, runs, warmup_ms = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
options = ort.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
inputs = {"image": np.load(sample)}
end = time.perf_counter_ns() + warmup_ms * 1_000_000
while time.perf_counter_ns() < end:
    session.run(None, inputs)
print("ready", flush=True)
for _ in sys.stdin:
    times = []
    for _ in range(runs):
        begin = time.perf_counter_ns()
        session.run(None, inputs)
        times.append(time.perf_counter_ns() - begin)
    print(json.dumps(times), flush=True)
"""


class Bare:
    """The bare side: a process that waits for its turns."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-c", BARE, folder / "model.onnx", folder / "sample.npy", RUNS, WARMUP_MS]
        self._process = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answer()

    def median_ns(self) -> float:
        """One turn."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return statistics.median(json.loads(self._answer()))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit("The bare side ended.")
        return line


def medians_of_pair(
    folder: Path, model: bytes, sample: np.ndarray, rounds: int, bare: Bare
) -> list[list[float]]:
    """Medians in ns of each round: of the harness, then of the bare side in the rest that follows."""
    files = JobFiles(folder / "store")
    samples = SampleSet("samples", 1, (files.raw_input("image", sample[None]),))
    case = benchmark("c", samples, rounds=rounds, visit_ms=60_000, max_runs=RUNS, warmup_ms=WARMUP_MS)
    case = replace(case, pause_ms=REST_MS)
    configurations = [configuration("c", files.model("model.onnx", model))]
    job = job_of(configurations, [samples], [load("c"), case])
    device = HostDevice(folder / "jobs")
    device.submit(job, files.paths)
    pairs, seen, finished = [], 0, False
    while not finished:
        batch = device.events(job.job_id, seen)
        seen, finished = seen + len(batch.events), batch.finished
        for event in batch.events:
            if isinstance(event, RoundFinished):
                (visit,) = event.visits_ns
                pairs.append([statistics.median(visit), bare.median_ns()])
        time.sleep(0.005)
    device.close()
    if len(pairs) != rounds:
        sys.exit(f"{len(pairs)} rounds instead of {rounds}: see {folder}")
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=12, help="at least 10")
    parser.add_argument("--rounds", type=int, default=6, help="turns of each side in a pair")
    arguments = parser.parse_args()
    if arguments.pairs < 10:
        parser.error("at least 10 pairs")
    model = convolution(CHANNELS, CHANNELS, SIDE, layers=LAYERS)
    sample = images(1, CHANNELS, SIDE)[0]
    ratios = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.onnx").write_bytes(model)
        np.save(folder / "sample.npy", sample)
        for number in range(1, arguments.pairs + 1):
            bare = Bare(folder)
            pair = medians_of_pair(folder / f"pair-{number}", model, sample, arguments.rounds, bare)
            bare.close()
            if min(side for _, side in pair) < LEAST_NS:
                sys.exit("The model takes less than 1 ms on this machine: raise LAYERS.")
            ratios.append(statistics.fmean(math.log(harness / side) for harness, side in pair))
            harness_ms, bare_ms = (statistics.median(side) / 1e6 for side in zip(*pair, strict=True))
            print(
                f"pair {number:2}: harness {harness_ms:.3f} ms, bare {bare_ms:.3f} ms, "
                f"ratio {math.exp(ratios[-1]):.4f}",
                flush=True,
            )
    mean = statistics.fmean(ratios)
    half = stats.t.ppf(0.975, len(ratios) - 1) * statistics.stdev(ratios) / math.sqrt(len(ratios))
    ratio, low, high = (math.exp(value) for value in (mean, mean - half, mean + half))
    print(
        f"The harness takes {100 * (ratio - 1):+.2f} % ({100 * (low - 1):+.2f} to {100 * (high - 1):+.2f} %)."
    )
    print(json.dumps({"overhead_ratio": round(ratio, 4), "ci95": [round(low, 4), round(high, 4)]}))


if __name__ == "__main__":
    main()
