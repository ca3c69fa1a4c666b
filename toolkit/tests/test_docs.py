"""The documents speak of what exists: commands, options, ids, classes, links, names in Python."""

import ast
import importlib
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np
import pytest

from phoneproof import errors
from phoneproof.builds.manifest import FloatReason
from phoneproof.cli.main import COMMANDS, main
from phoneproof.findings import FINDING_IDS
from phoneproof.plan.sections import DeviceSection
from phoneproof.protocol.attempts import Outcome
from phoneproof.recipes.rows import FILE_RECIPES, RECIPES
from phoneproof.recipes.runtime_table import RUNTIMES
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.report.compare import ChangeId
from phoneproof.report.sentences import MEASURE_SENTENCES, REASON_SENTENCES, WHY_SENTENCES
from phoneproof.verify.accuracy import MissingInterval
from phoneproof.verify.comparison import NoiseReason, Speed
from phoneproof.verify.diagnosis import Cause, LegName
from phoneproof.verify.latency import ValidityReason
from phoneproof.verify.parity import ParityReason
from phoneproof.verify.verdicts import GateId, Verdict
from tests.models.small_convolution import convolution

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]
LINKED_TO = [*PAGES, ROOT / "protocol" / "PROTOCOL.md"]
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def page(name: str) -> str:
    return text_of(DOCS / name)


def headings(path: Path) -> list[str]:
    return re.findall(r"^#+ (.+)$", CODE.sub("", text_of(path)), re.MULTILINE)


def first_cells(text: str) -> list[str]:
    """What stands in backquotes in the first column of the tables."""
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def section(text: str, heading: str) -> str:
    """A section without its heading, up to the next heading of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", text, re.DOTALL | re.MULTILINE)
    assert found is not None, heading
    return found[1]


@pytest.mark.parametrize("script", ["audit_reference.py", "command_reference.py", "recipe_reference.py"])
def test_a_page_that_is_written_out_of_the_product_is_up_to_date(script: str) -> None:
    command = [sys.executable, str(ROOT / "scripts" / script), "--check"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr


def commands() -> list[tuple[str, click.Command]]:
    context = click.Context(main, info_name="phoneproof")
    found: list[tuple[str, click.Command]] = []
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        found.append((f"phoneproof {name}", command))
        if isinstance(command, click.Group):
            found += [(f"phoneproof {name} {inner}", one) for inner, one in command.commands.items()]
    return found


@pytest.mark.parametrize(("name", "command"), commands(), ids=lambda one: one if isinstance(one, str) else "")
def test_every_command_is_documented_with_its_options(name: str, command: click.Command) -> None:
    assert command.help
    if isinstance(command, click.Group):
        return
    documented = {
        word
        for cell in re.findall(r"^\| (`.+?`) \|", section(page("commands.md"), name), re.MULTILINE)
        for word in re.findall(r"`(\S+?)(?: [^`]*)?`", cell)
    }
    assert documented == {
        word
        for parameter in command.params
        for word in (
            [parameter.human_readable_name] if isinstance(parameter, click.Argument) else parameter.opts
        )
    }


def test_no_command_is_documented_that_does_not_exist() -> None:
    documented = {one for one in headings(DOCS / "commands.md") if one.startswith("phoneproof ")}
    assert documented == {name for name, _ in commands()}


def shown_commands(path: Path) -> list[list[str]]:
    """Command lines of phoneproof in the blocks of a page, by words."""
    lines = [
        line.removeprefix("$ ")
        for language in ("console", "sh")
        for block in blocks(text_of(path), language)
        for line in block.splitlines()
    ]
    return [
        shlex.split(line.partition(" > ")[0], comments=True) for line in lines if line[:11] == "phoneproof "
    ]


@pytest.mark.parametrize("path", [p for p in PAGES if p.name != "commands.md"], ids=lambda path: path.name)
def test_commands_that_are_shown_can_be_typed(path: Path) -> None:
    known = dict(commands())
    for words in shown_commands(path):
        length = 3 if " ".join(words[:3]) in known else 2
        command = known[" ".join(words[:length])]
        command.make_context(" ".join(words[:length]), words[length:])


def test_the_guide_shows_commands() -> None:
    assert ["phoneproof", "run"] in shown_commands(DOCS / "guide.md")


def error_classes() -> dict[str, int]:
    return {
        name: value.exit_code
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.PhoneproofError)
    }


def test_every_error_is_documented_with_its_exit_code() -> None:
    rows = re.findall(r"^\| \[(\w+)\]\(#(\w+)\) \| (.+?) \|", page("errors.md"), re.MULTILINE)
    expected = error_classes()
    assert {name for name, _, _ in rows} == set(expected)
    assert [one for one in headings(DOCS / "errors.md") if one in expected] == [name for name, _, _ in rows]
    assert set(headings(DOCS / "errors.md")) == {"Errors", *expected}
    for name, anchor, code in rows:
        assert anchor == name.lower()
        assert code == ("the highest of its errors" if name == "SeveralErrors" else str(expected[name]))


def test_every_finding_is_documented_and_nothing_else() -> None:
    rows = re.findall(r"^\| \[([A-Z0-9-]+)\]\(#.+\) \| (\w+)", page("findings.md"), re.MULTILINE)
    assert dict(rows) == {name: severity.value for name, severity in FINDING_IDS.items()}
    assert set(headings(DOCS / "findings.md")) == {"Findings", *FINDING_IDS}
    for name in FINDING_IDS:
        told = section(page("findings.md"), name)
        assert "Evidence: " in told, name
        assert "Next: " in told, name


def test_every_reason_for_a_float_operator_is_documented() -> None:
    assert set(first_cells(section(page("findings.md"), "BUILD-FLOAT-OPERATORS"))) == set(
        get_args(FloatReason)
    )


TABLES: list[tuple[str, Iterable[str]]] = [
    ("Outcomes", get_args(Outcome)),
    ("Latency", get_args(ValidityReason)),
    ("Comparison", {*get_args(Speed), *get_args(NoiseReason)}),
    ("Gates and verdicts", {*get_args(GateId), *get_args(Verdict)}),
    ("Reasons", REASON_SENTENCES),
    ("Why something was not measured", WHY_SENTENCES),
    ("Why a value is not defined", {*get_args(ParityReason), *get_args(MissingInterval)}),
    ("Diagnosis", {*get_args(Cause), *get_args(LegName)}),
    ("Comparing two runs", get_args(ChangeId)),
]


@pytest.mark.parametrize(("heading", "ids"), TABLES, ids=[heading for heading, _ in TABLES])
def test_every_id_of_a_report_is_documented(heading: str, ids: Iterable[str]) -> None:
    assert sorted(first_cells(section(page("measuring.md"), heading))) == sorted(ids)


def test_every_reason_of_a_measurement_is_in_one_of_the_tables() -> None:
    listed = {*get_args(ValidityReason), *get_args(NoiseReason)}
    listed |= {*get_args(ParityReason), *get_args(MissingInterval)}
    assert listed == set(MEASURE_SENTENCES)


def reasons_in_code() -> set[str]:
    """First arguments of Reason(...) and Reason.of(...) that are written as text."""
    found = set()
    for path in (ROOT / "toolkit" / "phoneproof").rglob("*.py"):
        for node in ast.walk(ast.parse(text_of(path))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            if ast.unparse(node.func).split(".")[-1] not in ("Reason", "of"):
                continue
            if "Reason" in ast.unparse(node.func) and isinstance(node.args[0], ast.Constant):
                found.add(str(node.args[0].value))
    return found


def test_every_reason_that_the_code_gives_is_documented() -> None:
    found = reasons_in_code()
    assert "parity_below" in found
    assert found - set(REASON_SENTENCES) == set()


def test_every_exit_code_of_a_run_is_documented() -> None:
    from phoneproof.runs.run import ExitCode

    codes = re.findall(r"^\| (\d+) \|", section(page("commands.md"), "Exit codes"), re.MULTILINE)
    assert [int(code) for code in codes] == [int(code) for code in ExitCode]


def test_the_glossary_is_in_order() -> None:
    words = headings(DOCS / "glossary.md")[1:]
    assert words == sorted(words, key=str.lower)


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


@pytest.mark.parametrize("path", LINKED_TO, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", CODE.sub("", text_of(path))):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        other = (path.parent / file).resolve() if file else path
        assert other.exists(), f"{path.name}: {target}"
        if anchor:
            assert anchor in [slug(one) for one in headings(other)], f"{path.name}: {target}"


def test_every_page_is_linked_from_the_readme() -> None:
    for path in sorted(DOCS.glob("*.md")):
        assert f"(docs/{path.name})" in text_of(ROOT / "README.md"), path.name


def test_pictures_are_small() -> None:
    pictures = sorted((DOCS / "images").iterdir())
    assert [path.name for path in pictures] == ["report.png"]
    for path in pictures:
        assert path.stat().st_size < 200_000, path.name


def test_make_has_the_readmes_commands() -> None:
    commands_shown = re.findall(r"^\$ make ([\w-]+)", text_of(ROOT / "README.md"), re.MULTILINE)
    targets = re.findall(r"^([\w-]+):", text_of(ROOT / "Makefile"), re.MULTILINE)
    assert {"demo", "test"} <= set(commands_shown) <= set(targets)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_files_that_are_named_exist(path: Path) -> None:
    named = re.findall(r"`((?:toolkit|scripts|protocol|docs|benchmarks)/[\w./-]+)`", text_of(path))
    for name in named:
        assert (ROOT / name).exists(), f"{path.name}: {name}"


FUTURE = re.compile(
    r"\b(coming soon|not yet|will be (?:added|supported)|(?:later|future) version|planned for|TODO|TBD)\b",
    re.IGNORECASE,
)
ELSEWHERE = re.compile(
    r"\b(OpenVINO|TensorRT|NCNN|MNN|QNN|SNPE|TVM|TensorFlow\.js|JAX|Paddle|WebNN)\b "
    r"(?:builds?|recipes?|sources?|toolchains?)\b",
)
"""Formats that plans do not have, spoken of as if they did."""


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_nothing_is_promised(path: Path) -> None:
    assert FUTURE.findall(text_of(path)) == []
    assert ELSEWHERE.findall(text_of(path)) == []


def test_recipes_that_are_named_exist() -> None:
    formats = "|".join(sorted({name.partition("-")[0] for name in RECIPES}))
    precisions = "float|fp|int|dynamic|static|qnnpack"
    for path in PAGES:
        named = set(re.findall(rf"`((?:{formats})-(?:{precisions})[\w-]*)`", text_of(path)))
        assert named - set(TOOLCHAINS) <= set(RECIPES), path.name
        loose = set(re.findall(rf"\b(?:{formats})-(?:float|int)[\w-]+", text_of(path)))
        assert loose <= set(RECIPES), path.name


def test_builds_made_elsewhere_that_are_named_exist() -> None:
    known = {row.name for row in FILE_RECIPES.values()}
    for path in PAGES:
        assert set(re.findall(r"`(\w+-file)`", text_of(path))) <= known, path.name
    assert set(re.findall(r"`(\w+-file)`", page("recipes.md"))) == known


def test_every_word_of_routes_is_in_the_glossary() -> None:
    words = set(headings(DOCS / "glossary.md"))
    assert {"Route", "Form", "Export", "Target", "File build", "Fidelity"} <= words
    for name in (*RUNTIMES, *TOOLCHAINS):
        assert f"`{name}`" in page("glossary.md"), name


def test_the_readme_says_that_no_phone_was_used_as_long_as_plans_take_none() -> None:
    told = section(text_of(ROOT / "README.md"), "What has been run where")
    assert get_args(DeviceSection.model_fields["kind"].annotation) == ("host",)
    assert "Nothing has been run on a phone" in told


def test_names_of_the_python_api_exist() -> None:
    text = page("python-api.md")
    names = re.findall(r"`(phoneproof(?:\.\w+)+)[(`]", text)
    assert names
    for name in names:
        module, _, attribute = name.rpartition(".")
        try:
            importlib.import_module(name)
        except ImportError:
            assert hasattr(importlib.import_module(module), attribute), name


PROJECT = """\
[[models]]
name = "tiny"
source = "tiny.onnx"
format = "onnx"

[data]
calibration = { kind = "npz", path = "calibration.npz" }
evaluation = { kind = "npz", path = "evaluation.npz" }

[[builds]]
recipe = "onnx-int8"

[[devices]]
kind = "host"

[gates]
waive = ["DATA-CALIBRATION-FEW", "DATA-CALIBRATION-TOO-FEW"]

[benchmark]
rounds = 10
visit_ms = 1
warmup_ms = 1
"""


def test_the_examples_of_the_python_api_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of them one after the other, as a reader would, on a project of one convolution."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PHONEPROOF_STORE", str(tmp_path / "store"))
    Path("tiny.onnx").write_bytes(convolution(side=16, filters=8))
    for number, name in enumerate(("calibration", "evaluation")):
        draw = np.random.default_rng(number)
        np.savez(f"{name}.npz", image=draw.standard_normal((12, 3, 16, 16)).astype(np.float32))
    Path("phoneproof.toml").write_text(PROJECT, encoding="utf-8")
    names: dict[str, Any] = {}
    for block in blocks(page("python-api.md"), "python"):
        exec(compile(block, "python-api.md", "exec"), names)
    told = capsys.readouterr().out
    assert "tiny/onnx/onnx-int8 built made now" in told
    assert "PlanError There is no plan." in told
    assert json.loads((tmp_path / "run" / "report" / "report.json").read_text(encoding="utf-8"))
    margin = names["margin"]
    assert margin({"scores": np.array([[0.25, 0.75]])}, 1) == 0.5
    assert margin.bounds == (-1.0, 1.0)
