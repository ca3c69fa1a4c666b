"""docs/plan.md describes every key with its default, and nothing else."""

import dataclasses
import enum
import json
import re
import tomllib
from pathlib import Path
from typing import Any

from phoneproof.data.preprocessing import Preprocess, Resize
from phoneproof.plan import data_section
from phoneproof.plan.model import Plan, from_effective
from phoneproof.plan.problems import sections
from phoneproof.plan.values import Section
from phoneproof.recipes.rows import RECIPES

DOCS = Path(__file__).parents[3] / "docs" / "plan.md"
ROW = re.compile(r"\| `(\w+)` \| .+ \| `(.+)` \| ?.* ?\|")


def documented() -> dict[str, dict[str, str]]:
    """Heading of a table to its keys and their defaults."""
    found: dict[str, dict[str, str]] = {}
    heading = ""
    for line in DOCS.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ").strip("`")
        elif (row := ROW.fullmatch(line)) is not None:
            found.setdefault(heading, {})[row[1]] = row[2]
        else:
            assert not re.match(r"\| `", line), line
    return found


def shown(value: Any) -> str:
    """A default as the docs write it."""
    if value is None:
        return "none"
    if isinstance(value, Section):
        return "{ " + ", ".join(f"{k} = {shown(v)}" for k, v in value.model_dump().items()) + " }"
    if isinstance(value, enum.Enum):
        value = value.value
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def keys_of(section: type[Section]) -> dict[str, str]:
    return {
        name: "required" if field.is_required() else shown(field.get_default(call_default_factory=True))
        for name, field in section.model_fields.items()
    }


def test_every_key_of_every_section_is_documented_with_its_default() -> None:
    docs = documented()
    expected = {
        heading: keys_of(section)
        for heading, section in sections(Plan)
        if not issubclass(section, data_section.SetSection)
    }
    assert {heading: docs.get(heading) for heading in expected} == expected


def test_every_kind_of_set_is_documented_with_its_defaults() -> None:
    docs = documented()
    common = keys_of(data_section.SetSection)
    assert docs["Kinds of sets"] == common
    kinds = {s for _, s in sections(Plan) if issubclass(s, data_section.SetSection)}
    assert len(kinds) == 5
    for section in kinds:
        keys = keys_of(section)
        (kind,) = section.model_fields["kind"].annotation.__args__  # type: ignore[union-attr]
        own = {name: default for name, default in keys.items() if name not in common}
        assert docs[f'kind = "{kind}"'] == own


def test_the_preprocess_is_documented_with_its_defaults() -> None:
    docs = documented()
    for heading, declared in (("[data.preprocess]", Preprocess), ("[data.preprocess.resize]", Resize)):
        defaults = {
            field.name: "required" if field.default is dataclasses.MISSING else shown(field.default)
            for field in dataclasses.fields(declared)
        }
        if declared is Preprocess:  # an empty tuple is written out for each channel
            written = Preprocess.from_dict({"mode": "RGB", "layout": "nchw"})
            defaults |= {key: shown(getattr(written, key)) for key in ("background", "mean", "std")}
        assert docs[heading] == defaults


def test_the_recipes_are_named() -> None:
    row = next(
        line for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith("| `recipe`")
    )
    assert re.findall(r"`([a-z0-9-]+)`", row.split("|")[4]) == list(RECIPES)


def test_no_table_describes_a_section_that_does_not_exist() -> None:
    headings = {heading for heading, _ in sections(Plan)}
    known = headings | {"[data.preprocess]", "[data.preprocess.resize]", "Kinds of sets"}
    assert {h for h in documented() if not h.startswith("kind = ")} <= known


def test_the_example_is_a_plan(tmp_path: Path) -> None:
    example = re.search(r"```toml\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    plan = from_effective(tomllib.loads(example[1]), tmp_path)
    assert plan.build_ids == ("digits/onnx/onnx-int8", "digits/onnx/onnx-int8/entropy")
