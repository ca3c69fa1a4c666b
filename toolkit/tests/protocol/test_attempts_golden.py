"""Every golden scene: its files are as they were made, and the rule gives what was thought out by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from phoneproof.errors import ProtocolError
from phoneproof.protocol.attempts import case_ends, next_attempt
from phoneproof.protocol.codec import to_dict
from phoneproof.protocol.event_files import read_events
from phoneproof.protocol.job import read_job
from tests.protocol.golden_files import GOLDEN, keep
from tests.protocol.refused_scenes import refused_scenes
from tests.protocol.scene import JOB, Scene
from tests.protocol.scenes import scenes

ATTEMPTS = GOLDEN / "attempts"
SCENES = [*scenes(), *refused_scenes()]


def test_the_job_of_the_scenes_is_sound() -> None:
    text = json.dumps(JOB, indent=1) + "\n"
    assert keep(ATTEMPTS / "job.json", text.encode()) == text.encode()
    assert to_dict(read_job(text)) == JOB


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_scene(scene: Scene) -> None:
    folder = ATTEMPTS / scene.name
    for name, content in scene.files().items():
        assert keep(folder / name, content) == content
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == set(scene.files())
    assert answer(folder) == json.loads((folder / "expected.json").read_text(encoding="utf-8"))


def test_names_are_told_once_and_no_folder_is_left_over() -> None:
    names = [scene.name for scene in SCENES]
    assert sorted(set(names)) == sorted(names)
    assert {path.name for path in ATTEMPTS.iterdir() if path.is_dir()} == set(names)


def answer(folder: Path) -> dict[str, Any]:
    """What the code under test makes of a scene, in the form of expected.json."""
    job = read_job((ATTEMPTS / "job.json").read_text(encoding="utf-8"))
    about = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["about"]
    try:
        events = read_events(folder)
        following = next_attempt(job, events)
    except ProtocolError:
        return {"about": about, "error": True}
    ends = {}
    for case_id, end in case_ends(job, events).items():
        content = to_dict(end)
        ends[case_id] = content | {"finished": end.finished is not None}
        del ends[case_id]["case_id"]
    return {"about": about, "next_attempt": to_dict(following), "case_ends": ends}
