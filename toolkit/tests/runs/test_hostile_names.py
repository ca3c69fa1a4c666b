"""Names in models and data are the work of others; they reach no shell, no other folder, no markup."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tomlkit
from click.testing import CliRunner
from PIL import Image

from phoneproof.cli.main import main
from phoneproof.errors import PhoneproofError
from phoneproof.runs.run import RunOptions, run
from tests.models.onnx_networks import NetworkBuilder
from tests.runs.project import Project, listing, report_of
from tests.runs.shared import Finished

TOUCH = "$(touch pwned)`touch pwned`;touch pwned|touch pwned"
MARKUP = "<img src=x onerror=alert(1)>'\"&amp;--><b onclick=alert(1)>"
RIGHT_TO_LEFT = "\u202egnp.exe\u2066"
EMOJI = "\U0001f92f\u200d\ufe0f"
TERMINAL = "\x1b]0;owned\x07\x1b[2J"
LONG = "long" * 55


def hostile_network() -> Any:
    """A convolution and a classifier, every name of which is hostile."""
    build = NetworkBuilder()
    image = "<script>alert(1)</script>"
    x = build.conv(image, f"../../{TOUCH}", 3, 4)
    x = build.op("Relu", [x], f"{MARKUP}\n{RIGHT_TO_LEFT}")
    x = build.op("Flatten", [build.op("GlobalAveragePool", [x], TERMINAL)], "/etc/passwd\r\n")
    x = build.gemm(x, f"{EMOJI}{LONG * 4}", 4, 2)
    scores = f"../../../{MARKUP}{TOUCH}"
    x = build.op("Softmax", [x], "last", axis=-1)
    build.nodes[-1].output[0] = scores
    model = build.model({image: [1, 3, 12, 12]}, {scores: [1, 2]})
    model.doc_string = MARKUP
    model.producer_name = f"{MARKUP}{TOUCH}"
    entry = model.metadata_props.add()
    entry.key, entry.value = f"../{MARKUP}", TOUCH * 50
    return model


def hostile_images(folder: Path) -> None:
    names = (MARKUP, TOUCH, RIGHT_TO_LEFT, EMOJI, "new\nline", LONG, " ", "-rf", "..x")
    draw = np.random.default_rng(4)
    for label, kind in enumerate((f"0{MARKUP[:40]}", f"1{TOUCH}")):
        (folder / kind.replace("/", "_")).mkdir(parents=True)
        for name in names:
            levels = draw.integers(0, 128 + 127 * label, (12, 12, 3), np.uint8)
            plain = name.replace("/", "_")
            Image.fromarray(levels).save(folder / kind.replace("/", "_") / f"{plain}.png", format="PNG")


def hostile_project(blank: Project, sandbox: Path) -> Project:
    project = blank.copy(sandbox / "project", sandbox / "store")
    (project.folder / "tiny.onnx").unlink()
    source = f"{TOUCH} <b>.onnx"
    onnx.save(hostile_network(), str(project.folder / source))
    hostile_images(project.folder / "hostile")
    (project.folder / "hostile" / f"0{MARKUP[:40]}" / "broken.png").write_bytes(b"no image")
    project.make_lean()
    project.change('"tiny.onnx"', tomlkit.item(source).as_string())
    project.change('path = "evaluation"', 'path = "hostile"')
    project.plan_path.write_text(
        project.plan_path.read_text() + f"\n[report]\ntitle = {tomlkit.item(MARKUP).as_string()}\n"
    )
    plant_modules(project.folder)
    return project


def plant_modules(folder: Path) -> None:
    """Python files that nobody named, under names that something imports."""
    for name in ("numpy", "onnx", "sitecustomize", "usercustomize", "evaluate", "phoneproof"):
        (folder / f"{name}.py").write_text(
            "import pathlib; pathlib.Path('pwned').touch()\nraise SystemExit(9)\n"
        )


class Page(HTMLParser):
    """Tags, names of attributes, and the texts of scripts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.scripts: list[str] = []
        self._in_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self._in_script = tag == "script"

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.scripts.append(data)


def page_of(run_folder: Path) -> Page:
    return Page((run_folder / "report" / "index.html").read_text(encoding="utf-8"))


def test_hostile_names_stay_names(
    finished: Finished, blank: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = tmp_path / "sandbox"
    project = hostile_project(blank, sandbox)
    monkeypatch.chdir(project.folder)
    out = project.folder / "run"
    before = listing(tmp_path)
    done = run(project.plan, out, options=RunOptions(store=project.store))
    assert {build.error for build in done.builds} == {None}
    ours = (str(out), str(project.store))
    new = {path for path in listing(tmp_path) if not path.startswith(ours)}
    assert new == {path for path in before if not path.startswith(ours)}
    assert list(tmp_path.rglob("pwned*")) == []
    assert not any(path.is_symlink() for path in out.rglob("*"))
    hostile, plain = page_of(out), page_of(finished.run)
    assert hostile.tags <= plain.tags | {"code", "pre", "details", "summary", "li", "ul"}
    assert not {name for name in hostile.attributes if name.startswith("on")}
    assert hostile.attributes <= plain.attributes | {"open"}
    assert hostile.scripts == plain.scripts
    text = (out / "report" / "index.html").read_text(encoding="utf-8")
    for raw in ("\u202e", "\u2066", "\x1b", "\x07"):
        assert raw not in text
    names = {parity["output"] for result in report_of(out)["results"] for parity in result["parity"]}
    assert names == {f"../../../{MARKUP}{TOUCH}"}
    monkeypatch.setenv("PHONEPROOF_STORE", str(project.store))
    shown = CliRunner().invoke(main, ["run", "--out", "run", "-v"]).output
    assert "BUILD-FLOAT-OPERATORS" in shown  # with the names of nodes
    assert not {c for c in shown if ord(c) < 32 and c not in "\n\t"}
    assert "\u202e" not in shown
    assert list(tmp_path.rglob("pwned*")) == []


class Payload:
    """What a pickle in an array would run."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("pwned"),)


@pytest.mark.parametrize("kind", ["npz", "npy"])
def test_arrays_that_hold_pickles_are_refused(
    blank: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    project = blank.copy(tmp_path / "project", tmp_path / "store")
    objects = np.empty(3, object)
    objects[:] = [Payload(), Payload(), Payload()]
    if kind == "npz":
        np.savez(project.folder / "set.npz", image=objects)
    else:
        np.save(project.folder / "set.npy", objects)
    project.make_lean()
    text = project.plan_path.read_text()
    head, rest = text.split("[data]\n")
    builds = "[[builds]]" + rest.split("[[builds]]")[1]
    source = f'[data]\nevaluation = {{ kind = "{kind}", path = "set.{kind}" }}\n\n'
    project.plan_path.write_text(head + source + builds)
    monkeypatch.chdir(project.folder)
    with pytest.raises(PhoneproofError) as raised:
        run(project.plan, project.folder / "run", options=RunOptions(until="build", store=project.store))
    assert raised.value.exit_code == 2
    assert "object" in str(raised.value) or "pickle" in str(raised.value)
    assert list(tmp_path.rglob("pwned")) == []
