"""QNNPACK builds of PyTorch modules: made in one process for all tests, run in its runtime here."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from phoneproof.errors import RuntimeUnavailableError, ToolchainError
from phoneproof.protocol.codec import to_dict
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import Progress
from phoneproof.runtimes import torch_qnnpack
from phoneproof.runtimes.runtime import LoadRequest, Session
from phoneproof.toolchains import fx_quantizer
from phoneproof.toolchains import torch_qnnpack as toolchain
from tests.toolchains.orders import Done, Order, carried_out
from tests.toolchains.sample_sets import stored_set

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

CODE = Path(__file__).parents[1] / "models" / "user_code"
IMAGE = TensorSpec("image", "float32", (1, 3, 16, 16))
OUTPUT = TensorSpec("output", "float32", (1, 5))
SMALL = TensorSpec("image", "float32", (1, 3, 8, 8))
IDS = TensorSpec("ids", "int64", (1, 6))
TWO = (TensorSpec("logits", "float32", (1, 5)), TensorSpec("total", "float32", ()))
IMAGES = np.random.default_rng(0).standard_normal((24, 1, 3, 16, 16)).astype(np.float32)
METADATA = {"phoneproof.labels": "cat\ndog"}

OPTIONS: Mapping[str, dict[str, Any]] = {
    "minmax": {},
    "again": {},
    "entropy": {"method": "entropy"},
    "percentile": {"method": "percentile", "percentile": 99.0},
    "per-tensor": {"per_channel": False},
    "keep-module": {"keep_float_names": ["wide"]},
    "keep-fused": {"keep_float_names": ["features.1"]},
    "keep-block": {"keep_float_names": ["block"]},
    "keep-node": {"keep_float_names": ["mul"]},
    "keep-class": {"keep_float_types": ["Conv2d"]},
    "keep-aten": {"keep_float_types": ["linear"]},
    "keep-all-but": {"keep_float": True, "quantize_names": ["fc"]},
    "keep-all": {"keep_float": True},
    "unknown-name": {"keep_float_names": ["features.7"]},
    "unknown-type": {"keep_float_types": ["Conv3d"]},
}


def order(
    name: str, function: str, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...],
    samples: Mapping[str, str] | None = None, sha256: str | None = None, **options: Any,
) -> Order:  # fmt: skip
    source = {
        "format": "pytorch",
        "path": f"small_networks:{function}",
        "folder": str(CODE),
        "sha256": sha256,
    }
    request: dict[str, Any] = {
        "recipe": "torch-float32" if samples is None else "torch-qnnpack-int8",
        "source": {**source, "inputs": [to_dict(one) for one in inputs]},
        "source_sha256": "5" * 64,
        "out": "out",
        "source_inputs": [to_dict(one) for one in inputs],
        "source_outputs": [to_dict(one) for one in outputs],
        "options": options,
        "metadata": METADATA,
    }
    if samples is not None:
        request |= {"samples": {"path": samples["path"]}, "calibration_sha256": samples["digest"]}
    return Order(name, "phoneproof.toolchains.torch_qnnpack", request)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    root = tmp_path_factory.mktemp("qnnpack")
    one, two = (IMAGE,), (SMALL, IDS)
    images = stored_set(root / "images", one, {"image": IMAGES})
    tokens = np.zeros((8, 1, 6), np.int64)
    mixed = stored_set(root / "mixed", two, {"image": IMAGES[:8, :, :, :8, :8], "ids": tokens})
    bad = IMAGES.copy()
    bad[3, 0, 0, 0, 0] = np.nan
    broken = stored_set(root / "broken", one, {"image": bad})
    orders = [
        order("float", "convolutions", one, (OUTPUT,)),
        *(order(name, "convolutions", one, (OUTPUT,), images, **more) for name, more in OPTIONS.items()),
        order("two-float", "classifier", two, TWO),
        order("two", "classifier", two, TWO, mixed),
        order("clamps-float", "inverted_residuals", one, (OUTPUT,)),
        order("clamps", "inverted_residuals", one, (OUTPUT,), images),
        order("not-finite", "convolutions", one, (OUTPUT,), broken),
        order("changed", "convolutions", one, (OUTPUT,), sha256="0" * 64),
        order("branch", "branch", (SMALL,), (SMALL,), mixed),
    ]
    return carried_out(orders, root / "orders")


def session(done: Done) -> Session:
    assert done.error is None, done.error
    return torch_qnnpack.load(LoadRequest(done.folder / "out" / "model.ts", "cpu", False, 1, {}))


def outputs(done: Done) -> NDArray[Any]:
    opened = session(done)
    return np.array([opened.prepare({"image": one})()[0] for one in IMAGES])


def sqnr_db(made: Mapping[str, Done], name: str, baseline: str = "float") -> float:
    reference = outputs(made[baseline]).astype(np.float64)
    noise = np.square(reference - outputs(made[name])).sum()
    return float(10 * np.log10(np.square(reference).sum() / noise))


@pytest.mark.parametrize("name", ["minmax", "entropy", "per-tensor"])
def test_int8_builds_are_close_to_the_float_build(made: Mapping[str, Done], name: str) -> None:
    assert sqnr_db(made, name) > 30
    manifest = made[name].manifest
    assert manifest.operators["int8"] >= 9
    assert {one.reason for one in manifest.float_operators} == {"data_movement"}
    assert (manifest.inputs, manifest.outputs) == ((IMAGE,), (OUTPUT,))
    assert manifest.wide_tensors == ()


def test_clamps_of_every_form_are_right(made: Mapping[str, Done]) -> None:
    """torch's own conversion leaves 8 dB: its clamp for QNNPACK puts each value into another place."""
    assert sqnr_db(made, "clamps", "clamps-float") > 30
    script: Any = torch.jit.load(str(made["clamps"].folder / "out" / "model.ts"))  # type: ignore[no-untyped-call]
    kinds = [node.kind() for node in script.inlined_graph.nodes()]
    # Convolutions and additions saturate where a ReLU6 would clamp; the head has two readers, and two clamps.
    assert [kind for kind in kinds if kind in {"aten::relu6", "aten::hardtanh", "aten::clamp"}] == [
        "aten::hardtanh",
        "aten::clamp",
    ]


@pytest.mark.filterwarnings("ignore")  # of the tracer
def test_a_kernel_that_is_wrong_is_refused(
    made: Mapping[str, Done], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As torch makes them, clamps would come out here."""
    orders = json.loads((made["clamps"].folder.parent / "orders.json").read_text())
    request = next(one["request"] for one in orders if one["name"] == "clamps")
    monkeypatch.setattr(fx_quantizer, "mend_clamps", lambda *_: None)
    with pytest.raises(ToolchainError, match=r"'output' is wrong: .* where rounding leaves"):
        toolchain.build(request, tmp_path, Progress(tmp_path))


def test_each_method_has_ranges_of_its_own(made: Mapping[str, Done]) -> None:
    digests = {name: made[name].manifest.sha256 for name in ("minmax", "entropy", "percentile", "per-tensor")}
    assert len(set(digests.values())) == 4
    assert sqnr_db(made, "percentile") < sqnr_db(made, "minmax") - 3  # one value in a hundred is clipped


def test_activations_use_all_256_levels(made: Mapping[str, Done]) -> None:
    """QNNPACK adds in 32 bits: the reduced range that fbgemm needs would halve the resolution."""
    session(made["minmax"])  # chooses the engine
    path = made["minmax"].folder / "out" / "model.ts"
    script: Any = torch.jit.load(str(path))  # type: ignore[no-untyped-call]
    scales = [value for name, value in script.named_buffers() if name.endswith("input_scale_0")]
    assert len(scales) == 1
    assert float(scales[0]) == pytest.approx((IMAGES.max() - IMAGES.min()) / 255, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("keep-module", {"wide"}),
        ("keep-fused", {"features.0"}),
        ("keep-block", {"block.0"}),
        ("keep-node", {"mul"}),
        ("keep-class", {"features.0", "block.0", "wide"}),
        ("keep-aten", {"fc"}),
    ],
)
def test_what_the_plan_keeps_in_float(made: Mapping[str, Done], name: str, kept: set[str]) -> None:
    reasons = made[name].float_operators
    assert {one for one, reason in reasons.items() if reason == "kept_by_plan"} == kept
    assert made[name].manifest.operators["int8"] == made["minmax"].manifest.operators["int8"] - len(kept)


def test_all_but_one_in_float(made: Mapping[str, Done]) -> None:
    assert made["keep-all-but"].manifest.operators["int8"] == 1
    assert sqnr_db(made, "keep-all-but") > sqnr_db(made, "minmax")
    assert [one.name for one in made["keep-all-but"].manifest.wide_tensors] == [
        "features.0.0.weight",
        "wide.weight",
    ]
    assert "left every operator in float" in str(made["keep-all"].error)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("unknown-name", "RecipeError: keep_float_names: The source model has no operator 'features.7'"),
        ("unknown-type", "RecipeError: keep_float_types: The source model has no operator type 'Conv3d'"),
        ("not-finite", "DataError: calibration: Tensor 'x' is not finite for calibration sample 3"),
        ("changed", "SourceModelError: small_networks:convolutions: The source model has changed"),
        ("branch", "ToolchainError: small_networks:branch: torch.fx cannot trace the module"),
    ],
)
def test_requests_that_cannot_be_met(made: Mapping[str, Done], name: str, said: str) -> None:
    assert str(made[name].error).startswith(said)


def test_float_builds_and_several_inputs_and_outputs(made: Mapping[str, Done]) -> None:
    given = {"image": IMAGES[0][:, :, :8, :8], "ids": np.full((1, 6), 3)}
    float_outputs = session(made["two-float"]).prepare(given)()
    int8_outputs = session(made["two"]).prepare(given)()
    assert [one.shape for one in int8_outputs] == [(1, 5), ()]
    for one, other in zip(float_outputs, int8_outputs, strict=True):
        np.testing.assert_allclose(one, other, rtol=0.1, atol=0.1)
    assert made["two"].float_operators == {"tokens": "unsupported_by_recipe", "sum_1": "not_quantizable"}


def test_metadata_can_be_read_again_and_no_path_is_told(made: Mapping[str, Done]) -> None:
    path = made["minmax"].folder / "out" / "model.ts"
    records: dict[str, Any] = dict.fromkeys(METADATA, "")
    torch.jit.load(str(path), _extra_files=records)  # type: ignore[no-untyped-call]
    assert {
        key: value if isinstance(value, str) else value.decode() for key, value in records.items()
    } == METADATA
    assert str(CODE).encode() not in path.read_bytes()


def test_the_runtime_refuses_what_it_cannot_run(made: Mapping[str, Done], tmp_path: Path) -> None:
    path = made["float"].folder / "out" / "model.ts"
    cut = tmp_path / "cut.ts"
    cut.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(RuntimeUnavailableError, match="damaged"):
        torch_qnnpack.load(LoadRequest(cut, "cpu", False, 1, {}))
    with pytest.raises(RuntimeUnavailableError, match="CPU"):
        torch_qnnpack.load(LoadRequest(path, "gpu", False, 1, {}))
    with pytest.raises(ValueError, match="no options"):
        torch_qnnpack.load(LoadRequest(path, "cpu", False, 1, {"fast": "1"}))
    opened = session(made["float"])
    for wrong in ({}, {"image": IMAGES[0].astype(np.float64)}, {"image": IMAGES[0][:, :, :4]}):
        with pytest.raises(ValueError, match="the build has"):
            opened.prepare(wrong)
    opened.close()
    opened.close()
    with pytest.raises(ValueError, match="closed"):
        opened.prepare({"image": IMAGES[0]})


def test_the_engine_and_the_threads_are_those_asked_for(made: Mapping[str, Done]) -> None:
    torch.backends.quantized.engine = "fbgemm"
    path = made["minmax"].folder / "out" / "model.ts"
    opened = torch_qnnpack.load(LoadRequest(path, "cpu", False, 2, {}))
    assert (torch.backends.quantized.engine, torch.get_num_threads()) == ("qnnpack", 2)
    torch.backends.quantized.engine = "fbgemm"
    opened.prepare({"image": IMAGES[0]})
    assert torch.backends.quantized.engine == "qnnpack"
    assert opened.operators is not None
    assert opened.accelerator_actual == "cpu"


@pytest.mark.slow
def test_every_process_makes_the_same_bytes(made: Mapping[str, Done], tmp_path: Path) -> None:
    request = json.loads((made["minmax"].folder.parent / "orders.json").read_text())
    first = next(one for one in request if one["name"] == "minmax")
    again = carried_out([Order("again", first["module"], first["request"])], tmp_path)
    once_more = carried_out([Order("again", first["module"], first["request"])], tmp_path / "other")
    assert again["again"].manifest.sha256 == once_more["again"].manifest.sha256
