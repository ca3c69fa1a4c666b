"""What `init` says of the plan that it wrote."""

from tests.cli.conftest import Call
from tests.runs.project import Project


def test_a_plan_without_data_is_said_to_need_filling_in_first(project: Project, call: Call) -> None:
    answer = call("init", "--model", "tiny.onnx", "-p", "first.toml")
    assert answer.code == 0, answer
    said = answer.out.splitlines()
    assert (
        said[0] == "Wrote first.toml, which names no data yet: fill in data.calibration and data.evaluation."
    )
    assert said[-1] == "  phoneproof run -p first.toml"
    refused = call("run", "-p", "first.toml", "--dry-run")
    assert refused.code == 2
    assert "data.calibration" in refused.err
    assert "data.evaluation" in refused.err
    told = call("init", "--model", "tiny.onnx", "-p", "first.toml", "--force", "--json").json
    assert told["fill_in"] == ["data.calibration", "data.evaluation"]


def test_what_is_recommended_after_data_were_given_works(project: Project, call: Call) -> None:
    answer = call("init", "--model", "tiny.onnx", "--data", "evaluation", "-p", "first.toml", "--json")
    assert answer.code == 0, answer
    assert answer.json["fill_in"] == []
    for command in answer.json["next"][:1]:
        assert call(*command.split()[1:]).code == 0
