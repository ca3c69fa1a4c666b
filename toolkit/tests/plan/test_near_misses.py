"""Plans that are nearly right are refused, at their line, with the nearest right thing; none is guessed."""

from pathlib import Path

import pytest

from tests.plan.plans import RIGHT, changed, refusal

NEAR_MISSES = [
    # old passage, new passage, key that is blamed, words of the suggestion
    ("[[models]]", "[[model]]", "model", "'models'"),
    ("[[builds]]", "[[build]]", "build", "'builds'"),
    ("[[devices]]", "[[device]]", "device", "'devices'"),
    ("[gates]", "[gate]", "gate", "'gates'"),
    ("[benchmark]", "[benchmarks]", "benchmarks", "'benchmark'"),
    ("[report]", "[reports]", "reports", "'report'"),
    ("[limits]", "[limit]", "limit", "'limits'"),
    ("[task]", "[tasks]", "tasks", "'task'"),
    ("[[models]]", "seed = 1\n[[models]]", "seed", "belongs in [data]"),
    ("[[models]]", "take = 1\n[[models]]", "take", "belongs in [data.calibration] or [data.evaluation] or"),
    ("[[devices]]", "[devices]", "devices", "[[devices]]"),
    ("[report]", "[[report]]", "report", "[report]"),
    ('name = "digits"', 'name = "Digits"', "models #1.name", "a-z"),
    ('name = "digits"', 'name = "../digits"', "models #1.name", "a-z"),
    ('name = "digits"', 'nam = "digits"', "models #1.nam", "'name'"),
    ('source = "digits.onnx"', 'source = ""', "models #1.source", "Write text"),
    ('source = "digits.onnx"', 'sources = "digits.onnx"', "models #1.sources", "'source'"),
    ('format = "onnx"', 'format = "ONNX"', "models #1.format", "'onnx'"),
    ('format = "onnx"', 'format = "onxn"', "models #1.format", "'onnx'"),
    ('format = "onnx"', 'format = "tflite"', "models #1.format", "'savedmodel', 'onnx'."),
    ('format = "onnx"', 'format = "pytorhc"', "models #1.format", "'pytorch'"),
    ('format = "onnx"', 'format = "saved_model"', "models #1.format", "'savedmodel'"),
    ("[1, 3, 32, 32]", "[1, 3, 32, -1]", "models #1.shapes.image #4", "of at least 1"),
    ("[1, 3, 32, 32]", '[1, 3, 32, "32"]', "models #1.shapes.image #4", "Write 32 without quotes"),
    ("calibration =", "calibraton =", "data.calibraton", "'calibration'"),
    ("evaluation =", "eval =", "data.eval", "'evaluation'"),
    ('kind = "image_folder"', 'kind = "imagefolder"', "data.calibration.kind", "'image_folder'"),
    ('kind = "image_folder", path', 'kind = "image_folder", pth', "data.calibration.pth", "'path'"),
    ("take = 200", "tkae = 200", "data.calibration.tkae", "'take'"),
    ("take = 200", "take = 0", "data.calibration.take", "of at least 1"),
    ("skip = 200", "skip = 199", "data.evaluation", "take = 200"),
    (", take = 200", "", "data.evaluation", "take = 200"),
    ("samples = 300", 'samples = "al"', "data.samples", "'all'"),
    ("samples = 300", "samples = 0", "data.samples", "'all'"),
    ("samples = 300", "sample = 300", "data.sample", "'samples'"),
    ("may_leave = false", 'may_leave = "false"', "data.may_leave", "Write false without quotes"),
    ("may_leave = false", "may_leave = 0", "data.may_leave", "Write true or false"),
    ("seed = 7", "seed = -7", "data.seed", "of at least 0"),
    ("seed = 7", "seed = 7.5", "data.seed", "Write it without a fraction"),
    ('mode = "RGB"', 'mode = "rgb"', "data.preprocess.mode", "'RGB'"),
    ('layout = "nchw"', 'layout = "nhcw"', "data.preprocess.layout", "Did you mean"),
    ("width = 32", "widht = 32", "data.preprocess.resize.widht", "'width'"),
    ('"bilinear"', '"bilinaer"', "data.preprocess.resize.interpolation", "'bilinear'"),
    ("scale = 0.0039", "scael = 0.0039", "data.preprocess.scael", "'scale'"),
    ('kind = "classification"', 'kind = "classify"', "task.kind", "'classification'"),
    ('"top5"', '"top-5"', "task.metrics #2", "'top5'"),
    ('"top5"', '"top1"', "task.metrics", "Remove one"),
    ('"5", "6"]', '"5", "5"]', "data.classes", "Remove one"),
    ('recipe = "onnx-int8"', 'recipe = "onnx-int-8"', "builds #1.recipe", "'onnx-int8'"),
    ('recipe = "onnx-int8"', 'recipe = "int8"', "builds #1.recipe", "onnx-int8"),
    ('recipe = "onnx-int8"', 'reciep = "onnx-int8"', "builds #1.reciep", "'recipe'"),
    ('method = "percentile"', 'method = "Percentile"', "builds #1.method", "'percentile'"),
    ('method = "percentile"', 'methd = "percentile"', "builds #1.methd", "'method'"),
    ('method = "percentile"\n', "", "builds #1.percentile", "method = 'percentile'"),
    ("percentile = 99.9", "percentile = 0.999", "builds #1.percentile", "of at least 50"),
    ("percentile = 99.9", "percentile = 100", "builds #1.percentile", "below 100"),
    ("percentile = 99.9", "per_chanel = true", "builds #1.per_chanel", "'per_channel'"),
    ("percentile = 99.9", 'per_channel = "true"', "builds #1.per_channel", "Write true without quotes"),
    ("percentile = 99.9", 'io = "in8"', "builds #1.io", "'int8'"),
    ("percentile = 99.9", 'keep_float_types = "Softmax"', "builds #1.keep_float_types", "= [...]"),
    ("percentile = 99.9", 'model = "digit"', "builds #1.model", "'digits'"),
    ('recipe = "onnx-int8"', 'recipe = "onnx-int8-dynamic"', "builds #1.method", "It takes: per_channel"),
    ('variant = "entropy"\nmethod = "entropy"', "", "builds #2", "variant"),
    ('kind = "host"', 'kind = "hots"', "devices #1.kind", "'host'"),
    ("threads = 1", "thread = 1", "devices #1.thread", "'threads'"),
    ("threads = 1", "threads = 0", "devices #1.threads", "of at least 1"),
    ('accelerators = ["cpu"]', 'accelerators = ["CPU"]', "devices #1.accelerators #1", "'cpu'"),
    ('accelerators = ["cpu"]', "accelerators = []", "devices #1.accelerators", "Name at least one"),
    ('accelerators = ["cpu"]', 'accelerator = ["cpu"]', "devices #1.accelerator", "'accelerators'"),
    ("accuracy_drop_max", "accuracy_drop", "gates.accuracy_drop", "'accuracy_drop_max'"),
    ("accuracy_drop_max = 0.01", "accuracy_drop_max = 1", "gates.accuracy_drop_max", "below 1"),
    ("accuracy_drop_max = 0.01", "speedup_min = nan", "gates.speedup_min", "Write a number"),
    ("int8 = 20", "in8 = 20", "gates.parity_min_db.in8", "'int8'"),
    ("int8_fail = 10", "int8_fail = 30", "gates.parity_min_db.int8_fail", "at most int8"),
    ('"HOST-SATURATES"', '"HOST_SATURATES"', "gates.waive #1", "'HOST-SATURATES'"),
    ("rounds = 12", "rounds = 9", "benchmark.rounds", "of at least 10"),
    ("rounds = 12", "round = 12", "benchmark.round", "'rounds'"),
    ("rounds = 12", "rounds = 1979-05-27", "benchmark.rounds", "Write text in quotes"),
    ('title = "Digits"', 'titel = "Digits"', "report.titel", "'title'"),
    ("build_timeout_s = 600", "build_timeout = 600", "limits.build_timeout", "'build_timeout_s'"),
    ("build_timeout_s = 600", 'build_timeout_s = "600"', "limits.build_timeout_s", "600 without quotes"),
]

EDGE = "[benchmark]"
OF_EDGE = [
    # lines of the section, key that is blamed, words of the suggestion
    ('skip = ["blak"]', "edge.skip #1", "'black'"),
    ('skip = ["black", "black"]', "edge.skip", "Remove one"),
    ('skips = ["black"]', "edge.skips", "'skip'"),
    ('kind = "images"', "edge.kind", "'image'"),
    ('kind = "values"', "edge.kind", "Remove kind"),
    ('run = "no"', "edge.run", "true or false"),
    ('audio_input = "x"', "edge.audio_input", "kind = 'audio'"),
    ("vocabulary = 0", "edge.vocabulary", "of at least 1"),
    ('kind = "image"\nvocabulary = 9', "edge.vocabulary", "kind = 'tokens'"),
    ('own = { kind = "folder", path = "hard" }', "edge.own.kind", "'image_folder'"),
    ('own = { kind = "image_folder", pth = "hard" }', "edge.own.pth", "'path'"),
    ('own = { kind = "npz", path = "hard.npz" }', "edge.own", "Give images"),
]
EDGE_NEAR_MISSES = [(EDGE, f"[edge]\n{lines}\n\n{EDGE}", key, words) for lines, key, words in OF_EDGE]

RECIPE = 'recipe = "onnx-int8"\nmethod = "percentile"\npercentile = 99.9'
MODEL = 'format = "onnx"\nshapes = { image = [1, 3, 32, 32] }'
INPUTS = 'inputs = [{ name = "image", shape = [1, 3, 32, 32] }]'
MODULE = f'source = "net:digits"\nformat = "pytorch"\n{INPUTS}'
IN_A_SECTION = [
    # passage of the right plan, what stands in its place, key that is blamed, words of the suggestion
    (MODEL, f'format = "onnx"\n{INPUTS}', "models #1.inputs", "It takes: shapes."),
    (MODEL, f'format = "keras"\n{INPUTS}', "models #1.inputs", "It takes: shapes, trust_pickle."),
    (MODEL, 'format = "keras"\nsignature = "serve"', "models #1.signature", "It takes: shapes, trust"),
    (MODEL, 'format = "savedmodel"\nsignatur = "serve"', "models #1.signatur", "'signature'"),
    (MODEL, 'format = "savedmodel"\ntrust_pickle = true', "models #1.trust_pickle", "shapes, signature"),
    (MODEL, 'format = "exported_program"\nstate = "a.pt"', "models #1.state", "It takes: outputs, shapes"),
    (MODEL, 'format = "keras"\ntrust_pickel = true', "models #1.trust_pickel", "'trust_pickle'"),
    (MODEL, 'format = "keras"\nshape = { image = [1] }', "models #1.shape", "'shapes'"),
    (MODEL, 'format = "pytorch"', "models #1.source", "'exported_program'"),
    (
        f'source = "digits.onnx"\n{MODEL}',
        'source = "net:digits"\nformat = "pytorch"',
        "models #1.inputs",
        "in the order",
    ),
    (
        f'source = "digits.onnx"\n{MODEL}',
        f"{MODULE}\nshapes = {{ image = [1] }}",
        "models #1.shapes",
        "It takes: inputs",
    ),
    (
        f'source = "digits.onnx"\n{MODEL}',
        f'{MODULE}\nstate = "weights.bin"',
        "models #1.state",
        ".safetensors",
    ),
    (f'source = "digits.onnx"\n{MODEL}', f'{MODULE}\nstates = "weights.pt"', "models #1.states", "'state'"),
    (
        f'source = "digits.onnx"\n{MODEL}',
        f"{MODULE}\ntrust_pickle = true",
        "models #1.trust_pickle",
        "no state dict",
    ),
    (
        f'source = "digits.onnx"\n{MODEL}',
        f'{MODULE}\nstate = "w.safetensors"\ntrust_pickle = true',
        "models #1.trust_pickle",
        "no pickle",
    ),
    (f'source = "digits.onnx"\n{MODEL}', MODULE.replace("name", "nam"), "models #1.inputs #1.nam", "'name'"),
    (
        f'source = "digits.onnx"\n{MODEL}',
        MODULE.replace("shape =", 'dtype = "float", shape ='),
        "models #1.inputs #1.dtype",
        "'float32'",
    ),
    (
        f'source = "digits.onnx"\n{MODEL}',
        MODULE.replace("}]", '}, { name = "image", shape = [1] }]'),
        "models #1.inputs #2.name",
        "a name of its own",
    ),
    (RECIPE, f'{RECIPE}\nfile = "a.onnx"', "builds #1", "Remove one of the two"),
    (RECIPE, 'variant = "mine"', "builds #1", "Add recipe"),
    (RECIPE, 'fil = "a.tflite"', "builds #1.fil", "'file'"),
    (RECIPE, 'file = "a.mlmodel"', "builds #1.file", "convert_to='mlprogram'"),
    (RECIPE, 'file = "a.pt"', "builds #1.file", "under [[models]]"),
    (RECIPE, 'file = "a"', "builds #1.file", ".tflite, .mlpackage, .pte, .onnx"),
    (RECIPE, 'file = "a.onnx"\nmethod = "minmax"', "builds #1.method", "It takes no options"),
    (RECIPE, 'file = "a.onnx"\nkeep_float_names = ["x"]', "builds #1.keep_float_names", "no options"),
    (RECIPE, 'file = "a.onnx"\ntarget = { onnx_ir = 9 }', "builds #1.target", "It takes no options"),
    (RECIPE, 'file = "a.onnx"\nname = { x = "y" }', "builds #1.name", "'names'"),
    (RECIPE, f'{RECIPE}\nnames = {{ x = "image" }}', "builds #1.names", "file = ..."),
    (RECIPE, 'recipe = "tflite-int-8"', "builds #1.recipe", "'tflite-int8'"),
    (RECIPE, 'recipe = "coreml-fp16"', "builds #1.recipe", "'coreml-float16'"),
    (RECIPE, 'recipe = "executorch-int4"', "builds #1.recipe", "'executorch-int8'"),
    (RECIPE, f'{RECIPE}\nsource = "ONNX"', "builds #1.source", "'onnx'"),
    (RECIPE, f"{RECIPE}\nper_channel_dense = false", "builds #1.per_channel_dense", "It takes: io, method"),
    (RECIPE, 'recipe = "onnx-int8-qoperator"\nio = "int8"', "builds #1.io", "It takes: method"),
    (RECIPE, 'recipe = "onnx-float32"\nkeep_float = true', "builds #1.keep_float", "It takes: target"),
    (RECIPE, f'{RECIPE}\nquantise_types = ["Conv"]', "builds #1.quantise_types", "'quantize_types'"),
    (RECIPE, f'{RECIPE}\nquantize_types = ["Conv"]', "builds #1.quantize_types", "keep_float = true"),
    (RECIPE, f'{RECIPE}\nquantize_names = ["a"]', "builds #1.quantize_names", "keep_float = true"),
    (RECIPE, f"{RECIPE}\nkeep_float = true", "builds #1.keep_float", "the recipe 'onnx-float32'"),
    (
        RECIPE,
        f'{RECIPE}\nkeep_float = true\nkeep_float_types = ["Conv"]\nquantize_names = ["a"]',
        "builds #1.keep_float_types",
        "Remove it",
    ),
    (
        RECIPE,
        f'{RECIPE}\nkeep_float_names = ["a"]\nquantize_names = ["a"]',
        "builds #1.quantize_names",
        "from keep_float_names or from",
    ),
    (RECIPE, f"{RECIPE}\ntarget = {{}}", "builds #1.target", "or remove the table"),
    (RECIPE, f"{RECIPE}\ntarget = {{ opset = 13 }}", "builds #1.target.opset", "'onnx_opset'"),
    (RECIPE, f'{RECIPE}\ntarget = {{ onnx_opset = "13" }}', "builds #1.target.onnx_opset", "13 without"),
    (
        RECIPE,
        f'{RECIPE}\ntarget = {{ deployment_target = "iOS17" }}',
        "builds #1.target.deployment_target",
        "It takes: onnx_opset",
    ),
    (
        RECIPE,
        f'{RECIPE}\ntarget = {{ deployment_target = "ios17" }}',
        "builds #1.target.deployment_target",
        "'iOS17'",
    ),
    (
        RECIPE,
        f'{RECIPE}\ntarget = {{ runtime_version = "v1.17" }}',
        "builds #1.target.runtime_version",
        "'1.17.0'",
    ),
    (RECIPE, f"{RECIPE}\ntarget = {{ onnx_opset = 12 }}", "builds #1.target.onnx_opset", "Raise the target"),
    (
        RECIPE,
        f'{RECIPE}\ntarget = {{ runtime_version = "1.9" }}',
        "builds #1.target.runtime_version",
        "Raise the target",
    ),
]
NEAR_MISSES += [*IN_A_SECTION, *EDGE_NEAR_MISSES]


@pytest.mark.parametrize(
    ("old", "new", "key", "suggestion"), NEAR_MISSES, ids=[f"{m[2]}: {m[1][-40:]}" for m in NEAR_MISSES]
)
def test_a_near_miss_is_refused_at_its_key_with_a_suggestion(
    tmp_path: Path, old: str, new: str, key: str, suggestion: str
) -> None:
    text = changed(old, new)
    error = refusal(tmp_path, text)
    assert error.exit_code == 2
    told = error.facts.get("problems") or (str(error),)
    assert isinstance(told, tuple)
    blamed = [one for one in told if f": {key}: " in one]
    assert len(blamed) == 1, told
    assert suggestion in blamed[0].partition(f": {key}: ")[2]
    assert len(told) == 1 or not new.startswith("reciep"), "one mistake is told once"


def test_there_are_a_hundred_near_misses_and_each_is_another() -> None:
    assert len({(old, new) for old, new, *_ in NEAR_MISSES}) == len(NEAR_MISSES) >= 100


def test_every_mistake_of_a_plan_is_told_in_order_of_lines(tmp_path: Path) -> None:
    text = changed("seed = 7", 'seed = "7"')
    text = changed("rounds = 12", "rounds = 2", text)
    text = changed('format = "onnx"', 'format = "onxn"', text)
    text = changed("width = 32", "widht = 32", text)
    error = refusal(tmp_path, text)
    problems = error.facts["problems"]
    assert isinstance(problems, tuple)
    lines = [int(one.removeprefix(f"{tmp_path}/phoneproof.toml:").split(":")[0]) for one in problems]
    expected = ['format = "onxn"', 'seed = "7"', "resize", "rounds"]
    assert lines == [next(n for n, line in enumerate(text.splitlines(), 1) if e in line) for e in expected]
    assert all(one in error.what for one in problems)


def test_the_line_of_a_missing_key_is_that_of_its_table(tmp_path: Path) -> None:
    text = changed('source = "digits.onnx"\n', "")
    error = refusal(tmp_path, text)
    assert error.where == f"{tmp_path}/phoneproof.toml:1: models #1.source"
    assert error.next_step == "Add source = ..."


@pytest.mark.parametrize(
    ("section", "next_step"),
    [
        (
            '[[devices]]\nkind = "host"\nthreads = 1\naccelerators = ["cpu"]\n',
            "Add [[devices]] with kind = 'host'.",
        ),
        (RIGHT[: RIGHT.index("[data]")], "Add [[models]]"),
    ],
)
def test_a_missing_section_is_named_with_what_to_add(tmp_path: Path, section: str, next_step: str) -> None:
    error = refusal(tmp_path, changed(section, ""))
    assert next_step in str(error)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[[models]\n", "not TOML"),
        ('a = "\n', "not TOML"),
        ("a = 1\na = 2\n", "not TOML"),
        (f"a = {'9' * 5000}\n", "not TOML"),
        ("a = " + "[" * 3000 + "]" * 3000, "nested too deep"),
        ("#" * 1_000_001, "larger than 1 MB"),
    ],
    ids=["bracket", "quote", "twice", "digits", "deep", "large"],
)
def test_what_is_no_plan_at_all_is_refused(tmp_path: Path, text: str, what: str) -> None:
    assert what in refusal(tmp_path, text).what


def test_a_hostile_key_stays_on_its_line_of_the_message(tmp_path: Path) -> None:
    error = refusal(tmp_path, '"\\u001b[31m\\nrm -rf" = 1\n' + RIGHT)
    assert "\x1b" not in str(error)
    assert "\n" not in str(error)


CONTRADICTIONS = [
    ('kind = "classification"', 'kind = "other"', "'classification'"),
    ('["top1", "top5"]', "[]", "Add [task] metrics"),
    ('"0", "1", "2", "3", "4", "5", "6"', '"0", "1", "2"', "Remove 'top5'"),
    (
        '{ kind = "image_folder", path = "images", skip = 200 }',
        '{ kind = "csv", path = "e.csv" }',
        "label_column",
    ),
    (
        '{ kind = "image_folder", path = "images", skip = 200 }',
        '{ kind = "npy", path = "e.npy" }',
        "labels_path",
    ),
    ('path = "images", skip = 200', 'path = "./x/../images"', "take = 200"),
    ('path = "images", take = 200', 'path = "images"', "take = 200"),
]


@pytest.mark.parametrize(("old", "new", "suggestion"), CONTRADICTIONS)
def test_what_contradicts_itself_is_refused(tmp_path: Path, old: str, new: str, suggestion: str) -> None:
    assert suggestion in str(refusal(tmp_path, changed(old, new)))


def test_images_without_preprocess_are_refused(tmp_path: Path) -> None:
    start, end = RIGHT.index("[data.preprocess]"), RIGHT.index("[task]")
    assert "Add [data.preprocess]" in str(refusal(tmp_path, RIGHT[:start] + RIGHT[end:]))


def test_arrays_with_preprocess_are_refused(tmp_path: Path) -> None:
    text = changed(
        '{ kind = "image_folder", path = "images", take = 200 }', '{ kind = "npz", path = "c.npz" }'
    )
    text = changed(
        '{ kind = "image_folder", path = "images", skip = 200 }', '{ kind = "npz", path = "e.npz" }', text
    )
    assert "Remove [data.preprocess]" in str(refusal(tmp_path, text))


def test_a_plan_full_of_mistakes_is_told_by_its_first_ones(tmp_path: Path) -> None:
    error = refusal(tmp_path, RIGHT + '[[builds]]\nreciep = "x"\n' * 600)
    assert error.what.startswith("The plan has many mistakes; the first 50 are:")
    assert len(error.facts["problems"] or ()) == 50  # type: ignore[arg-type]
