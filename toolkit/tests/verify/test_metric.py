"""The metric worker: a user's function scores each sample, in a process that it may ruin."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phoneproof.errors import PlanError, WorkerError
from phoneproof.protocol.codec import to_dict
from phoneproof.protocol.outputs import OutputWriter
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.workers.worker import WorkerCall, WorkerLimits, call_worker

MODULE = '''
import os, sys, time
import numpy as np

def probability(outputs, label):
    """What the outputs say for the label."""
    return outputs["scores"][0, label]

probability.bounds = (0, 1)

def shapes(outputs, label):
    scores, count = outputs["scores"], outputs["count"]
    assert scores.dtype == np.float32 and scores.shape == (1, 3)
    assert count.dtype == np.int64
    return 1000 * count[0] + (-1 if label is None else label)

def prints(outputs, label):
    print("x" * 100_000)
    print("\\udcff", file=sys.stderr)
    return 1

def is_true(outputs, label):
    return bool(label == 1)

def raises(outputs, label):
    raise KeyError("boxes")

def raises_at_two(outputs, label):
    if outputs["count"][0] == 2:
        raise ValueError("no overlap")
    return 0.5

def nan(outputs, label):
    return float("nan")

def infinite(outputs, label):
    return np.inf

def nothing(outputs, label):
    return None

def text(outputs, label):
    return "good"

def array(outputs, label):
    return outputs["scores"]

def beyond(outputs, label):
    return 1.5

beyond.bounds = (0, 1)

def odd_bounds(outputs, label):
    return 1.0

odd_bounds.bounds = (0, 1, 2)

def turned_bounds(outputs, label):
    return 1.0

turned_bounds.bounds = (1, 0)

def exits(outputs, label):
    os._exit(0)

def sys_exits(outputs, label):
    sys.exit(5)

def aborts(outputs, label):
    os.abort()

def hangs(outputs, label):
    time.sleep(3600)

def writes(outputs, label):
    outputs["scores"][:] = 0
    return 0

number = 7
'''

TENSORS = (
    TensorSpec("scores", "int8", (1, 3), 0.01, -28),
    TensorSpec("count", "int64", (1,)),
)


def outputs(path: Path, samples: Sequence[int], offset: int = 0) -> dict[str, Any]:
    """A file of an int8 output with scale, and of an integer that is the sample's number."""
    with OutputWriter(path, 0) as writer:
        for sample in samples:
            scores = np.array([[-28 + sample + offset, 0, 27]], np.int8)
            writer.append(sample, [scores, np.array([sample], np.int64)])
        writer.close()
    return {"path": str(path), "tensors": to_dict(TENSORS)}


def score(
    folder: Path,
    metric: str,
    labels: Sequence[Any] | None = (0, 0, 0, 0, 2),
    samples: Sequence[int] = (0, 2, 3),
    timeout_s: float = 60.0,
    module: str = MODULE,
) -> dict[str, Any]:
    (folder / "own.py").write_text(module, encoding="utf-8")
    files = [outputs(folder / "reference.bin", (0, 1, 2, 3, 4)), outputs(folder / "build.bin", (0, 2, 3), 10)]
    request = {
        "metric": metric,
        "folder": str(folder),
        "labels": None if labels is None else list(labels),
        "samples": list(samples),
        "files": files,
    }
    limits = WorkerLimits(timeout_s=timeout_s)
    return call_worker(WorkerCall("phoneproof.verify.metric", request, folder / "work", limits=limits))


def test_scores_of_both_files_in_the_order_of_the_samples(tmp_path: Path) -> None:
    answer = score(tmp_path, "own:probability", samples=(3, 0, 2))
    reference, build = answer["scores"]
    assert reference == pytest.approx([0.03, 0.0, 0.02])
    assert build == pytest.approx([0.13, 0.10, 0.12])
    assert answer["bounds"] == [0.0, 1.0]


def test_outputs_come_in_real_values_and_labels_by_sample(tmp_path: Path) -> None:
    answer = score(tmp_path, "own:shapes", labels=(5, 6, 7, 8, 9))
    assert answer["scores"] == [[5.0, 2007.0, 3008.0]] * 2
    assert answer["bounds"] is None
    assert score(tmp_path, "own:shapes", labels=None)["scores"][0] == [-1.0, 1999.0, 2999.0]


def test_it_may_print_what_it_likes(tmp_path: Path) -> None:
    assert score(tmp_path, "own:prints")["scores"] == [[1.0] * 3] * 2


def test_true_and_false_are_scores(tmp_path: Path) -> None:
    assert score(tmp_path, "own:is_true", labels=(1, 0, 1, 0, 0))["scores"][0] == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        ("raises", "failed on sample 0: KeyError: 'boxes'"),
        ("raises_at_two", "failed on sample 2: ValueError: no overlap"),
        ("nan", "gave nan for sample 0"),
        ("infinite", "gave inf for sample 0"),
        ("nothing", "failed on sample 0: TypeError"),
        ("text", "failed on sample 0: ValueError"),
        ("array", "failed on sample 0: TypeError"),
        ("beyond", "gave 1.5 for sample 0"),
        ("odd_bounds", "bounds are (0, 1, 2)"),
        ("turned_bounds", "bounds are (1, 0)"),
        ("number", "is no function"),
        ("absent", "cannot be imported: AttributeError"),
    ],
)
def test_a_metric_that_cannot_be_used_is_named_with_the_sample(
    tmp_path: Path, function: str, text: str
) -> None:
    with pytest.raises(PlanError) as raised:
        score(tmp_path, f"own:{function}")
    assert text in raised.value.what
    assert raised.value.where == f"[task] metrics: own:{function}"
    assert raised.value.next_step is not None


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("def f(:", "SyntaxError"),
        ("import no_such_package_here", "no_such_package_here"),
        ("raise RuntimeError('licence')", "RuntimeError: licence"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named(tmp_path: Path, module: str, text: str) -> None:
    with pytest.raises(PlanError) as raised:
        score(tmp_path, "own:f", module=module)
    assert text in raised.value.what


@pytest.mark.parametrize(
    ("function", "text"),
    [("exits", "code 0"), ("sys_exits", "code 5"), ("aborts", "signal 6")],
)
def test_a_metric_that_ends_its_process_is_a_worker_error(tmp_path: Path, function: str, text: str) -> None:
    with pytest.raises(WorkerError) as raised:
        score(tmp_path, f"own:{function}")
    assert text in raised.value.what


def test_a_metric_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(WorkerError) as raised:
        score(tmp_path, "own:hangs", timeout_s=2.0)
    assert raised.value.facts["worker"] == "phoneproof.verify.metric"


def test_what_a_metric_writes_into_outputs_changes_no_file(tmp_path: Path) -> None:
    before = outputs(tmp_path / "check.bin", (0, 1, 2, 3, 4))
    score(tmp_path, "own:writes")
    assert (tmp_path / "reference.bin").read_bytes() == Path(before["path"]).read_bytes()
