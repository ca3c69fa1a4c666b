"""What a change of the plan, the model or the data makes anew, and that a dry run foresees it."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from phoneproof.builds.store import Store
from phoneproof.runs.dry_run import foresee
from phoneproof.runs.run import FinishedRun, RunOptions, run
from tests.runs.evidence import check_run
from tests.runs.project import Project, listing, network

BUILDS = ("onnx-float32", "onnx-int8", "onnx-int8/entropy", "onnx-int8-dynamic")
STATIC = frozenset({"onnx-int8", "onnx-int8/entropy"})
NONE: frozenset[str] = frozenset()


@pytest.fixture(scope="module")
def primed(blank: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose builds are all in the store."""
    folder = tmp_path_factory.mktemp("primed")
    project = blank.copy(folder / "project", folder / "store")
    built(project, "first")
    return project


@pytest.fixture
def project(primed: Project) -> Iterator[Project]:
    """The primed project; what a test changes in it is put back, with the times of its files."""
    kept = primed.folder.with_name("kept")
    shutil.copytree(primed.folder, kept)
    yield primed
    shutil.rmtree(primed.folder)
    kept.rename(primed.folder)


def options_of(project: Project) -> RunOptions:
    return RunOptions(until="build", store=project.store)


def built(project: Project, name: str) -> FinishedRun:
    finished = run(project.plan, project.folder / name, options=options_of(project))
    assert finished.exit_code == 0
    return finished


def made(finished: FinishedRun) -> frozenset[str]:
    """Recipe and variant of the builds that were made and not taken out of the store."""
    return frozenset(b.wanted.build_id.split("/", 2)[2] for b in finished.builds if not b.cached)


def missed(project: Project, name: str) -> frozenset[str]:
    """The builds that a dry run says MISS of."""
    steps = foresee(project.plan, project.folder / name, options_of(project))
    states = {s.step.split("/", 3)[3].replace("@", "/"): s.state for s in steps if s.step[:6] == "build/"}
    assert set(states) == set(BUILDS)
    return frozenset(recipe for recipe, state in states.items() if state == "MISS")


def what_touches_no_build(project: Project) -> None:
    project.change("visit_ms = 5", "visit_ms = 6")
    project.change("threads = 1", "threads = 2")
    project.change("rounds = 10", "rounds = 11")
    text = '\n[gates]\nsize_ratio_max = 0.4\naccuracy_drop_max = 0.1\n\n[report]\ntitle = "Tiny"\n'
    project.plan_path.write_text(project.plan_path.read_text() + text)


def another_source(project: Project) -> None:
    onnx.save(network(seed=9), str(project.folder / "tiny.onnx"))


def repaint(project: Project, role: str) -> None:
    levels = np.full((12, 12, 3), 77, np.uint8)
    Image.fromarray(levels).save(project.folder / role / "dark" / "03.png")


CHANGES: dict[str, tuple[Callable[[Project], None], frozenset[str]]] = {
    "nothing-of-a-build": (what_touches_no_build, NONE),
    "source": (another_source, frozenset(BUILDS)),
    "calibration-image": (lambda project: repaint(project, "calibration"), STATIC),
    "evaluation-image": (lambda project: repaint(project, "evaluation"), NONE),
    # Float builds too: what makes numbers of pixels is embedded in every build.
    "numbers-of-pixels": (
        lambda project: project.change("scale = 0.0039", "scale = 0.0078"),
        frozenset(BUILDS),
    ),
    "option": (
        lambda project: project.change('variant = "entropy"', 'variant = "entropy"\nper_channel = false'),
        frozenset({"onnx-int8/entropy"}),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_makes_only_what_it_touches(project: Project, change: str) -> None:
    spoil, expected = CHANGES[change]
    assert missed(project, "second") == NONE
    spoil(project)
    before = listing(project.folder, project.store)
    foreseen = missed(project, "second")
    assert listing(project.folder, project.store) == before, "a dry run wrote something"
    assert foreseen == expected
    assert made(built(project, "second")) == expected


def test_a_file_with_a_new_time_and_the_old_content_is_a_miss_that_turns_out_a_hit(project: Project) -> None:
    os.utime(project.folder / "calibration" / "dark" / "03.png", (1, 1))
    assert missed(project, "second") == STATIC
    assert made(built(project, "second")) == NONE


def test_what_this_run_has_is_a_hit(project: Project) -> None:
    steps = foresee(project.plan, project.folder / "first", options_of(project))
    assert {step.state for step in steps} == {"HIT"}
    options = RunOptions(store=project.store)
    steps = foresee(project.plan, project.folder / "first", options)
    assert [step.step for step in steps if step.state == "MISS"] == ["job/host/onnxruntime"]


def test_damaged_entries_of_the_store_are_noticed_and_made_again(project: Project) -> None:
    digests = {b.wanted.build_id: b.manifest.sha256 for b in built(project, "second").builds if b.manifest}
    store = Store(project.store)
    for entry in store.entries():
        for path in (store.root / entry.kind / entry.key).iterdir():
            if path.is_file() and path.name != "sha256.json":
                spoil(path)
    # The builds of the first run are links to the same files, and so is what the second one begins with.
    for name in ("first", "third"):
        finished = built(project, name)
        assert {b.wanted.build_id: b.manifest.sha256 for b in finished.builds if b.manifest} == digests
        check_run(project.folder / name)


def spoil(path: Path) -> None:
    content = bytearray(path.read_bytes() or b"x")
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
