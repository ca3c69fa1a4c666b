"""Schemas and types say the same: whatever a type can write is valid and read back, and the reverse."""

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import jsonschema
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from phoneproof.builds.manifest import BuildManifest
from phoneproof.errors import ProtocolError
from phoneproof.protocol.codec import MAX_INTEGER, from_dict, to_dict
from phoneproof.protocol.events import Event, event_line, parse_events
from phoneproof.protocol.job import Job
from phoneproof.protocol.journal import (
    JournalLine,
    RunRecord,
    journal_text,
    parse_journal,
    read_run,
    run_text,
)
from phoneproof.protocol.schema_files import schema_text
from phoneproof.protocol.tensors import DTYPE_SIZES
from tests.protocol.golden_files import GOLDEN

SHA = st.text("0123456789abcdef", min_size=64, max_size=64)
ID = st.sampled_from(["a", "load-float", "x.1_y"])
PATH = st.sampled_from(["a", "m/b.onnx", "outputs/a.bin"])
COUNT = st.integers(1, 1000)
FRACTIONS = st.floats(allow_nan=False, allow_infinity=False)
STEPS = st.frozensets(st.text(max_size=3), min_size=1)
NAMED: dict[str, st.SearchStrategy[Any]] = {
    "sha256": SHA,
    "job_id": SHA,
    "source_sha256": SHA,
    "plan_sha256": SHA,
    "calibration_sha256": st.none() | SHA,
    "configuration_id": ID,
    "samples_id": ID,
    "case_id": ID,
    "runtime": ID,
    "accelerator": ID,
    "candidate": ID,
    "configuration": ID,
    "name": PATH,
    "entry": PATH,
    "model_file": PATH,
    "dtype": st.sampled_from(sorted(DTYPE_SIZES)),
    "major": st.just(1),
    "minor": st.just(0),
    "version": st.just(1),
    "pixels_shape": st.tuples(COUNT, COUNT, COUNT),
    "attempt": COUNT,
    "plan": st.dictionaries(st.text(max_size=3), st.text(max_size=3) | st.lists(FRACTIONS), max_size=2),
}
"""Fields whose values have a form beyond their type."""


@cache
def instances(cls: Any) -> st.SearchStrategy[Any]:
    """Values of a type; of a dataclass all fields are filled."""
    origin, args = get_origin(cls), get_args(cls)
    if dataclasses.is_dataclass(cls):
        hints = typing.get_type_hints(cls)
        fields = {name: _field(name, hint) for name, hint in hints.items()}
        return st.builds(typing.cast(Any, cls), **fields)
    if origin in (Union, types.UnionType):
        return st.one_of([instances(one) for one in args])
    if origin is Literal:
        return st.sampled_from(args)
    if origin is tuple:
        return st.lists(instances(args[0]), min_size=1, max_size=2).map(tuple)
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(st.sampled_from(["a", "b"]), instances(args[1]), max_size=2)
    if cls is int:
        return COUNT
    if cls is float:
        return st.floats(0, 1e9)
    if cls is str:
        return st.text(max_size=5)
    return st.from_type(cls)


def _field(name: str, hint: Any) -> st.SearchStrategy[Any]:
    return NAMED[name] if name in NAMED and get_origin(hint) is not Literal else instances(hint)


@cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads(schema_text(name))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


CASES = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


@CASES
@given(job=instances(Job))
def test_jobs(job: Job) -> None:
    _agree("job", Job, _sound(to_dict(job)))


@CASES
@given(event=instances(Event))
def test_events(event: Any) -> None:
    content = _sound(to_dict(event))
    _agree("event", Event, content)
    line = event_line(from_dict(Event, content))  # type: ignore[arg-type]
    assert to_dict(parse_events(line.encode(), "x")) == [content]


@CASES
@given(build=instances(BuildManifest))
def test_builds(build: BuildManifest) -> None:
    _agree("build", BuildManifest, to_dict(build))


@CASES
@given(run=instances(RunRecord))
def test_runs(run: RunRecord) -> None:
    _agree("run", RunRecord, to_dict(run))
    assert read_run(run_text(run)) == run


@CASES
@given(
    lines=st.lists(instances(JournalLine), min_size=1, max_size=4),
    steps=STEPS,
)
def test_journals(lines: list[JournalLine], steps: frozenset[str]) -> None:
    named = sorted(steps)
    first = dataclasses.replace(lines[0], seq=0, entry="planned", step=None, facts={"steps": tuple(named)})
    journal = [first]
    for seq, line in enumerate(lines[1:], start=1):
        assume(line.entry != "planned")
        step = named[seq % len(named)] if line.entry.startswith("step_") else None
        journal.append(dataclasses.replace(line, seq=seq, step=step))
    for line in journal:
        _agree("journal", JournalLine, to_dict(line))
    text = "".join(map(journal_text, journal)).encode()
    assert parse_journal(text) == tuple(journal)
    assert parse_journal(text[:-1]) == tuple(journal[:-1])


def _sound(content: Any) -> Any:
    """What the types leave open between fields, set right."""
    if isinstance(content, list):
        return [_sound(item) for item in content]
    if not isinstance(content, dict):
        return content
    content = {key: _sound(item) for key, item in content.items()}
    kind, event = content.get("kind"), content.get("event")
    if "axis" in content:
        content |= {"k": 5 if kind == "topk" else None, "axis": -1 if kind == "argmax" else None}
    if kind in ("infer", "benchmark"):
        content["samples"] = "a"
    if kind == "benchmark":
        pair = content["interleaving"] != "none"
        content |= {"baseline": "a" if pair else None, "baseline_samples": "b" if pair else None}
    if kind == "u8+table":
        content["shape"] = [1, *content["pixels_shape"]]
    if event == "round_finished":
        pair = content["order"] == "ABBA"
        visits = content["visits_ns"] * 4
        content |= {"visits_ns": visits[: 4 if pair else 1], "baseline_batch": 2 if pair else None}
        if content["waited_ns"] is not None:
            content["waited_ns"] = [5] * len(content["visits_ns"])
    if event == "case_finished":
        failed = content["outcome"] == "failed"
        content["error"] = {"type": "E", "message": "m"} if failed else None
    return content


def _agree(name: str, cls: Any, content: Any) -> None:
    assert list(validator(name).iter_errors(content)) == []
    assert to_dict(from_dict(cls, content)) == content


def test_every_object_of_a_schema_is_closed_and_written_whole() -> None:
    for name in ("job", "event", "build", "run", "journal"):
        for path, schema in _objects(json.loads(schema_text(name)), name):
            if "properties" in schema and schema.get("type") == "object":
                assert schema["additionalProperties"] is False, path
                assert sorted(schema["required"]) == sorted(schema["properties"]), path


def _objects(schema: Any, path: str) -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    if isinstance(schema, dict):
        found.append((path, schema))
        for key, item in schema.items():
            found += _objects(item, f"{path}/{key}")
    elif isinstance(schema, list):
        for index, item in enumerate(schema):
            found += _objects(item, f"{path}/{index}")
    return found


@CASES
@given(data=st.data(), name=st.sampled_from(["job", "event"]))
def test_a_wrong_type_or_key_is_refused_by_both(data: st.DataObject, name: str) -> None:
    cls: Any = Job if name == "job" else Event
    content = _sound(to_dict(data.draw(instances(cls))))
    objects = [one for _, one in _objects(content, "") if one and not {"a", "b"} & set(one)]
    one = data.draw(st.sampled_from(objects))
    key = data.draw(st.sampled_from(sorted(one)))
    if data.draw(st.booleans()):
        one["surplus"] = 1
    else:
        one[key] = data.draw(st.sampled_from([[[]], {"x": []}, MAX_INTEGER + 1]))
        assume(key not in ("environment", "facts", "runtimes", "options"))
    assert not validator(name).is_valid(content)
    with pytest.raises(ProtocolError):
        from_dict(cls, content)


def test_every_golden_line_that_is_read_is_valid() -> None:
    assert validator("job").is_valid(json.loads((GOLDEN / "attempts" / "job.json").read_text("utf-8")))
    folders = [one for one in (GOLDEN / "attempts").iterdir() if not one.name.startswith("refused-")]
    files = [path for folder in folders for path in folder.rglob("*.jsonl")]
    lines = [line for path in files for line in path.read_bytes().split(b"\n")[:-1]]
    assert len(lines) > 200
    for line in lines:
        assert list(validator("event").iter_errors(json.loads(line))) == []


def test_most_refused_jobs_are_refused_by_the_schema_too(tmp_path: Path) -> None:
    jobs = json.loads((GOLDEN / "refused_jobs.json").read_text("utf-8"))["jobs"]
    passed = set()
    for refused in jobs:
        content = json.loads((GOLDEN / "attempts" / "job.json").read_text("utf-8"))
        place = content
        for step in refused["place"][:-1]:
            place = place[step]
        place[refused["place"][-1]] = refused["value"]
        if validator("job").is_valid(content):
            passed.add(refused["about"])
    assert len(passed) < len(jobs) / 2
    assert not {"topk without k", "a digest that is a path", "no rounds", "an unknown key"} & passed
