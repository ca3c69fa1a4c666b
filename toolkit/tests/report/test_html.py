import base64
import hashlib
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from phoneproof.errors import StorageError
from phoneproof.findings import Finding
from phoneproof.report.html import MOST_CASES, html_text
from phoneproof.report.model import CaseResult, Comparison, Report
from phoneproof.report.render import render
from phoneproof.verify.verdicts import Reason
from tests.report import reports, states
from tests.report.pages import Page

X = "\N{MULTIPLICATION SIGN}"


@pytest.fixture(params=states.STATES)
def any_report(request: pytest.FixtureRequest) -> Report:
    return states.STATES[request.param]()


def page(report: Report) -> Page:
    return Page(html_text(report))


def row_of(html: str, build: str, table: str = "results") -> str:
    """Text of the first row of the build in a table, and what its head cell says."""
    body = html.split(f'<section id="{table}"')[1].split("<tbody>")[1]
    found = next(part for part in body.split("<tr") if f">{build}</bdi>" in part)
    return " ".join(
        re.sub(r"<[^>]+>", " ", "<" + found.split("</tr>")[0]).replace("\N{NO-BREAK SPACE}", " ").split()
    )


def test_the_page_is_well_formed(any_report: Report) -> None:
    read = page(any_report)
    assert read.crossed == []
    assert read.open == []


ALLOWED = ("#", "data:,", "data:image/png;base64,", "https://example.org/neural-engine")
"""The last one is a link, which asks for nothing before it is followed."""


def test_nothing_is_asked_for_from_outside(any_report: Report) -> None:
    html = html_text(any_report)
    for _, attributes in page(any_report).elements:
        for name in ("src", "href", "xlink:href", "action", "data", "poster", "srcset"):
            if name in attributes:
                assert str(attributes[name]).startswith(ALLOWED)
        assert "style" not in attributes
        assert not any(name.startswith("on") for name in attributes)
    assert "url(http" not in html
    assert "@import" not in html


def test_the_policy_allows_only_the_one_style_and_the_one_script(any_report: Report) -> None:
    read = page(any_report)
    policy = next(m["content"] for m in read.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert len(read.styles) == len(read.scripts) == 1
    for text in (*read.styles, *read.scripts):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_the_page_can_be_read_without_eyes(any_report: Report) -> None:
    read = page(any_report)
    assert read.all("html") == [{"lang": "en"}]
    assert len(read.all("h1")) == 1
    levels = [int(name[1]) for name, _ in read.elements if re.fullmatch("h[1-6]", name)]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert len(read.all("caption")) == len(read.all("table"))
    assert all("scope" in attributes for attributes in read.all("th"))
    drawings = [a for a in read.all("svg") if a.get("aria-hidden") != "true"]
    assert all(a.get("role") == "img" for a in drawings)
    ids = [a["id"] for _, a in read.elements if "id" in a]
    assert len(ids) == len(set(ids))
    targets = {str(a["href"])[1:] for a in read.all("a") if str(a["href"]).startswith("#")}
    assert targets <= set(ids)
    assert read.all("a")[0]["class"] == "skip"


def test_the_recommendation_comes_first_with_its_numbers() -> None:
    words = page(reports.all_pass()).words
    start = words.index("Ship onnx-int8.")
    assert start < words.index("Before and after", words.index("Recommendation"))
    assert f"0.26{X}" in words[start:]
    assert f"2.31{X}" in words[start:]
    assert "97.75 %" in words[start:]


def test_each_model_has_a_recommendation_of_its_own() -> None:
    read = page(reports.two_models())
    start = read.words.index("Recommendation digits Android Ship digits/onnx/onnx-int8.")
    assert start < read.words.index("faces Android No build is recommended. No build passes every gate.")
    assert read.words.count("Ship ") == 1


def test_what_is_the_same_on_several_platforms_is_said_once() -> None:
    words = page(states.edge_failures()).words
    assert "Recommendation Android and iOS Ship onnx-int8-dynamic." in words
    assert words.count("Ship ") == 1


def test_platforms_with_builds_of_their_own_have_recommendations_of_their_own() -> None:
    words = page(states.two_platforms()).words
    android = words.index("Recommendation Android Ship onnx-int8-dynamic.")
    assert android < words.index("iOS Ship coreml-int8.")
    assert words.count("Ship ") == 2


def test_a_client_is_told_what_is_gained_where_it_was_tested_and_what_was_not() -> None:
    words = page(reports.all_pass()).words
    first_screen = words[: words.index("Before and after")]
    assert "74 % smaller than the float build, 2.3 times as fast, accuracy kept." in first_screen
    assert "Measured on the host; a phone's processor is another one." in first_screen
    assert (
        "Tested on this computer, Intel Xeon, 2 cores; 890 samples; 11 of 11 edge inputs ran" in first_screen
    )
    assert "Not tested: phones, energy." in first_screen


def test_no_recommendation_is_said_with_its_reason() -> None:
    assert "No build is recommended. No build passes every gate." in page(reports.failures()).words


def test_a_speed_of_outputs_that_are_not_right_is_not_shown_as_a_win() -> None:
    html = html_text(reports.failures())
    row = row_of(html, "onnx-int8")
    assert "not counted" in row
    assert "faster" not in row
    assert 'class="bar fail hollow"' in html
    assert "not counted" in row_of(html_text(without_parity_gate()), "onnx-int8")


def without_parity_gate() -> Report:
    report = reports.all_pass()
    gates = tuple(gate for gate in report.results[1].gates if gate.id != "parity")
    return replace(report, results=(report.results[0], replace(report.results[1], gates=gates)))


def test_a_speed_of_right_outputs_is_shown_with_its_interval() -> None:
    row = row_of(html_text(reports.all_pass()), "onnx-int8")
    assert f"2.31{X} faster" in row
    assert f"2.20{X} to 2.43{X}" in row
    assert "Ranges are 95&nbsp;% intervals." in html_text(reports.all_pass())


def test_the_parity_that_decides_is_the_one_that_the_reason_names() -> None:
    html = html_text(reports.failures())
    row = row_of(html, "onnx-int8")
    assert "Output boxes is 7.3 dB from the reference" in row
    assert row.count("7.3 dB") == 2
    assert "11.5 dB" not in row
    assert "boxes , worst slice" in row
    plain = row_of(html_text(whole_output_decides()), "onnx-int8")
    assert "worst slice" not in plain
    assert "31.4 dB" in plain


def whole_output_decides() -> Report:
    report = reports.all_pass()
    alone = replace(report.results[1], parity=(reports.parity(worst_slice_db=None, worst_slice=None),))
    return replace(report, results=(report.results[0], alone))


def test_a_parity_that_accuracy_rescues_is_explained_in_its_row() -> None:
    report = reports.all_pass()
    told = reports.gate("parity", "pass", "parity_rescued_by_accuracy", output="logits", sqnr_db=17.0)
    rescued = replace(report.results[1], gates=(told,))
    html = html_text(replace(report, results=(report.results[0], rescued)))
    assert "accuracy on the evaluation set shows that it does no harm" in row_of(html, "onnx-int8")
    assert "does no harm" not in html_text(report)


def test_failed_builds_keep_their_row_and_their_reason() -> None:
    html = html_text(reports.failures())
    assert "The converter does not know the operator GridSample." in row_of(html, "onnx-int8-qoperator")
    assert "Keep the layer in float" in html
    assert "NotImplementedError: GridSample" in html


def test_every_number_of_a_simulated_device_says_so() -> None:
    html = html_text(reports.failures())
    rows = [part for part in html.split("<tr") if "<bdi>Pixel 8</bdi>" in part.split("</th>")[0]]
    assert len(rows) >= 8
    measured = re.compile(
        r'<td class="n" (?:data-label="(?:Latency|Speed|Accuracy|Parity)" )?data-v="[\d.]+">'
    )
    for part in rows:
        for cell in part.split("</tr>")[0].split("</td>"):
            if measured.search(cell) and not cell.strip().endswith("890"):
                assert "simulated" in cell, cell
    drawn = html.split('<section id="picture"')[1].split("</table>")[1]
    assert drawn.count(" ms <small>simulated</small>") == 2


def test_every_picture_of_a_replay_says_so() -> None:
    report = reports.all_pass()
    replay = replace(reports.HOST, kind="replay")
    replayed = replace(report, results=tuple(replace(r, device=replay) for r in report.results))
    drawn = html_text(replayed).split('<section id="picture"')[1].split("</section>")[0]
    assert drawn.count("<small>replayed</small>") == 6  # latency and accuracy of three builds
    assert "simulated" not in Page(html_text(replayed)).words


def test_a_waived_finding_is_marked_on_the_numbers_it_touches() -> None:
    html = html_text(reports.failures())
    row = row_of(html, "onnx-int8")
    assert row.count("[1]") == 2  # accuracy and parity: calibration says nothing of times
    assert "[1]" not in row_of(html, "onnx-int8-dynamic")
    assert 'title="DATA-CALIBRATION-TOO-FEW, waived"' in html
    assert "waived by the plan" in html
    assert "97.75 % [1]" in row
    assert "809 µs <small>not counted</small>" in html


def test_a_finding_about_another_build_marks_nothing_here() -> None:
    report = reports.all_pass()
    other = replace(Finding.of("HOST-SATURATES", reports.DYNAMIC), waived=True)
    touched = replace(report.results[1], findings=("HOST-SATURATES",))
    changed = replace(report, findings=(other,), results=(report.results[0], touched))
    assert 'class="mark"' not in html_text(changed)


def test_a_baseline_without_a_comparison_of_sizes_still_shows_its_size() -> None:
    report = reports.all_pass()
    alone = replace(report, results=(replace(report.results[0], size=None), *report.results[1:]))
    assert "1.12 MB" in row_of(html_text(alone), "onnx-float32")


def test_crashes_name_their_build_their_input_and_their_cause() -> None:
    bad = html_text(reports.failures()).split("Cases that did not pass.</caption>")[1].split("</table>")[0]
    row = next(part for part in bad.split("<tr") if "edge:all-nan" in part)
    for told in ("onnx-int8", "crashed", "signal SIGSEGV", "confidence", "all-nan"):
        assert told in row


def test_an_unknown_accelerator_is_said_to_be_unknown() -> None:
    words = page(reports.failures()).words
    assert "unknown (asked: nnapi)" in words


def test_nothing_measured_is_a_page_too() -> None:
    words = page(reports.nothing_measured()).words
    assert "Nothing was measured, so nothing can be recommended." in words
    assert "None" not in words


def test_no_python_value_shows_through(any_report: Report) -> None:
    words = page(any_report).words
    for leak in ("None", "True", "False", "Undefined", "dict(", "<bound", "nan", "inf "):
        assert not re.search(rf"(?<![\w-]){re.escape(leak)}(?![\w-])", words.replace("all-nan", "")), leak


def test_the_command_can_be_pasted() -> None:
    assert "phoneproof run --clone 'runs/2026-11-30 digits'" in page(reports.all_pass()).words


def test_many_cases_are_cut_fairly_and_the_cut_is_said() -> None:
    report = reports.all_pass()
    many, few = (
        tuple(CaseResult(f"c{i}", "infer", "failed", sample=str(i), error=text) for i in range(number))
        for number, text in ((MOST_CASES * 2, "one of many"), (5, "one of few"))
    )
    first, second, third = report.results
    full = replace(report, results=(first, replace(second, cases=many), replace(third, cases=few)))
    html = html_text(full)
    assert f"{MOST_CASES} of 1,005, the first of each result" in Page(html).words
    assert html.count("one of many") == MOST_CASES - 5
    assert html.count("one of few") == 5


def test_render_writes_all_files_and_nothing_else(any_report: Report, tmp_path: Path) -> None:
    paths = render(any_report, tmp_path / "report")
    assert [path.name for path in paths] == [
        "report.json", "index.html", "report.csv", "junit.xml", "summary.md"
    ]  # fmt: skip
    assert sorted((tmp_path / "report").iterdir()) == sorted(paths)


def test_a_page_that_cannot_be_written_is_an_error_with_place_and_next_step(tmp_path: Path) -> None:
    (tmp_path / "index.html").mkdir()
    with pytest.raises(StorageError) as caught:
        render(reports.all_pass(), tmp_path)
    assert caught.value.where == str(tmp_path / "index.html")
    assert caught.value.next_step


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb or #rgb, WCAG 2.2."""
    digits = colour.removeprefix("#")
    digits = "".join(d * 2 for d in digits) if len(digits) == 3 else digits
    channels = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def themes() -> list[dict[str, str]]:
    style = Page(html_text(reports.one_build())).styles[0]
    light, dark, paper = (
        dict(re.findall(r"--([\w-]+): (#\w+);", block))
        for block in re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    )
    return [light, light | dark, light | paper]


@pytest.mark.parametrize("theme", range(3), ids=["light", "dark", "print"])
@pytest.mark.parametrize("text", ["ink", "muted", "pass", "fail", "inconclusive", "base-text"])
@pytest.mark.parametrize("ground", ["paper", "panel"])
def test_text_has_enough_contrast(theme: int, text: str, ground: str) -> None:
    colours = themes()[theme]
    grounds = [colours[ground]] + ([colours[f"{text}-tint"]] if f"{text}-tint" in colours else [])
    for back in grounds:
        bright, dim = sorted((luminance(colours[text]), luminance(back)), reverse=True)
        assert (bright + 0.05) / (dim + 0.05) >= 4.5


def test_several_forms_of_one_network_are_named_once() -> None:
    report = reports.all_pass()
    (model,) = report.models
    html = html_text(replace(report, models=(model, replace(model, format="pytorch"))))
    assert f"<title>{model.name} - phoneproof report</title>" in html
    assert f"<h1><bdi>{model.name}</bdi></h1>" in html


def test_a_speed_that_is_too_noisy_is_no_headline() -> None:
    report = reports.all_pass()
    noisy = Comparison(reports.FLOAT, 8.01, (0.85, 75.3), "too_noisy", 24, Reason("wide_interval"))
    changed = replace(report.results[1], comparison=noisy)
    page_ = page(replace(report, results=(report.results[0], changed)))
    first_screen = page_.words[: page_.words.index("Before and after")]
    assert "Speed on the host not known too noisy to tell, 8.01" in first_screen
    assert "faster" not in first_screen
