"""Wrong requests are refused before anything is started: no folder is made, and one message tells more."""

import importlib.metadata
import shutil
from collections.abc import Callable

import pytest

from phoneproof.recipes import toolchain_table
from phoneproof.runs.folder import opened
from tests.cli.conftest import Call
from tests.runs.project import Answer, Project, listing


def one_message(answer: Answer, code: int) -> str:
    """What a command said in refusal. Nothing but it stands there."""
    assert answer.code == code, answer
    assert answer.out == ""
    assert answer.err.startswith("error: "), answer.err
    assert answer.err.count("error: ") == 1, answer.err
    assert "Traceback" not in answer.err
    assert "phoneproof has a fault" not in answer.err
    assert "  next:  " in answer.err, answer.err
    return answer.err


def refused(project: Project, call: Call, code: int = 2) -> str:
    """The message of a run that is refused without a trace on the disk."""
    before = listing(project.folder)
    said = one_message(call("run", "--out", "run"), code)
    assert listing(project.folder) == before
    assert not project.store.exists()
    return said


def write(name: str, content: bytes) -> Callable[[Project], object]:
    return lambda project: (project.folder / name).write_bytes(content)


def change(old: str, new: str) -> Callable[[Project], object]:
    return lambda project: project.change(old, new)


def remove(name: str) -> Callable[[Project], object]:
    def removed(project: Project) -> None:
        path = project.folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return removed


def remove_images(project: Project) -> None:
    for path in (project.folder / "evaluation").rglob("*.png"):
        path.unlink()


FAULTS: dict[str, tuple[Callable[[Project], object], tuple[str, ...]]] = {
    "no-plan": (remove("phoneproof.toml"), ("phoneproof.toml", "phoneproof init")),
    "no-toml": (write("phoneproof.toml", b"[[models]\n"), ("not TOML", "phoneproof.toml")),
    "not-utf8": (write("phoneproof.toml", b'name = "\xff"\n'), ("not UTF-8",)),
    "wrong-key": (change("variant =", "varient ="), ("varient", "'variant'", "phoneproof.toml:")),
    "wrong-section": (change("[benchmark]", "[benchmrk]"), ("benchmrk", "'benchmark'")),
    "wrong-type": (change("rounds = 10", 'rounds = "ten"'), ("rounds", "phoneproof.toml:")),
    "wrong-recipe": (change('"onnx-int8"', '"onnx-int-8"'), ("onnx-int-8", "'onnx-int8'")),
    "no-model": (remove("tiny.onnx"), ("tiny.onnx", "does not exist")),
    "model-is-a-folder": (change('"tiny.onnx"', '"evaluation"'), ("evaluation",)),
    "empty-model": (write("tiny.onnx", b""), ("tiny.onnx", "empty")),
    "model-of-noise": (write("tiny.onnx", bytes(range(256)) * 9), ("tiny.onnx",)),
    "model-of-text": (write("tiny.onnx", b"<!DOCTYPE html><html>404</html>"), ("tiny.onnx",)),
    "git-lfs-pointer": (
        write("tiny.onnx", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"),
        ("tiny.onnx", "git lfs"),
    ),
    "no-calibration-folder": (remove("calibration"), ("calibration", "does not exist")),
    "no-calibration-set": (
        change('calibration = { kind = "image_folder", path = "calibration" }\n', ""),
        ("needs a calibration set", "[data.calibration]"),
    ),
    "no-evaluation-set": (
        change('evaluation = { kind = "image_folder", path = "evaluation" }\n', ""),
        ("evaluation set", "[data.evaluation]"),
    ),
    "empty-set": (
        remove_images,
        ("holds no images", "evaluation"),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_request_is_refused(project: Project, call: Call, fault: str) -> None:
    spoil, words = FAULTS[fault]
    spoil(project)
    said = refused(project, call)
    for word in words:
        assert word in said, said


def test_several_faults_are_told_at_once(project: Project, call: Call) -> None:
    remove("tiny.onnx")(project)
    remove("calibration")(project)
    answer = call("run", "--out", "run")
    assert answer.code == 2
    assert answer.err.count("error: ") == 2
    assert "tiny.onnx" in answer.err
    assert "calibration" in answer.err


def test_several_mistakes_of_a_plan_are_listed_once(project: Project, call: Call) -> None:
    project.change("rounds = 10", 'rounds = "ten"')
    project.change('method = "entropy"', 'percentile = 99.0\nmethod = "entropy"')
    said = refused(project, call)
    assert said.count("benchmark.rounds") == said.count("builds #2.percentile") == 1
    assert "'percentile' means nothing with method 'entropy'." in said
    problems = call("run", "--out", "run", "--json").json["error"]["facts"]["problems"]
    assert len(problems) == 2


@pytest.mark.parametrize("found", [None, "1.2.0"], ids=["absent", "too-old"])
def test_a_toolchain_that_cannot_be_used_is_told_with_what_mends_it(
    project: Project, call: Call, monkeypatch: pytest.MonkeyPatch, found: str | None
) -> None:
    def version(package: str) -> str:
        if package != "onnxruntime":
            return importlib.metadata.version(package)
        if found is None:
            raise importlib.metadata.PackageNotFoundError(package)
        return found

    class Metadata:
        PackageNotFoundError = importlib.metadata.PackageNotFoundError

    Metadata.version = staticmethod(version)  # type: ignore[attr-defined]
    monkeypatch.setattr(toolchain_table, "metadata", Metadata)
    said = refused(project, call, code=3)
    assert "onnxruntime" in said
    assert "phoneproof toolchain install onnxruntime" in said


def test_a_folder_that_is_no_run_is_left_alone(project: Project, call: Call) -> None:
    folder = project.folder / "run"
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")
    said = refused(project, call)
    assert "not empty, and it is no run" in said
    assert "--out" in said


def test_a_run_of_another_plan_is_left_alone(project: Project, call: Call) -> None:
    with opened(project.folder / "run", project.plan, ()):
        pass
    project.change("rounds = 10", "rounds = 11")
    before = listing(project.folder)
    for arguments in ((), ("-p", "phoneproof.toml"), ("--dry-run",)):
        assert "another plan" in one_message(call("run", "--out", "run", *arguments), 2)
    assert listing(project.folder) == before
