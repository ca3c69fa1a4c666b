"""Which form of a network a build is made from, and builds that were made elsewhere."""

from pathlib import Path

import pytest

from phoneproof.errors import PlanError
from phoneproof.plan.model import Plan
from phoneproof.recipes.rows import RECIPES
from phoneproof.recipes.table import Format, Route, SourceFormat
from tests.plan.plans import plan_of, refusal, text_of


def chosen(plan: Plan) -> list[tuple[str, Route | None]]:
    return [(build.model.format.value, build.route) for build in plan.planned_builds()]


def test_a_form_that_is_taken_as_it_is_goes_before_one_that_is_exported(tmp_path: Path) -> None:
    forms = ["pytorch", "onnx"]
    plan = plan_of(tmp_path, text_of(forms, 'recipe = "onnx-int8"', 'recipe = "executorch-int8"'))
    assert chosen(plan) == [
        ("onnx", Route("onnxruntime")),
        ("pytorch", Route("executorch", SourceFormat.EXPORTED_PROGRAM)),
    ]
    assert plan.build_ids == ("net/onnx/onnx-int8", "net/pytorch/executorch-int8")


def test_a_form_that_is_exported_is_taken_where_source_says_so(tmp_path: Path) -> None:
    both = ('recipe = "onnx-int8"', 'recipe = "onnx-int8"\nsource = "pytorch"')
    plan = plan_of(tmp_path, text_of(["pytorch", "onnx"], *both))
    assert chosen(plan)[1] == ("pytorch", Route("onnxruntime", SourceFormat.ONNX))
    assert plan.build_ids == ("net/onnx/onnx-int8", "net/pytorch/onnx-int8")


@pytest.mark.parametrize("build", ['recipe = "tflite-int8"', 'file = "mine.tflite"'])
def test_several_forms_that_fit_must_be_chosen_from(tmp_path: Path, build: str) -> None:
    error = refusal(tmp_path, text_of(["keras", "savedmodel"], build))
    assert error.next_step == "Add source = 'keras' or 'savedmodel'."
    assert (error.where or "").endswith(": builds #1")
    chosen_one = text_of(["keras", "savedmodel"], f'{build}\nsource = "savedmodel"')
    assert plan_of(tmp_path, chosen_one).planned_builds()[0].model.format is SourceFormat.SAVEDMODEL


def test_a_source_that_the_model_does_not_have_is_refused_at_its_key(tmp_path: Path) -> None:
    error = refusal(tmp_path, text_of(["keras"], 'recipe = "tflite-int8"\nsource = "onnx"'))
    assert error.what == "The model 'net' has no form 'onnx'."
    assert error.next_step == "It has 'keras'."
    assert (error.where or "").endswith(": builds #1.source")


@pytest.mark.parametrize(
    ("forms", "recipe", "takes", "instead"),
    [
        (["onnx"], "tflite-int8", "'keras', 'savedmodel', 'pytorch', 'exported_program'", ["onnx-int8"]),
        (["keras"], "coreml-int8", "'pytorch', 'exported_program'", ["tflite-int8"]),
        (["savedmodel"], "executorch-int8-dynamic", "'pytorch', 'exported_program'", ["tflite-int8-dynamic"]),
        (["exported_program"], "torch-qnnpack-int8", "'pytorch'", ["executorch-int8", "coreml-int8"]),
        (["onnx"], "coreml-int8-weights", "'pytorch', 'exported_program', 'keras', 'savedmodel'", []),
    ],
)
def test_no_form_that_fits_names_what_the_recipe_is_made_from_and_recipes_that_do(
    tmp_path: Path, forms: list[str], recipe: str, takes: str, instead: list[str]
) -> None:
    error = refusal(tmp_path, text_of(forms, f'recipe = "{recipe}"'))
    assert error.what == f"{recipe} is not made from {forms[0]!r}."
    assert f"It is made from {takes}" in (error.next_step or "")
    suggested = (error.next_step or "").partition(", or use ")[2]
    assert bool(suggested) is bool(instead)
    assert all(repr(name) in suggested for name in instead)


@pytest.mark.parametrize("form", list(SourceFormat), ids=str)
@pytest.mark.parametrize("recipe", list(RECIPES))
def test_a_recipe_is_planned_from_exactly_the_forms_of_its_routes(
    tmp_path: Path, form: SourceFormat, recipe: str
) -> None:
    text = text_of([form.value], f'recipe = "{recipe}"')
    row = RECIPES[recipe]
    if form in row.routes:
        assert chosen(plan_of(tmp_path, text)) == [(form.value, row.routes[form])]
    else:
        with pytest.raises(PlanError, match="is not made from"):
            plan_of(tmp_path, text)


@pytest.mark.parametrize(
    ("file", "format_"),
    [
        ("a.tflite", Format.TFLITE),
        ("out/a.PTE", Format.EXECUTORCH),
        ("/abs/a.onnx", Format.ONNX),
        ("a.mlpackage/", Format.COREML),
    ],
)
def test_a_build_made_elsewhere_is_judged_in_the_format_of_its_name(
    tmp_path: Path, file: str, format_: Format
) -> None:
    plan = plan_of(tmp_path, text_of(["keras"], f'file = "{file}"\nnames = {{ serving_x = "x" }}'))
    (build,) = plan.planned_builds()
    assert (build.file, build.recipe.format, build.route) == (file, format_, None)
    assert build.names == {"serving_x": "x"}
    assert build.build_id == f"net/keras/{format_.value}-file"


def test_two_builds_of_one_format_made_elsewhere_are_told_apart_by_variant(tmp_path: Path) -> None:
    files = ('file = "a.onnx"', 'file = "b.onnx"')
    assert "variant" in (refusal(tmp_path, text_of(["onnx"], *files)).next_step or "")
    told = plan_of(tmp_path, text_of(["onnx"], files[0], f'{files[1]}\nvariant = "b"'))
    assert told.build_ids == ("net/onnx/onnx-file", "net/onnx/onnx-file/b")


def test_a_build_of_several_models_names_its_own(tmp_path: Path) -> None:
    text = text_of(["onnx"], 'file = "a.onnx"\nmodel = "net"')
    other = '[[models]]\nname = "other"\nformat = "onnx"\nsource = "o.onnx"\n'
    assert plan_of(tmp_path, other + text).build_ids == ("net/onnx/onnx-file",)


def test_an_option_that_another_makes_void_is_left_out_of_the_effective_plan(tmp_path: Path) -> None:
    build = 'recipe = "tflite-int8"\nper_channel = false'
    (effective,) = plan_of(tmp_path, text_of(["keras"], build)).effective()["builds"]
    assert effective["per_channel_dense"] is None
    assert effective["percentile"] is None
    refused = refusal(tmp_path, text_of(["keras"], f"{build}\nper_channel_dense = true"))
    assert "means nothing with per_channel = false" in refused.what


@pytest.mark.parametrize(
    "keys",
    [
        'keep_float_types = ["Conv"]\nquantize_names = ["a"]',
        'keep_float_names = ["block"]\nquantize_names = ["block.0"]',
        'keep_float_types = ["Conv2d"]\nquantize_types = ["conv2d"]',
        'keep_float = true\nquantize_types = ["Conv"]\nkeep_float_names = ["a"]',
        'keep_float = true\nquantize_types = ["conv2d"]\nkeep_float_types = ["Conv2d"]',
        'keep_float = false\nkeep_float_names = ["a"]',
    ],
)
def test_choices_of_operators_that_all_count_are_taken(tmp_path: Path, keys: str) -> None:
    (build,) = plan_of(tmp_path, text_of(["onnx"], f'recipe = "onnx-int8"\n{keys}')).planned_builds()
    assert build.options.keep_float is ("keep_float = true" in keys)


@pytest.mark.parametrize(("target", "is_enough"), [("iOS15", False), ("iOS16", False), ("iOS17", True)])
def test_a_target_below_what_every_build_of_the_recipe_needs_is_refused(
    tmp_path: Path, target: str, is_enough: bool
) -> None:
    build = f'recipe = "coreml-int8"\ntarget = {{ deployment_target = "{target}" }}'
    text = text_of(["exported_program"], build)
    if is_enough:
        assert plan_of(tmp_path, text).planned_builds()[0].options.target.deployment_target == target
    else:
        error = refusal(tmp_path, text)
        assert error.what == f"coreml-int8 needs iOS17 at least, and the target has {target}."
        assert (error.where or "").endswith("builds #1.target.deployment_target")
