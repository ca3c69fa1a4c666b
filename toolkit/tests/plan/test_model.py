"""Reading a plan: defaults, what follows by rule, the round trip through the effective plan."""

import json
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phoneproof.data import set_specs
from phoneproof.errors import PlanError
from phoneproof.plan import data_section
from phoneproof.plan.model import from_effective, plan_digest, read_plan
from phoneproof.recipes.rows import RECIPES
from phoneproof.recipes.table import Format, Method, Recipe, RecipeOptions, SourceFormat
from tests.plan.plans import RIGHT, changed, plan_of, refusal, written

LEAST = """\
[[models]]
name = "net"
source = "net.onnx"
format = "onnx"
[[builds]]
recipe = "onnx-int8-dynamic"
[[devices]]
kind = "host"
"""


def test_build_ids_are_model_source_recipe_and_variant(tmp_path: Path) -> None:
    assert plan_of(tmp_path).build_ids == ("digits/onnx/onnx-int8", "digits/onnx/onnx-int8/entropy")


def test_a_build_has_the_defaults_of_its_recipe_and_nothing_that_means_nothing_for_it(tmp_path: Path) -> None:
    percentile, entropy = plan_of(tmp_path).planned_builds()
    assert percentile.options == RecipeOptions(method=Method.PERCENTILE, percentile=99.9)
    assert entropy.options == RecipeOptions(method=Method.ENTROPY)
    dynamic = plan_of(tmp_path, LEAST).builds[0]
    assert (dynamic.method, dynamic.percentile, dynamic.io) == (None, None, None)
    assert dynamic.per_channel is RecipeOptions().per_channel


def test_every_option_of_a_recipe_is_a_field_of_its_options() -> None:
    known = {field.name for field in fields(RecipeOptions)}
    assert known == {name for row in RECIPES.values() for name in row.options}


def test_a_plan_with_several_models_must_name_one_in_each_build(tmp_path: Path) -> None:
    other = '[[models]]\nname = "other"\nsource = "o.onnx"\nformat = "onnx"\n'
    error = refusal(tmp_path, other + LEAST)
    assert error.where is not None
    assert error.where.endswith("builds #1")
    assert "'net', 'other'" in (error.next_step or "")
    named = changed('recipe = "onnx-int8-dynamic"', 'recipe = "onnx-int8-dynamic"\nmodel = "net"', LEAST)
    assert plan_of(tmp_path, other + named).build_ids == ("net/onnx/onnx-int8-dynamic",)


def test_the_same_form_of_a_model_twice_is_refused(tmp_path: Path) -> None:
    twice = LEAST[: LEAST.index("[[builds]]")] + LEAST
    assert "two sources of the format" in refusal(tmp_path, twice).what


def test_paths_start_from_the_folder_of_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "project", RIGHT)
    plan = read_plan(Path("project/phoneproof.toml"))
    assert plan.locate("a/b.onnx") == tmp_path / "project/a/b.onnx"
    assert plan.locate("/a/b.onnx") == Path("/a/b.onnx")
    assert plan.locate("~/b.onnx") == Path.home() / "b.onnx"
    assert plan.locate("./~/b.onnx") == tmp_path / "project/~/b.onnx"
    assert plan.locate("~nobody/b.onnx") == tmp_path / "project/~nobody/b.onnx"
    declared = plan.declared_set("calibration")
    assert declared is not None
    assert declared.spec == set_specs.ImageFolder(
        "image_folder", str(tmp_path / "project/images"), tuple("0123456")
    )
    assert (declared.skip, declared.take) == (0, 200)


@pytest.mark.parametrize(
    ("table", "spec"),
    [
        (
            '{ kind = "csv", path = "a.csv", label_column = "y", delimiter = ";" }',
            set_specs.CsvManifest("csv", "{}/a.csv", "path", "y", ";"),
        ),
        (
            '{ kind = "npz", path = "a.npz", arrays = { x = "X" } }',
            set_specs.NpzArchive("npz", "{}/a.npz", {"x": "X"}),
        ),
        (
            '{ kind = "npy", path = "a.npy", labels_path = "y.npy" }',
            set_specs.NpyArray("npy", "{}/a.npy", "{}/y.npy"),
        ),
        (
            '{ kind = "entry_point", function = "mine:samples" }',
            set_specs.EntryPoint("entry_point", "mine:samples", "{}"),
        ),
    ],
)
def test_each_kind_of_set_becomes_the_data_folders_own(
    tmp_path: Path, table: str, spec: set_specs.SetSpec
) -> None:
    images = 'preprocess = { mode = "L", layout = "nchw" }\n' if "csv" in table else ""
    declared = plan_of(tmp_path, f"{LEAST}[data]\n{images}evaluation = {table}\n").declared_set("evaluation")
    assert declared is not None
    expected = {k: v.format(tmp_path) if isinstance(v, str) else v for k, v in vars(spec).items()}
    assert vars(declared.spec) == expected


def test_the_sets_of_a_plan_have_the_keys_of_the_data_folders_sets() -> None:
    pairs = (
        (data_section.ImageFolderSection, set_specs.ImageFolder),
        (data_section.CsvSection, set_specs.CsvManifest),
        (data_section.NpzSection, set_specs.NpzArchive),
        (data_section.NpySection, set_specs.NpyArray),
        (data_section.EntryPointSection, set_specs.EntryPoint),
    )
    for section, spec in pairs:
        keys = set(section.model_fields) - {"skip", "take"}
        assert keys == {field.name for field in fields(spec)} - {"classes"}


def test_the_effective_plan_is_json_and_reads_back_equal(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    effective = json.loads(json.dumps(plan.effective()))
    again = from_effective(effective, tmp_path)
    assert again == plan
    assert again.effective() == effective
    assert again.digest == plan.digest == plan_digest(effective)


def test_reading_changes_nothing_of_what_it_is_given(tmp_path: Path) -> None:
    effective = plan_of(tmp_path).effective()
    effective["builds"][0]["model"] = None
    before = json.dumps(effective)
    from_effective(effective, tmp_path)
    assert json.dumps(effective) == before


def test_comments_order_and_written_defaults_do_not_change_the_digest(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    same = changed("seed = 7", "# a comment\nseed = 7\ncalibration_samples = 500", RIGHT)
    assert plan_of(tmp_path, same).digest == plan.digest
    assert plan_of(tmp_path, changed("seed = 7", "seed = 8")).digest != plan.digest


def test_an_effective_plan_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    effective = {**plan_of(tmp_path).effective(), "bulids": []}
    with pytest.raises(PlanError) as caught:
        from_effective(effective, tmp_path, "run.json")
    assert caught.value.where == "run.json: bulids"
    assert caught.value.next_step == "Did you mean 'builds'?"


def test_a_plan_cannot_be_changed(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    with pytest.raises(ValueError, match="frozen"):
        plan.data.seed = 1


@pytest.mark.parametrize("name", ["missing.toml", "."])
def test_no_plan_is_told_with_the_way_to_one(tmp_path: Path, name: str) -> None:
    with pytest.raises(PlanError) as caught:
        read_plan(tmp_path / name)
    assert caught.value.next_step


def test_a_plan_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "phoneproof.toml").write_bytes(RIGHT.encode("utf-16"))
    with pytest.raises(PlanError, match="UTF-8"):
        read_plan(tmp_path / "phoneproof.toml")


names = st.from_regex(r"[a-z0-9_][a-z0-9._-]{0,20}", fullmatch=True)
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=20).filter(
    str.strip
)
maybe = st.none()


lengths = st.integers(1, 10**6)
shapes = st.lists(lengths, max_size=4).map(lambda shape: [1, *shape])
VERSIONS = st.from_regex(r"[2-9][0-9]{0,2}(\.[0-9]{1,3}){0,3}", fullmatch=True)
"""Above the floor of every recipe."""
TARGETS: dict[Format, dict[str, st.SearchStrategy[Any]]] = {
    Format.TFLITE: {"runtime_version": VERSIONS},
    Format.COREML: {"deployment_target": st.sampled_from(["iOS17", "iOS18"])},
    Format.EXECUTORCH: {"runtime_version": VERSIONS},
    Format.ONNX: {
        "onnx_opset": st.integers(13, 1000),
        "onnx_ir": st.integers(7, 1000),
        "runtime_version": VERSIONS,
    },
}
INPUTS = st.fixed_dictionaries({"name": texts, "shape": shapes}, optional={"dtype": st.just("int64")})
KEYS_OF_FORMS: dict[SourceFormat, dict[str, st.SearchStrategy[Any]]] = {
    SourceFormat.ONNX: {"shapes": st.dictionaries(texts, shapes, max_size=2)},
    SourceFormat.SAVEDMODEL: {"shapes": st.dictionaries(texts, shapes, max_size=2), "signature": texts},
    SourceFormat.KERAS: {"shapes": st.dictionaries(texts, shapes, max_size=2), "trust_pickle": st.booleans()},
    SourceFormat.EXPORTED_PROGRAM: {
        "shapes": st.dictionaries(texts, shapes, max_size=2),
        "outputs": st.lists(texts, unique=True, max_size=3),
        "trust_pickle": st.booleans(),
    },
    SourceFormat.PYTORCH: {
        "outputs": st.lists(texts, unique=True, max_size=3),
        "state": texts.map(lambda text: f"{text}.safetensors"),
        "trust_pickle": st.just(False),
    },
}


def models() -> st.SearchStrategy[dict[str, Any]]:
    """One form of a model, with keys that mean something for it."""

    def of(form: SourceFormat) -> st.SearchStrategy[dict[str, Any]]:
        required: dict[str, st.SearchStrategy[Any]] = {"name": names, "format": st.just(form.value)}
        if form is SourceFormat.PYTORCH:
            inputs = st.lists(INPUTS, min_size=1, max_size=2, unique_by=lambda one: one["name"])
            required |= {"source": st.just("my.net:make"), "inputs": inputs}
        else:
            required["source"] = texts
        return st.fixed_dictionaries(required, optional=KEYS_OF_FORMS[form])

    return st.sampled_from(SourceFormat).flatmap(of)


def selections() -> st.SearchStrategy[dict[str, Any]]:
    """Which operators stay in float: choices of which none makes another void."""
    some = st.lists(texts, unique=True, max_size=3)
    kept = st.fixed_dictionaries({}, optional={"keep_float_names": some, "keep_float_types": some})
    only = st.fixed_dictionaries({"keep_float": st.just(True), "quantize_names": some.filter(bool)})
    return kept | only | st.just({"keep_float": False})


def options_for(row: Recipe) -> st.SearchStrategy[dict[str, Any]]:
    """Options that mean something for the recipe, each given or not."""
    known: dict[str, st.SearchStrategy[Any]] = {
        "method": st.sampled_from(["minmax", "entropy"]),
        "per_channel": st.just(True) | maybe,
        "per_channel_dense": st.booleans() | maybe,
        "io": st.sampled_from(row.io),
    }
    target = TARGETS.get(row.format)
    if target is not None:
        known["target"] = st.fixed_dictionaries({}, optional=target).filter(bool)
    plain = st.fixed_dictionaries({}, optional={k: v for k, v in known.items() if k in row.options})
    changed = [
        st.fixed_dictionaries({"method": st.just("percentile")}, optional={"percentile": st.floats(50, 99)})
    ] * ("percentile" in row.options)
    changed += [st.fixed_dictionaries({"per_channel": st.just(False)})] * ("per_channel" in row.options)
    extra = selections() if "keep_float" in row.options else st.just({})
    return st.tuples(st.one_of(plain, *changed), extra).map(lambda pair: {**pair[0], **pair[1]})


def builds(form: SourceFormat) -> st.SearchStrategy[dict[str, Any]]:
    """A build that can be made from this form, or was made elsewhere."""
    rows = [row for row in RECIPES.values() if form in row.routes]
    made = st.sampled_from(rows).flatmap(
        lambda row: options_for(row).map(lambda options: {"recipe": row.name, **options})
    )
    endings = st.sampled_from([".tflite", ".pte", ".onnx", ".mlpackage"])
    files = st.fixed_dictionaries(
        {"file": st.tuples(names, endings).map("".join)},
        optional={"names": st.dictionaries(texts, texts, max_size=2)},
    )
    sourced = st.fixed_dictionaries({}, optional={"source": st.just(form.value)})
    return st.tuples(made | files, sourced).map(lambda pair: {**pair[0], **pair[1]})


def models_and_builds() -> st.SearchStrategy[dict[str, Any]]:
    return models().flatmap(
        lambda model: st.lists(builds(SourceFormat(model["format"])), min_size=1, max_size=4).map(
            lambda rows: {
                "models": [model],
                "builds": [{**row, "variant": f"v{i}"} for i, row in enumerate(rows)],
            }
        )
    )


rest = st.fixed_dictionaries(
    {
        "devices": st.integers(1, 256).map(lambda n: [{"kind": "host", "threads": n}]),
    },
    optional={
        "data": st.fixed_dictionaries(
            {},
            optional={
                "evaluation": st.fixed_dictionaries(
                    {"kind": st.just("npz"), "path": texts},
                    optional={"arrays": st.dictionaries(texts, texts)},
                ),
                "samples": st.integers(1, 10**9) | st.just("all"),
                "max_gb": st.floats(1e-300, 1e300),
                "classes": st.lists(texts, unique=True),
            },
        ),
        "gates": st.fixed_dictionaries(
            {}, optional={"speedup_min": st.floats(0, 1e9, exclude_min=True), "outcomes": st.booleans()}
        ),
        "limits": st.fixed_dictionaries({}, optional={"memory_gb": st.integers(1, 10**6)}),
    },
)

plans = st.tuples(models_and_builds(), rest).map(lambda pair: {**pair[0], **pair[1]})


@given(plans)
def test_any_plan_reads_back_equal_from_its_effective_form(content: dict[str, Any]) -> None:
    plan = from_effective(content, Path("/plan"))
    effective = json.loads(json.dumps(plan.effective()))
    again = from_effective(effective, Path("/plan"))
    assert again == plan
    assert again.effective() == effective
    assert len(set(plan.build_ids)) == len(content["builds"])


def places(content: Any, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in a plan's content, tables and lists included."""
    inner = (
        content.items()
        if isinstance(content, dict)
        else enumerate(content)
        if isinstance(content, list)
        else ()
    )
    return [place, *(found for key, value in inner for found in places(value, (*place, key)))]


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec="utf-8"), max_size=10),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["kind", "path", "a b"]), inner)
    ),
    max_leaves=4,
)


@given(st.data(), anything)
def test_whatever_stands_anywhere_is_read_or_refused_with_its_place(data: st.DataObject, value: Any) -> None:
    content = tomllib.loads(RIGHT)
    place = data.draw(st.sampled_from(places(content)[1:]))
    table: Any = content
    for step in place[:-1]:
        table = table[step]
    table[place[-1]] = value
    try:
        plan = from_effective(content, Path("/plan"))
    except PlanError as error:
        told = error.facts.get("problems") or (str(error),)
        assert isinstance(told, tuple)
        # A contradiction is told at one of the two places and names the other: `[task]`.
        assert any(f"plan: {place[0]}" in one or f"[{place[0]}]" in one for one in told)
    else:
        assert from_effective(plan.effective(), Path("/plan")) == plan
