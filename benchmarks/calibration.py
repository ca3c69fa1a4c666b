"""Histogram calibration against ONNX Runtime's Entropy calibrator, on a network of MobileNetV2's shape.

    python benchmarks/calibration.py [--samples 64] [--rounds 3] [--long 1000]

Both calibrate the same graph with the same samples; a bare float pass is timed around each and taken off. The
last line is JSON: time_ratio (median over rounds of vendor's time over the bare pass by ours; aim ≥ 10),
cpu_ratio (the same in processor time, which a busy machine disturbs less), peak_mb (our memory above the
loaded model; aim < 150), flatness (growth of memory from 100 samples to --long, in MB; aim 0).
"""

import argparse
import contextlib
import io
import itertools
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import psutil
from onnxruntime.quantization.calibrate import CalibrationMethod, create_calibrator

sys.path.insert(0, str(Path(__file__).parent.parent / "toolkit"))

from phoneproof.quantize.observe import observe
from phoneproof.quantize.onnx_graph import prepare
from phoneproof.quantize.ranges import range_of
from phoneproof.recipes.table import Method
from phoneproof.sources.onnx_model import load_onnx
from tests.models.onnx_networks import NetworkBuilder, saved

BLOCKS = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
]
"""(expansion, channels, repeats, stride) of Sandler et al., "MobileNetV2" (2018), table 2."""

PROCESS = psutil.Process()


def mobilenet() -> Any:
    build = NetworkBuilder()

    def step(data: str, name: str, cin: int, cout: int, relu: bool = True, **shape: int) -> str:
        data = build.batch_norm(build.conv(data, name, cin, cout, bias=False, **shape), f"{name}_bn", cout)
        return build.op("Relu", [data], f"{name}_relu") if relu else data

    x, channels = step("image", "stem", 3, 32, stride=2), 32
    for number, (expansion, width, repeats, stride) in enumerate(BLOCKS):
        for repeat in range(repeats):
            name, inner = f"block{number}_{repeat}", channels * expansion
            y = step(x, f"{name}_expand", channels, inner, kernel=1) if expansion > 1 else x
            y = step(y, f"{name}_depth", inner, inner, group=inner, stride=1 if repeat else stride)
            y = step(y, f"{name}_project", inner, width, relu=False, kernel=1)
            x, channels = build.op("Add", [x, y], f"{name}_add") if repeat else y, width
    x = build.op("GlobalAveragePool", [step(x, "last", channels, 1280, kernel=1)], "pool")
    x = build.gemm(build.op("Flatten", [x], "flatten"), "head", 1280, 1000)
    return build.model({"image": [1, 3, 224, 224]}, {x: [1, 1000]})


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and processor seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


@contextlib.contextmanager
def peak_memory(peaks: list[float]) -> Iterator[None]:
    """Append the most resident memory above that at the start, in MB, looked at every 5 ms."""
    start, most, stop = PROCESS.memory_info().rss, [0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.005):
            most[0] = max(most[0], PROCESS.memory_info().rss - start)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
        peaks.append(most[0] / 2**20)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--long", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), options.samples, options.rounds, options.long)))


def measure(folder: Path, count: int, rounds: int, long: int) -> dict[str, object]:
    graph = prepare(load_onnx(saved(mobilenet(), folder / "source.onnx")))
    file = saved(graph.model, folder / "graph.onnx")
    draw = np.random.default_rng(0)
    samples = [{"image": draw.uniform(-1, 1, (1, 3, 224, 224)).astype(np.float32)} for _ in range(count)]
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    peaks: list[float] = []

    def bare() -> None:
        for sample in samples:
            session.run(None, sample)

    def ours() -> None:
        with peak_memory(peaks):
            for histogram in observe(graph, samples, threads=psutil.cpu_count() or 1).values():
                range_of(histogram, Method.ENTROPY, 100.0)

    def vendors() -> None:
        class Reader:
            left = iter(samples)

            def get_next(self) -> Any:
                return next(self.left, None)

        with contextlib.redirect_stdout(io.StringIO()):
            calibrator = create_calibrator(
                file,
                augmented_model_path=str(folder / "augmented.onnx"),
                calibrate_method=CalibrationMethod.Entropy,
            )
            calibrator.collect_data(Reader())
            calibrator.compute_data()

    bare()
    ratios: list[tuple[float, float]] = []
    for _ in range(rounds):
        floor, own, theirs, again = timed(bare), timed(ours), timed(vendors), timed(bare)
        wall, cpu = (
            (theirs[k] - min(floor[k], again[k])) / (own[k] - min(floor[k], again[k])) for k in (0, 1)
        )
        print(
            f"ours {own[0]:.2f} s, vendor's {theirs[0]:.2f} s, bare {floor[0]:.2f} s: "
            f"{wall:.1f} x (cpu {cpu:.1f} x)"
        )
        ratios.append((wall, cpu))
    used: dict[int, float] = {}

    def seen(done: int) -> None:
        if done in {100, long}:
            used[done] = PROCESS.memory_info().rss / 2**20

    observe(graph, itertools.islice(itertools.cycle(samples), long), psutil.cpu_count() or 1, seen)
    return {
        "time_ratio": round(statistics.median(wall for wall, _ in ratios), 2),
        "cpu_ratio": round(statistics.median(cpu for _, cpu in ratios), 2),
        "peak_mb": round(max(peaks), 1),
        "flatness": round(used[long] - used[100], 1),
    }


if __name__ == "__main__":
    main()
