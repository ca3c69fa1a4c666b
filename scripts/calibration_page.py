"""Calibrate the demo's network with good and with faulty sets, and write docs/calibration.md of the outcome.

With --folder, sets, runs and the store are kept there, and runs that are finished are only read again.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "toolkit"))

import numpy as np  # noqa: E402

from phoneproof.data.checks.checked import CheckedSet  # noqa: E402
from phoneproof.data.checks.registry import CALIBRATION_CHECKS, run_checks  # noqa: E402
from phoneproof.demo.digits import PREPROCESS, load, model_inputs, split  # noqa: E402
from phoneproof.report import units  # noqa: E402
from phoneproof.report.json_report import read_report  # noqa: E402
from phoneproof.report.model import Report, Result  # noqa: E402
from phoneproof.workers.worker import WorkerCall, call_worker  # noqa: E402
from tests.data.real_sets import CACHE, WHEELS, halves, real_sets  # noqa: E402
from tests.networks.project import fetch_wheels  # noqa: E402

PAGE = ROOT / "docs" / "calibration.md"
SEED = 0
SEEDS = 3
Images = np.ndarray[Any, np.dtype[np.float32]]

BUILDS: Mapping[str, str] = {
    "onnx-int8": 'recipe = "onnx-int8"',
    "onnx-int8/entropy": 'recipe = "onnx-int8"\nvariant = "entropy"\nmethod = "entropy"',
    "onnx-int8/percentile": 'recipe = "onnx-int8"\nvariant = "percentile"\nmethod = "percentile"',
}

PLAN = """\
[[models]]
name = "digits"
format = "onnx"
source = "{demo}/digits.onnx"

[data]
calibration = {{ kind = "npz", path = "calibration.npz" }}
evaluation = {{ kind = "npz", path = "../evaluation.npz" }}
classes = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]
samples = "all"
calibration_samples = "all"
seed = {seed}
may_leave = true

[task]
kind = "classification"
metrics = ["top1"]

{builds}
[[devices]]
kind = "host"
threads = 1

[benchmark]
rounds = 10
visit_ms = 1
warmup_ms = 1

[gates]
waive = ["DATA-CALIBRATION-TOO-FEW", "DATA-CONSTANT", "DATA-ONE-CLASS"]
"""


BEGINNING = """\
# Calibration sets: what a good one is, and what a faulty one costs

Written by `scripts/calibration_page.py`; do not edit it by hand.

A static int8 build takes the ranges of its activations from the calibration set. What the set does not
show is clipped; what it shows and the app never meets costs resolution. A good set

- has 100 to 500 samples, and more seldom help;
- looks like what the app will see: the same cameras, light, languages, loudness, and every class;
- is preprocessed by the very same steps, which one `[data.preprocess]` for both sets guarantees;
- shares nothing with the evaluation set: no file, no frame of the same video, best no scene.

The checks run before anything is built, compare the calibration set with the evaluation set, and tell
what they find as [findings](findings.md). Up to 1000 samples of each set are looked at, evenly spaced.

## What a fault costs

The demo's network (handwritten digits, trained on real ones) was quantized with {sets} calibration sets
of which all but the first have one fault each. A cell is the accuracy (top-1) of the build on the same
{evaluation} digits, none of which is in a calibration set, and its parity with the source model, whose
accuracy is {float_accuracy}. Severe findings were waived in the plan: without `[gates] waive` those runs
stop before anything is built.

Made on {date} on {machine}, with phoneproof {phoneproof}, {versions}, seed {seed}.

"""

LEARNED = """
Read parity beside accuracy: digits are easy to tell apart, so this network keeps its accuracy where
parity already tells of the fault, and one with closer calls would not. Whether noise does harm depends on
the network: it gives ranges, and nothing makes them those of real samples.

What to do about each stands under its [finding](findings.md).
"""

ALARMS = """
## False alarms

The same {checks} checks over real data, parted at random into calibration and evaluation set {seeds}
times, as `skip` and `take` do it. Findings here are alarms that are false, or true: fewer than 100
samples are few, and two flowers of iris are equal in every measure.

- **neighbours**: the least likeness of neighbouring elements in a sample, 0 to 1. White noise is below 0.2,
  where [DATA-NOISE](findings.md#data-noise) begins.
- **nearest**: how much 95 % of the pictures correlate at most with the nearest other one, as thumbnails.
  Above 0.99 two pictures are [nearly equal](findings.md#data-near-duplicates).

| data | samples | neighbours | nearest | findings |
|---|---|---|---|---|
"""

ENDING = """

What the checks do not see: samples without labels that are all of one class; grey noise that was
enlarged; two crops of different sizes; copies that were turned, mirrored or cut at the edges; a fault
that both sets have, unless it is one of layout, scaling to 1/255, or labels (the source model's accuracy
then tells: [ACCURACY-AT-CHANCE](findings.md#accuracy-at-chance)).
"""


@dataclass(frozen=True)
class Calibration:
    """A calibration set. what: for the page. labels: None where samples are no digits."""

    what: str
    images: Images
    labels: np.ndarray[Any, np.dtype[np.int64]] | None


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="where the runs are kept")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.folder or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page(folder), encoding="utf-8")


def page(folder: Path) -> str:
    """The page, out of runs below the folder."""
    demo = folder / "demo"
    call = WorkerCall("phoneproof.demo.worker", {"out": str(demo)}, folder / "work")
    call_worker(call)
    sets = calibration_sets()
    demo.mkdir(exist_ok=True)
    evaluation = split(*load()).evaluation
    write_set(folder / "evaluation.npz", *digits(evaluation))
    reports = {name: report_of(folder / name, one, demo, folder / "store") for name, one in sets.items()}
    first = next(iter(reports.values()))
    head = BEGINNING.format(
        date=first.run.created[:10],
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors",
        versions=", ".join(f"{name} {one}" for name, one in sorted(first.builds[0].tool_versions.items())),
        phoneproof=first.run.phoneproof_version,
        evaluation=len(evaluation),
        sets=len(sets),
        seed=SEED,
        float_accuracy=reference(first),
    )
    costs = "\n".join(row(sets[name], report) for name, report in reports.items())
    builds = " | ".join(f"`{name}`" for name in BUILDS)
    table = f"| calibration set | {builds} | findings |\n|---|{'---|' * len(BUILDS)}---|\n{costs}\n"
    alarms = "\n".join(alarm_rows(folder))
    return (
        head + table + LEARNED + ALARMS.format(seeds=SEEDS, checks=len(CALIBRATION_CHECKS)) + alarms + ENDING
    )


def digits(
    indices: Sequence[int] | np.ndarray[Any, Any],
) -> tuple[Images, np.ndarray[Any, np.dtype[np.int64]]]:
    """(float32 [n, 1, side, side] as the network takes them, labels) of scikit-learn's digits."""
    levels, labels = load()
    return model_inputs(levels[indices]), labels[indices]


def calibration_sets() -> Mapping[str, Calibration]:
    """By the name of their folder."""
    draw = np.random.default_rng(SEED)
    parts = split(*load())
    good, labels = digits(parts.calibration)
    scale, mean, std = PREPROCESS.scale, PREPROCESS.mean[0], PREPROCESS.std[0]
    pool, of_pool = digits(np.sort(np.concatenate([parts.training, parts.calibration])))
    ones = pool[of_pool == 1][: len(good)]
    unit = good * std + mean
    black = np.full_like(good, -mean / std)
    noise = draw.integers(0, 256, good.shape)
    normalised = ((noise * scale - mean) / std).astype(np.float32)
    return {
        "good": Calibration(f"good: {len(good)} digits", good, labels),
        "ten": Calibration("the first 10 of these", good[:10], labels[:10]),
        "copies": Calibration(
            "20 of them, ten times each", np.tile(good[:20], (10, 1, 1, 1)), np.tile(labels[:20], 10)
        ),
        "one-class": Calibration(
            f"{len(ones)} digits, all of the class 1", ones, np.ones(len(ones), np.int64)
        ),
        "black": Calibration("black images", black, None),
        "noise": Calibration("white noise", normalised, None),
        "divided-twice": Calibration("good, divided by 255 once more", ((unit / 255 - mean) / std), labels),
        "normalised-twice": Calibration("good, mean and std applied once more", (good - mean) / std, labels),
        "not-normalised": Calibration("good, as levels from 0 to 255", unit / scale, labels),
        "faint": Calibration("good, a quarter of the contrast", (unit / 4 - mean) / std, labels),
    }


def write_set(path: Path, images: Images, labels: np.ndarray[Any, np.dtype[np.int64]] | None) -> None:
    """An .npz archive for the input `image`."""
    arrays: dict[str, Any] = {"image": images.astype(np.float32)}
    np.savez(path, **arrays, **({} if labels is None else {"labels": labels}))


def report_of(project: Path, calibration: Calibration, demo: Path, store: Path) -> Report:
    """Of the plan's run in the folder; made if it is not there."""
    finished = project / "run" / "report" / "report.json"
    if not finished.is_file():
        project.mkdir(exist_ok=True)
        write_set(project / "calibration.npz", calibration.images, calibration.labels)
        builds = "".join(f"[[builds]]\n{lines}\n\n" for lines in BUILDS.values())
        plan = PLAN.format(demo=demo.as_posix(), seed=SEED, builds=builds)
        (project / "phoneproof.toml").write_text(plan, encoding="utf-8")
        code = "from phoneproof.cli.main import main; main(prog_name='phoneproof')"
        added = {"PYTHONPATH": str(ROOT / "toolkit"), "PHONEPROOF_STORE": str(store)}
        command = [sys.executable, "-c", code, "run", "--out", "run"]
        done = subprocess.run(
            command, cwd=project, env={**os.environ, **added}, capture_output=True, text=True, check=False
        )
        if not finished.is_file():
            raise RuntimeError(
                f"{project.name} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"[-4000:]
            )
    return read_report(finished)


def results(report: Report) -> Mapping[str, Result]:
    """By the part of the build_id after model and source."""
    return {one.configuration.build_id.split("/", 2)[2]: one for one in report.results}


def reference(report: Report) -> str:
    """Accuracy of the source model."""
    accuracy = results(report)["onnx-int8"].accuracy
    return (
        "?"
        if accuracy is None or accuracy.reference_value is None
        else units.percent(accuracy.reference_value)
    )


def cell(result: Result | None) -> str:
    """Accuracy, and SQNR of the only output."""
    if result is None or result.accuracy is None or result.accuracy.value is None:
        return "not measured"
    told = units.percent(result.accuracy.value)
    sqnr = result.parity[0].sqnr_db if result.parity else None
    return told if sqnr is None else f"{told}, {units.decibel(sqnr)}"


def row(calibration: Calibration, report: Report) -> str:
    """A line of the table of costs."""
    found = results(report)
    cells = [cell(found.get(build)) for build in BUILDS]
    ids = dict.fromkeys(f.id for f in report.findings if f.subject == "calibration")
    told = ", ".join(f"[{one}](findings.md#{one.lower()})" for one in ids) or "none"
    return f"| {calibration.what} | {' | '.join(cells)} | {told} |"


def alarm_rows(folder: Path) -> Iterator[str]:
    """A line for each real set: its size, and what was found in SEEDS random partings."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        for name, one in real_sets(Path(temporary), fetch_wheels(CACHE, WHEELS)).items():
            found: dict[str, int] = {}
            sizes, seen = "", ("", "")
            for seed in range(SEEDS):
                parts = halves(one, Path(temporary), seed)
                seen = measured(parts[0])
                sizes = f"{parts[0].store.count} / {parts[1].store.count}"
                for one_id in {finding.id for part in parts for finding in run_checks(part)}:
                    found[one_id] = found.get(one_id, 0) + 1
            told = (
                ", ".join(f"{one_id} ({times} of {SEEDS})" for one_id, times in sorted(found.items()))
                or "none"
            )
            yield f"| {name}: {one.about} | {sizes} | {' | '.join(seen)} | {told} |"


def measured(part: CheckedSet) -> tuple[str, str]:
    """(least likeness of neighbours, 95th percentile of the correlation with the nearest other picture)."""
    profile = next(iter(part.profiles.values()), None)
    if profile is None:
        return "", ""
    known = profile.likeness[~np.isnan(profile.likeness)]
    likeness = f"{known.min():.2f}" if len(known) else ""
    if profile.thumbnails is None:
        return likeness, ""
    alike = profile.thumbnails @ profile.thumbnails.T
    np.fill_diagonal(alike, -1)
    return likeness, f"{np.percentile(alike.max(axis=1), 95):.3f}"


if __name__ == "__main__":
    main()
