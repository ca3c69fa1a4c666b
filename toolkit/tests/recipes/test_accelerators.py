"""The tables of accelerators: sound in themselves, and true of what is installed here."""

import importlib.util
import re
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phoneproof.recipes.accelerator_rows import ACCELERATORS
from phoneproof.recipes.accelerators import Accelerator, Rows, Trait, listed, predict
from phoneproof.recipes.operators import NOT_COMPUTED, OPERATORS, WORD_OF, SourceNames

IDS = [one.id for one in ACCELERATORS]
NAMES: tuple[SourceNames, ...] = get_args(SourceNames)
EVERY_ROW = [(one, rows) for one in ACCELERATORS for rows in one.rows]


def named(id: str) -> Accelerator:
    return next(one for one in ACCELERATORS if one.id == id)


def test_the_accelerators_that_people_ask_for_are_there() -> None:
    assert {"nnapi", "qnn", "litert-gpu", "neural-engine", "xnnpack-litert", "xnnpack-executorch"} == set(IDS)


def test_every_row_has_a_source_and_every_doubt_a_reason() -> None:
    for one, rows in EVERY_ROW:
        assert re.fullmatch(r"https://[\w./-]+", rows.url), (one.id, rows)
        assert rows.note or rows.doubt is None, (one.id, rows)
        assert rows.operators, (one.id, rows)


def test_rows_speak_of_words_of_the_vocabulary_only() -> None:
    assert {word for _, rows in EVERY_ROW for word in rows.operators} <= set(OPERATORS)
    assert {part for word in OPERATORS.values() for part in word.parts} <= set(OPERATORS)


@pytest.mark.parametrize("accelerator", ACCELERATORS, ids=IDS)
def test_no_two_plain_rows_speak_of_one_word(accelerator: Accelerator) -> None:
    words = [word for rows in accelerator.rows if not rows.is_conditional for word in rows.operators]
    assert len(words) == len(set(words))


@pytest.mark.parametrize("names", NAMES)
def test_a_name_of_a_source_means_one_word_or_nothing(names: SourceNames) -> None:
    every = [name for word in OPERATORS.values() for name in getattr(word, names)]
    assert len(every) == len(set(every)) == len(WORD_OF[names])
    assert set(every) & NOT_COMPUTED[names] == set()
    assert set(WORD_OF[names].values()) <= set(OPERATORS)


def test_names_exist_in_onnx() -> None:
    import onnx

    known = {schema.name for schema in onnx.defs.get_all_schemas_with_history()}
    assert set(WORD_OF["onnx"]) - known <= {"Attention", "RMSNormalization", "Swish"}


@given(
    st.sampled_from(ACCELERATORS),
    st.sampled_from(sorted(OPERATORS)),
    st.one_of(st.none(), st.integers(0, 8)),
    st.frozensets(st.sampled_from(get_args(Trait))),
)
def test_every_use_of_every_word_can_be_judged(
    accelerator: Accelerator, word: str, rank: int | None, traits: frozenset[str]
) -> None:
    said = predict(accelerator, word, rank, traits)
    assert said is None or (said.url.startswith("https://") and (said.note or said.doubt is None))


def test_a_condition_goes_before_what_is_said_plainly() -> None:
    plain = Rows(frozenset({"slice"}), None, "https://a")
    strided = Rows(frozenset({"slice"}), "refused", "https://b", "why", "strided")
    deep = Rows(frozenset({"slice"}), "refused", "https://c", "deep", None, 5)
    one = Accelerator("a", "A", "", (plain, strided, deep))
    judged = [
        predict(one, "slice", rank, traits)
        for rank, traits in product((4, 5), (frozenset(), frozenset({"strided"})))
    ]
    assert [said.url for said in judged if said] == ["https://a", "https://b", "https://c", "https://b"]
    assert predict(one, "slice") is not None
    assert predict(one, "conv2d") is None


def test_what_has_no_row_is_judged_by_its_parts() -> None:
    one = Accelerator("a", "A", "", (Rows(frozenset({"sigmoid"}), None, "https://a"),))
    assert predict(one, "silu") is None  # of mul nothing is known
    both = Accelerator("a", "A", "", (*one.rows, Rows(frozenset({"mul"}), None, "https://a")))
    said = predict(both, "silu")
    assert said is not None
    assert said.doubt is None
    lacking = Accelerator("a", "A", "", (*one.rows, Rows(frozenset({"mul"}), "absent", "https://a", "None.")))
    said = predict(lacking, "silu")
    assert said is not None
    assert said.doubt == "absent"
    assert "mul" in said.note


def test_known_facts_about_accelerators() -> None:
    lacks = {
        "nnapi": "matmul",
        "litert-gpu": "argmax",
        "neural-engine": "lstm",
        "xnnpack-executorch": "layer_norm",
    }
    for accelerator, word in lacks.items():
        said = predict(named(accelerator), word)
        assert said is not None, (accelerator, word)
        assert said.doubt == "absent", (accelerator, word)
    for one in ACCELERATORS:
        for word in ("conv2d", "depthwise_conv2d", "linear", "relu", "add", "global_avg_pool", "batch_norm"):
            said = predict(one, word)
            assert said is not None, (one.id, word)
            assert said.doubt is None, (one.id, word)


TARGETS = {
    "_native_batch_norm_legit_no_training": "batch_norm",
    "_softmax": "softmax",
    "addmm": "linear",
    "bmm": "matmul",
    "cat": "concat",
    "clamp": "clip",
    "constant_pad_nd": "pad",
    "convolution": "conv2d",
    "hardswish": "hard_swish",
    "hardtanh": "relu6",
    "mean": "reduce_mean",
    "mm": "matmul",
    "permute_copy": "transpose",
    "slice_copy": "slice",
    "unsqueeze_copy": "unsqueeze",
    "upsample_bilinear2d": "resize_bilinear",
    "view_copy": "reshape",
    "elu": "elu",
}
"""Words for targets of XNNPACK's partitioner that are not called so themselves."""
NO_WORDS = frozenset({"clone", "_clone_dim_order", "_to_dim_order_copy", "max"})
"""Targets that compute nothing, and `max`, which is taken in one form only."""


def partitioner_targets() -> set[str]:
    """What ExecuTorch's partitioner for XNNPACK takes, out of its source: importing it needs torch."""
    spec = importlib.util.find_spec("executorch")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    folder = Path(next(iter(spec.submodule_search_locations)), "backends", "xnnpack", "partition", "config")
    text = (folder / "__init__.py").read_text(encoding="utf-8")
    configured = re.search(r"ALL_PARTITIONER_CONFIGS.*?\[$(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    assert configured is not None
    classes = re.findall(r"^ {4}(\w+),", configured[1], re.MULTILINE)
    sources = "\n".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    targets = dict(
        re.findall(r'^class (\w+)\(.*?\):.*?target_name = "([\w.]+)"', sources, re.DOTALL | re.MULTILINE)
    )
    return {targets[one].split(".")[0] for one in classes if one in targets}


@pytest.mark.skipif(importlib.util.find_spec("executorch") is None, reason="ExecuTorch is not installed")
def test_the_table_for_executorch_is_what_its_partitioner_takes() -> None:
    targets = partitioner_targets() - NO_WORDS
    assert len(targets) > 35
    quantizing = {one for one in targets if "quant" in one or "qparams" in one}
    taken = {TARGETS.get(one) or WORD_OF["aten"][one] for one in targets - quantizing}
    table = named("xnnpack-executorch")
    plain = {word for word, said in listed(table).items() if said.doubt is None}
    assert taken - plain == set(), "taken, and the table does not say so"
    made = {
        "conv1d",
        "depthwise_conv2d",
        "conv_transpose2d",
        "depth_to_space",
        "space_to_depth",
        "global_avg_pool",
    }
    own = {word for rows in table.rows if rows.doubt is None for word in rows.operators}
    assert own - taken - {"quantize", "dequantize"} == made, "the table says so, and nothing takes it"
