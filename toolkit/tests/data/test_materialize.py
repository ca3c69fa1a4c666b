"""The data worker as it is really started: a process, a request file, a folder out."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phoneproof.data.materialize import Result, work
from phoneproof.data.store import SampleStore
from phoneproof.protocol import codec
from phoneproof.protocol.work import run_worker
from tests.data.builders import image_folder, stretch

TOOLKIT = Path(__file__).parents[2]


def request(tmp_path: Path, declared: dict[str, Any], **changes: Any) -> Path:
    content = {
        "version": 1,
        "subject": "calibration",
        "set": declared,
        "preprocess": stretch(4, 4).to_dict(),
        "inputs": [{"name": "image", "dtype": "float32", "shape": [1, 3, 4, 4]}],
        "root": str(tmp_path / "store"),
        "size_cap_bytes": 10**8,
        "size_cap_key": "data.size_cap_mb",
    }
    path = tmp_path / "request.json"
    path.write_text(json.dumps(content | changes))
    return path


def started(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "phoneproof.data.materialize", str(path)]
    return subprocess.run(command, cwd=TOOLKIT, capture_output=True, text=True, timeout=120)


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_a_set_is_stored_checked_and_reported(tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "set", {"a": 30, "b": 10})
    (folder / "b" / "000.png").write_bytes(b"broken")
    declared = {"kind": "image_folder", "path": str(folder)}
    path = request(tmp_path, declared, part={"skip": 0, "take": None, "most": 40, "seed": 3})
    done = started(path)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert lines[-1] == {"step": "write", "done": 40, "total": 40}
    assert {line["step"] for line in lines} == {"hash", "write"}
    result = codec.from_dict(Result, read(tmp_path / "result.json"))
    store = SampleStore.open(Path(result.path), verify=True)
    assert (result.count, result.skipped, result.hit) == (39, 1, False)
    assert store.digest == result.digest
    assert [finding.id for finding in result.findings] == ["DATA-CALIBRATION-FEW", "DATA-BROKEN-FILE"]
    assert not list(tmp_path.glob(".*"))

    again = started(path)
    assert again.returncode == 0
    assert read(tmp_path / "result.json")["hit"] is True


def test_files_that_are_not_there_are_left_out_and_reported(tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "set", {"a": 20})
    long_name = "n" * 300
    (folder / ("t" * 200)).symlink_to(long_name)
    for name, to in {"dangling": "nowhere.png", "loop": "loop.png", "long": long_name}.items():
        (folder / "a" / f"{name}.png").symlink_to(to)
    (folder / "a" / "folder.png").mkdir()
    os.mkfifo(folder / "a" / "pipe.png")
    assert started(request(tmp_path, {"kind": "image_folder", "path": str(folder)})).returncode == 0
    result = read(tmp_path / "result.json")
    finding = next(f for f in result["findings"] if f["id"] == "DATA-BROKEN-FILE")
    assert (result["count"], finding["facts"]["broken"], finding["facts"]["total"]) == (20, 4, 24)
    assert finding["facts"]["examples"][0] == "a/dangling.png: The file does not exist"


def test_rows_of_files_that_are_not_there_are_left_out_and_reported(tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "set", {"a": 12})
    names = [f"a/{k:03d}.png" for k in range(12)] + ["none.png", "a", f"{'n' * 300}.png", "\0.png"]
    (folder / "set.csv").write_text("path,label\n" + "".join(f"{name},1\n" for name in names))
    declared = {"kind": "csv", "path": str(folder / "set.csv")}
    assert started(request(tmp_path, declared)).returncode == 0
    result = read(tmp_path / "result.json")
    finding = next(f for f in result["findings"] if f["id"] == "DATA-BROKEN-FILE")
    assert (result["count"], finding["facts"]["broken"]) == (12, 4)
    assert "none.png: The file does not exist" in finding["facts"]["examples"]


def test_overlap_with_the_evaluation_set(tmp_path: Path) -> None:
    declared = {"kind": "image_folder", "path": str(image_folder(tmp_path / "set", {"a": 12}))}
    assert run_worker(work, [str(request(tmp_path, declared, subject="evaluation"))]) == 0
    evaluation = read(tmp_path / "result.json")
    assert evaluation["findings"] == []
    assert run_worker(work, [str(request(tmp_path, declared, evaluation_samples=evaluation["path"]))]) == 0
    findings = {f["id"]: f for f in read(tmp_path / "result.json")["findings"]}
    assert findings["DATA-OVERLAP"]["severity"] == "severe"
    assert findings["DATA-OVERLAP"]["facts"]["fraction"] == 1.0


def test_what_an_entry_point_prints_does_not_reach_the_progress(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(
        "import os, numpy as np\n"
        "def samples():\n"
        "    print('{\"progress\": 99}')\n"
        "    os.write(1, b'native noise\\n')\n"
        "    yield np.zeros((1, 3), np.float32), 0\n"
    )
    declared = {"kind": "entry_point", "function": "noisy:samples", "folder": str(tmp_path)}
    inputs = [{"name": "image", "dtype": "float32", "shape": [1, 3]}]
    done = started(request(tmp_path, declared, preprocess=None, inputs=inputs))
    assert done.returncode == 0, done.stderr
    progress = (tmp_path / "progress.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in progress] == ["hash", "write"]
    assert "native noise" in done.stdout


@pytest.mark.parametrize(
    ("changes", "error_class", "where"),
    [
        ({"set": {"kind": "image_folder", "path": "/absent"}}, "DataError", "/absent"),
        ({"set": {"kind": "image_folder", "pth": "x"}}, "DataError", "data.calibration"),
        (
            {"preprocess": {"mode": "RGB", "layout": "nchw", "scale": "x"}},
            "DataError",
            "data.preprocess.scale",
        ),
        ({"size_cap_bytes": 10}, "DataError", "data.size_cap_mb"),
        ({"evaluation_samples": "/absent"}, "StorageError", "/absent/samples.json"),
        ({"surprise": 1}, "ProtocolError", "$"),
        ({"version": 2}, "ProtocolError", "version"),
    ],
)
def test_errors_are_written_with_place_and_next_step(
    tmp_path: Path, changes: dict[str, Any], error_class: str, where: str
) -> None:
    declared = {"kind": "image_folder", "path": str(image_folder(tmp_path / "set", {"a": 2}))}
    assert run_worker(work, [str(request(tmp_path, declared, **changes))]) == 1
    error = read(tmp_path / "error.json")
    assert set(error) == {"class", "what", "where", "next_step", "facts"}
    assert error["class"] == error_class
    assert where in error["where"]
    assert not (tmp_path / "result.json").exists()


def test_two_parts_of_one_folder_share_no_sample(tmp_path: Path) -> None:
    declared = {"kind": "image_folder", "path": str(image_folder(tmp_path / "set", {"a": 30, "b": 10}))}
    ids = []
    for part in ({"take": 12}, {"skip": 12}):
        assert run_worker(work, [str(request(tmp_path, declared, part={"seed": 5, **part}))]) == 0
        ids.append(SampleStore.open(Path(read(tmp_path / "result.json")["path"])).stored.ids)
    assert [len(part) for part in ids] == [12, 28]
    assert not set(ids[0]) & set(ids[1])
    assert {name.split("/")[0] for name in ids[0]} == {"a", "b"}


def test_values_without_a_preprocess(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", image=np.random.default_rng(0).normal(size=(100, 3)))
    declared = {"kind": "npz", "path": str(tmp_path / "x.npz")}
    inputs = [{"name": "image", "dtype": "float32", "shape": [1, 3]}]
    assert run_worker(work, [str(request(tmp_path, declared, preprocess=None, inputs=inputs))]) == 0
    result = read(tmp_path / "result.json")
    assert result["findings"] == []
    assert SampleStore.open(Path(result["path"])).input("image").dtype == "float32"


def test_the_worker_loads_without_pydantic_and_vendors_packages() -> None:
    script = (
        "import sys; import phoneproof.data.materialize; "
        "print([m for m in ('pydantic', 'onnx', 'torch', 'scipy', 'filelock') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=TOOLKIT, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
