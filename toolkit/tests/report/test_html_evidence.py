"""The evidence on the page: edge inputs, operators, predictions, remedies, what would settle a verdict."""

from dataclasses import replace

from phoneproof.report.charts import SIGNS
from phoneproof.report.html import html_text
from phoneproof.report.listing import MOST_NAMED
from phoneproof.verify.verdicts import Reason
from tests.report import reports, states
from tests.report.pages import Page
from tests.report.test_html import row_of


def edge_table(html: str) -> str:
    return html.split('<table class="grid"')[1].split("</table>", maxsplit=1)[0]


def test_edge_inputs_stand_against_builds_with_their_pictures() -> None:
    report = states.edge_failures()
    table = Page(edge_table(html_text(report)))
    shown = [one for one in report.edge_inputs if one.thumbnail]
    assert [a["src"] for a in table.all("img")] == [f"data:image/png;base64,{one.thumbnail}" for one in shown]
    assert "in rangeout of rangenot finite" in table.words
    assert len(table.all("td")) == 3 * len(report.edge_inputs)


def test_a_cell_says_by_sign_and_word_how_a_build_took_an_edge_input() -> None:
    html = html_text(states.edge_failures())
    for kind, word in (("fail", "crash"), ("fail", "hang"), ("fail", "fail"), ("inconclusive", "not run")):
        sign = SIGNS[kind]
        assert f'<span aria-hidden="true">{sign}</span><span class="word">{word}</span>' in edge_table(html)
    assert 'title="nan: Not every case passed: 1 crashed."' in html
    listed = html.split("Edge inputs that did not pass.")[1].split("</table>")[0]
    assert listed.count("<tr") == 1 + 4
    assert listed.index(">nan<") < listed.index(">black<")  # failures before doubts


def test_without_pictures_edge_inputs_keep_their_names() -> None:
    report = states.edge_failures()
    plain = replace(report, edge_inputs=tuple(replace(one, thumbnail=None) for one in report.edge_inputs))
    html = html_text(plain)
    assert "<img" not in html
    assert "saturated_noise" in edge_table(html)


def test_operators_are_told_by_type_and_by_accelerator() -> None:
    html = html_text(states.two_platforms())
    profile = row_of(html, "coreml-int8", "profile")
    assert "3 cpu" in profile
    assert "12 neural_engine" in profile
    assert "not reported" in row_of(html, "onnx-int8", "profile")
    builds = row_of(html, "onnx-int8", "builds")
    assert "14 int8" in builds
    assert "1 float32" in builds


def test_what_is_predicted_says_so() -> None:
    section = html_text(states.two_platforms()).split('<section id="model"')[1].split("</section>")[0]
    words = Page(section).words
    assert "predicted What tables say that accelerators run. Nothing was run" in words
    assert "1 softmax, refused: only on the last axis" in words
    assert "not listed: 1 mean" in words
    assert "Parameters278,410" in words
    assert "image float32 [open, 1, 8, 8]" in words


def test_what_can_be_tried_against_a_loss_stands_by_its_result() -> None:
    report = reports.all_pass()
    told = replace(report.results[1], remedies=(Reason("an_id_of_another_version", {"drop": 0.03}),))
    html = html_text(replace(report, results=(report.results[0], told)))
    assert "an_id_of_another_version (drop: 0.03000)" in row_of(html, "onnx-int8")


def test_what_would_settle_the_undecided_is_said_once_for_all_builds_that_it_is_for() -> None:
    report = states.fifty_builds()
    section = html_text(report).split('<h3 id="undecided">')[1].split("</section>")[0]
    assert section.count("5,200 samples") == 1
    undecided = sum(one.verdict == "inconclusive" for one in report.results)
    assert f"and {undecided - MOST_NAMED} more" in section
    assert 'id="undecided"' not in html_text(reports.all_pass())
