"""What the harness adds to the time of an inference, against a bare loop over the same runtime.

Each pair is two fresh processes, one after the other, in alternating order:

- harness: a benchmark case on the host device, as in use: supervisor polling, heartbeat, events, files.
  The run times that it reports are taken.
- bare: a script with nothing but onnxruntime and numpy: the same model, input, threads and warm-up, and the
  same number of timed runs.

The ratio of a pair is that of the two medians. The answer is the geometric mean over the pairs, with a 95 %
t-interval of the log-ratios. Last line: JSON {"overhead_ratio", "ci95"}. Aim: at most 1.02.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy import stats

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "toolkit"))

from phoneproof.devices.host import HostDevice  # noqa: E402
from phoneproof.protocol.events import RoundFinished  # noqa: E402
from phoneproof.protocol.job import SampleSet  # noqa: E402
from tests.models.jobs import JobFiles, benchmark, configuration, job_of, load, run_to_end  # noqa: E402
from tests.models.small_convolution import convolution, images  # noqa: E402

WARMUP_MS = 300
CHANNELS, SIDE, LAYERS = 16, 32, 40
LEAST_NS = 1_000_000

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
times = []
for _ in range(runs):
    begin = time.perf_counter_ns()
    session.run(None, inputs)
    times.append(time.perf_counter_ns() - begin)
print(json.dumps(times))
"""


def harness_times(folder: Path, model: bytes, sample: np.ndarray, runs: int) -> list[int]:
    """Run times in ns of one benchmark case on the host device."""
    files = JobFiles(folder / "store")
    samples = SampleSet("samples", 1, (files.raw_input("image", sample[None]),))
    case = benchmark("c", samples, rounds=1, visit_ms=60_000, max_runs=runs, warmup_ms=WARMUP_MS)
    configurations = [configuration("c", files.model("model.onnx", model))]
    job = job_of(configurations, [samples], [load("c"), case])
    device = HostDevice(folder / "jobs")
    results = run_to_end(device, job, files)
    device.close()
    return [
        time
        for event in results.events
        if isinstance(event, RoundFinished)
        for visit in event.visits_ns
        for time in visit
    ]


def bare_times(folder: Path, runs: int) -> list[int]:
    """Run times in ns of the bare loop."""
    command = [sys.executable, "-c", BARE, folder / "model.onnx", folder / "sample.npy", runs, WARMUP_MS]
    done = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
    times: list[int] = json.loads(done.stdout)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=14, help="at least 10")
    parser.add_argument("--runs", type=int, default=300, help="timed runs in each process")
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
        for pair in range(arguments.pairs):
            medians = {}
            for side in ("harness", "bare") if pair % 2 else ("bare", "harness"):
                if side == "bare":
                    times = bare_times(folder, arguments.runs)
                else:
                    times = harness_times(folder / f"pair-{pair}", model, sample, arguments.runs)
                if len(times) != arguments.runs:
                    sys.exit(f"{side}: {len(times)} runs instead of {arguments.runs}")
                medians[side] = statistics.median(times)
            ratios.append(math.log(medians["harness"] / medians["bare"]))
            print(
                f"pair {pair + 1:2}: harness {medians['harness'] / 1e6:.3f} ms, "
                f"bare {medians['bare'] / 1e6:.3f} ms, ratio {math.exp(ratios[-1]):.4f}",
                flush=True,
            )
            if medians["bare"] < LEAST_NS:
                sys.exit("The model takes less than 1 ms on this machine: raise LAYERS.")
    mean = statistics.fmean(ratios)
    half = stats.t.ppf(0.975, len(ratios) - 1) * statistics.stdev(ratios) / math.sqrt(len(ratios))
    ratio, low, high = (math.exp(value) for value in (mean, mean - half, mean + half))
    print(
        f"The harness takes {100 * (ratio - 1):+.2f} % ({100 * (low - 1):+.2f} to {100 * (high - 1):+.2f} %)."
    )
    print(json.dumps({"overhead_ratio": round(ratio, 4), "ci95": [round(low, 4), round(high, 4)]}))


if __name__ == "__main__":
    main()
