"""What reports tell of the data and of the machine, and what they keep to themselves."""

import ast
import json
import platform
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phoneproof.errors import Fact
from phoneproof.findings import SAMPLE_FACTS
from phoneproof.plan.model import read_plan
from phoneproof.report.html import html_text
from phoneproof.report.json_report import report_text
from phoneproof.runs.disclosure import Disclosure, disclosed, disclosure
from phoneproof.runs.run import RunOptions, run
from phoneproof.verify.verdicts import Reason
from tests.report import reports
from tests.runs.project import Project, write_project
from tests.runs.simulated_host import INT8, Scene, end_of, only_int8

PLACES = Disclosure(
    (("/home/ann/app/run", "RUN"), ("/home/ann/app", "PLAN"), ("/home/ann", "~"), ("/var/store", "STORE")),
    sample_names=False,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/ann/app/run/work/x/log.txt", "RUN/work/x/log.txt"),
        ("m /home/ann/app/run/a /home/ann/app/b /var/store/c", "m RUN/a PLAN/b STORE/c"),
        ('File "/home/ann/lib/x.py", line 3', 'File "~/lib/x.py", line 3'),
        ("It is in /home/ann/app.", "It is in PLAN."),
        ("/home/ann/app/run-2/log", "PLAN/run-2/log"),
        ("/home/anna/x and /mnt/home/ann/x", "/home/anna/x and /mnt/home/ann/x"),
        ("file:///home/ann/x", "file://~/x"),
        ("/home/ann.old/x", "/home/ann.old/x"),
        ("/home/ann", "~"),
        ("", ""),
    ],
)
def test_known_folders_are_shown_by_their_names(text: str, shown: str) -> None:
    assert PLACES.text(text) == shown


@given(st.text())
def test_a_text_without_known_folders_is_left_as_it_is(text: str) -> None:
    assert PLACES.text(f"of {text.replace('/', '|')}") == f"of {text.replace('/', '|')}"


def test_names_out_of_networks_are_no_paths() -> None:
    names: dict[str, Fact] = {"output": "/home/ann/logits", "operators": ("/var/store/Conv",)}
    assert PLACES.facts({**names, "log": ("/home/ann/x",)}) == {**names, "log": ("~/x",)}


def test_the_deepest_folder_is_named_and_the_root_of_the_disk_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/")
    known = disclosure(tmp_path / "plan" / "run", tmp_path / "store", tmp_path / "plan", True)
    assert known.text(f"{tmp_path}/plan/run/x") == "RUN/x"
    assert known.text(f"{tmp_path}/plan/x") == "PLAN/x"
    assert known.text("/usr/lib/x") == "/usr/lib/x"


def test_a_folder_is_known_by_what_its_links_lead_to_as_well(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    known = disclosure(tmp_path / "link", tmp_path / "store", tmp_path / "plan", True)
    assert known.text(f"{tmp_path}/link/x {tmp_path}/real/y") == "RUN/x RUN/y"


def test_every_text_of_a_report_that_can_hold_a_path_is_covered() -> None:
    """A report whose every free text is a path of ours shows none of them."""
    secret = "/home/ann/app/run/secret"
    report = reports.failures()
    told = Reason("not_measured", {"why": "metric_failed", "error": secret, "log": secret})
    broken = replace(
        report.builds[3].error,
        what=secret,
        where=secret,
        next_step=secret,  # type: ignore[type-var]
        facts={"command": f"python {secret}", "log": secret},
        log_tail=secret,
    )
    results = tuple(
        replace(
            one,
            cases=tuple(replace(case, error=secret) for case in one.cases),
            gates=tuple(replace(gate, reason=told) for gate in one.gates),
            reason=told,
        )
        for one in report.results
    )
    whole = replace(
        report,
        models=tuple(replace(model, source=secret) for model in report.models),
        findings=tuple(replace(one, facts={"examples": (secret,), "x": secret}) for one in report.findings),
        builds=(*report.builds[:3], replace(report.builds[3], error=broken)),
        results=results,
        not_measured=(replace(report.not_measured[0], reason=told),),
    )
    assert "/home/ann" in report_text(whole)
    for text in (report_text(disclosed(whole, PLACES)), html_text(disclosed(whole, PLACES))):
        assert "/home/ann" not in text
        assert "RUN/secret" in text
    assert "examples" not in report_text(disclosed(whole, PLACES))
    assert "examples" in report_text(disclosed(whole, replace(PLACES, sample_names=True)))


def test_every_fact_of_the_checks_that_names_samples_is_known() -> None:
    """What a check takes from the ids of samples stands in a fact of SAMPLE_FACTS."""
    from phoneproof.data import checks

    modules = Path(checks.__file__).parent.glob("*.py")
    named = {
        key.value
        for module in modules
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and ("ids" in ast.unparse(value) or "examples" in ast.unparse(value))
    }
    assert named == SAMPLE_FACTS


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The tiny project, with a broken image and one that stands in both sets."""
    folder = tmp_path_factory.mktemp("disclosure")
    project = only_int8(write_project(folder / "project", folder / "store"))
    (project.folder / "calibration" / "dark" / "broken.png").write_bytes(b"no picture")
    shared = (project.folder / "evaluation" / "light" / "07.png").read_bytes()
    (project.folder / "calibration" / "light" / "twice.png").write_bytes(shared)
    return project


def report_files(run: Path) -> str:
    return "".join(
        (run / "report" / name).read_text(encoding="utf-8") for name in ("report.json", "index.html")
    )


def test_samples_are_named_only_where_the_data_may_leave(project: Project) -> None:
    open_report = end_of(project, Scene(), project.folder / "run-open")
    text = report_files(open_report.folder)
    assert {"DATA-BROKEN-FILE", "DATA-OVERLAP"} <= {one.id for one in open_report.report.findings}
    assert "broken.png" in text
    assert "twice.png" in text
    assert str(project.folder) not in text

    project.change("may_leave = true", "may_leave = false")
    closed = end_of(project, Scene(), project.folder / "run-closed")
    text = report_files(closed.folder)
    assert {"DATA-BROKEN-FILE", "DATA-OVERLAP"} <= {one.id for one in closed.report.findings}
    assert ".png" not in text
    assert str(project.folder) not in text
    project.change("may_leave = false", "may_leave = true")


def test_a_terminal_is_told_what_the_report_keeps_to_itself(project: Project) -> None:
    copy = project.copy(project.folder.with_name("told"), project.store)
    copy.change("may_leave = true", "may_leave = false")
    answer = copy.call("build", "--out", "run")
    assert answer.code == 0
    assert "broken.png" in answer.err


def test_a_failed_build_is_told_without_the_places_of_this_machine(project: Project) -> None:
    copy = project.copy(project.folder.with_name("failing"), project.store)
    keep = 'recipe = "onnx-int8"\nio = "int8"\nkeep_float_types = ["Gemm"]\n'
    copy.change('recipe = "onnx-int8"\n', keep)
    ended = end_of(copy, Scene(), copy.folder / "run")
    (failed,) = [one for one in ended.report.builds if one.build_id == INT8]
    assert failed.error is not None
    assert str(failed.error.facts["log"]).startswith("RUN/work/")
    assert "RUN/work/" in str(failed.error.facts["command"])
    for place in (copy.folder, copy.store, Path.home()):
        assert f"{place}/" not in report_files(ended.folder)


def test_a_run_on_the_host_does_not_tell_the_machines_name(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "node", lambda: "anns-secret-laptop")
    copy = project.copy(project.folder.with_name("hosted"), project.store)
    done = run(read_plan(copy.plan_path), copy.folder / "run", options=RunOptions(store=copy.store))
    assert done.report is not None
    assert {result.device.name for result in done.report.results} == {"host"}
    assert "anns-secret-laptop" not in report_files(done.folder)
    assert json.loads((done.folder / "report" / "report.json").read_text())["results"]
