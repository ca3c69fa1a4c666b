"""The runtime behind the seam: what it takes, what it gives, what it refuses."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phoneproof.errors import RuntimeUnavailableError, StorageError, UnsupportedOperatorError
from phoneproof.recipes.runtime_table import RUNTIMES
from phoneproof.runtimes import mil_interpreter
from phoneproof.runtimes.mil.vendor import COREMLTOOLS_VERSION
from phoneproof.runtimes.runtime import LoadRequest
from tests.runtimes.mil.building import Array, ct, load, mb, normal, save_program, specification, types

INPUTS = {"x": normal(2, 3), "places": np.array([2, 0], np.int32)}
WEIGHT = normal(64, 3)
MODEL = Path("Data/com.apple.CoreML/model.mlmodel")
WEIGHTS = Path("Data/com.apple.CoreML/weights/weight.bin")


def _two_outputs(v: Mapping[str, Any]) -> dict[str, Any]:
    picked = mb.gather(x=v["x"], indices=v["places"], axis=1)
    return {"picked": picked, "projected": mb.linear(x=v["x"], weight=WEIGHT), "largest": _largest(v["x"])}


def _largest(x: Any) -> Any:
    return mb.reduce_argmax(x=x, axis=1, keep_dims=False)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_program(tmp_path_factory.mktemp("whole") / "model.mlpackage", INPUTS, _two_outputs)


@pytest.fixture
def package(whole: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(whole, tmp_path / "model.mlpackage"))


def _change(package: Path, change: Any) -> None:
    """Let `change` edit the specification of the package."""
    spec = specification(package)
    change(spec)
    (package / MODEL).write_bytes(spec.SerializeToString())


def test_inputs_and_outputs_of_several_types(whole: Path) -> None:
    session = load(whole)
    picked, projected, largest = session.prepare(INPUTS)()
    np.testing.assert_array_equal(picked, INPUTS["x"][:, [2, 0]])
    np.testing.assert_allclose(projected, INPUTS["x"] @ WEIGHT.T, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(largest, INPUTS["x"].argmax(1))
    assert [str(a.dtype) for a in (picked, projected, largest)] == ["float32", "float32", "int32"]


def test_outputs_stand_in_the_order_of_the_specification(package: Path) -> None:
    def turn(spec: Any) -> None:
        features = [type(f).FromString(f.SerializeToString()) for f in spec.description.output]
        del spec.description.output[:]
        spec.description.output.extend(reversed(features))

    _change(package, turn)
    assert [a.shape for a in load(package).prepare(INPUTS)()] == [(2,), (2, 64), (2, 2)]


def test_what_the_session_reports(whole: Path) -> None:
    session = load(whole)
    assert session.accelerator_actual == "cpu"
    assert session.operators == {"cpu": 3}
    runtime = mil_interpreter.runtime()
    assert (runtime.name, runtime.version) == ("mil_interpreter", COREMLTOOLS_VERSION)
    assert RUNTIMES["mil_interpreter"].fidelity == "reference"


def test_a_result_is_the_callers_own(tmp_path: Path) -> None:
    x = normal(2, 3)
    path = save_program(tmp_path / "a.mlpackage", {"x": x}, lambda v: {"same": mb.identity(x=v["x"])})
    invoke = load(path).prepare({"x": x})
    invoke()[0][:] = 0
    np.testing.assert_array_equal(invoke()[0], x)
    assert x.any()


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"x": INPUTS["x"]}, "the build has"),
        ({**INPUTS, "more": INPUTS["x"]}, "the build has"),
        ({**INPUTS, "x": INPUTS["x"].astype(np.float64)}, "'x' is float64, the build takes float32"),
        ({**INPUTS, "places": np.array([2, 0], np.int64)}, "'places' is int64, the build takes int32"),
        ({**INPUTS, "x": normal(3, 2)}, r"'x' is \[3, 2\], the build takes \[2, 3\]"),
        ({**INPUTS, "x": normal(1, 2, 3)}, r"the build takes \[2, 3\]"),
    ],
)
def test_inputs_are_held_against_the_build(whole: Path, inputs: dict[str, Array], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        load(whole).prepare(inputs)


def test_an_operator_that_fails_is_named(whole: Path) -> None:
    invoke = load(whole).prepare({**INPUTS, "places": np.array([2, 7], np.int32)})
    with pytest.raises(ValueError, match="gather 'gather_0' failed: index 7 is out of bounds"):
        invoke()


def test_a_closed_session(whole: Path) -> None:
    session = load(whole)
    session.close()
    session.close()
    with pytest.raises(ValueError, match="closed"):
        session.prepare(INPUTS)


def test_nothing_but_the_cpu_and_no_options(whole: Path) -> None:
    with pytest.raises(RuntimeUnavailableError, match="neural_engine"):
        mil_interpreter.load(LoadRequest(whole, "neural_engine", True, 1, {}))
    with pytest.raises(ValueError, match="no option 'fast'"):
        mil_interpreter.load(LoadRequest(whole, "cpu", False, 1, {"fast": "1"}))


def test_float16_is_rounded_after_every_operator(tmp_path: Path) -> None:
    """2048 + 1 is 2048 in float16 (a tie, to even), and 2048 + 1 + 1 in two steps as well."""
    x = np.array([2048.0], np.float32)

    def build(v: Mapping[str, Any]) -> dict[str, Any]:
        half = mb.cast(x=v["x"], dtype="fp16")
        once = mb.add(x=mb.add(x=half, y=np.float16(1)), y=np.float16(1))
        return {"sum": mb.cast(x=once, dtype="fp32"), "far": mb.mul(x=half, y=np.float16(64))}

    path = save_program(tmp_path / "half.mlpackage", {"x": x}, build, 16)
    total, far = load(path).prepare({"x": x})()
    assert total.tolist() == [2048.0]
    assert far.dtype == np.float16
    assert np.isinf(far).all()


def test_float16_inputs(tmp_path: Path) -> None:
    x = np.array([0.1, 1e-7, 60000], np.float16)
    path = save_program(tmp_path / "a.mlpackage", {"x": x}, lambda v: {"y": mb.square(x=v["x"])}, 16)
    (y,) = load(path).prepare({"x": x})()
    assert y.dtype == np.float16
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y, np.square(x.astype(np.float32)).astype(np.float16))


def test_operators_that_are_not_known_are_all_named(tmp_path: Path) -> None:
    def build(v: Mapping[str, Any]) -> dict[str, Any]:
        noise = mb.random_normal(shape=[2, 3], name="noise")
        clipped = mb.lstm(
            x=mb.expand_dims(x=v["x"], axes=[0]),
            initial_h=np.zeros((2, 1), np.float32),
            initial_c=np.zeros((2, 1), np.float32),
            weight_ih=normal(4, 3),
            weight_hh=normal(4, 1),
            clip=np.float32(2),
            name="memory",
        )[1]
        return {"noisy": mb.add(x=v["x"], y=noise), "state": clipped}

    path = save_program(tmp_path / "a.mlpackage", {"x": INPUTS["x"]}, build)
    with pytest.raises(UnsupportedOperatorError) as raised:
        load(path)
    assert raised.value.facts["operators"] == ("random_normal (noise)", "lstm.clip (memory)")
    assert "random_normal (noise)" in str(raised.value)


def test_lists_are_operators_that_are_not_known(tmp_path: Path) -> None:
    def build(v: Mapping[str, Any]) -> dict[str, Any]:
        kept = mb.list_write(ls=mb.make_list(init_length=2, elem_shape=(2, 3)), index=0, value=v["x"])
        return {"read": mb.list_read(ls=kept, index=0)}

    path = save_program(tmp_path / "a.mlpackage", {"x": INPUTS["x"]}, build)
    with pytest.raises(UnsupportedOperatorError, match="make_list"):
        load(path)


def test_no_manifest(package: Path) -> None:
    (package / "Manifest.json").unlink()
    with pytest.raises(StorageError, match=r"Manifest\.json is missing"):
        load(package)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rootModelIdentifier": "a", "itemInfoEntries": {}}'])
def test_a_manifest_that_names_no_model(package: Path, text: str) -> None:
    (package / "Manifest.json").write_text(text)
    with pytest.raises(StorageError, match="does not name a model"):
        load(package)


def test_a_manifest_that_points_outside(package: Path) -> None:
    manifest = json.loads((package / "Manifest.json").read_text())
    manifest["itemInfoEntries"][manifest["rootModelIdentifier"]]["path"] = "../../../other.mlmodel"
    (package / "Manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StorageError, match="outside the package"):
        load(package)


def test_no_specification(package: Path) -> None:
    (package / MODEL).unlink()
    with pytest.raises(StorageError, match=r"model\.mlmodel' is missing"):
        load(package)


def test_a_cut_specification(package: Path) -> None:
    content = (package / MODEL).read_bytes()
    (package / MODEL).write_bytes(content[: len(content) // 2])
    with pytest.raises(StorageError, match="cannot be decoded"):
        load(package)


def test_no_weight_file(package: Path) -> None:
    (package / WEIGHTS).unlink()
    with pytest.raises(StorageError, match=r"weight file .* is missing"):
        load(package)


@pytest.mark.parametrize("left", [0, 40, 100, 300])
def test_a_cut_weight_file(package: Path, left: int) -> None:
    content = (package / WEIGHTS).read_bytes()
    assert len(content) > left
    (package / WEIGHTS).write_bytes(content[:left])
    with pytest.raises(StorageError, match=r"weight file .* is damaged"):
        load(package)


def _weight(spec: Any) -> Any:
    function = spec.mlProgram.functions["main"]
    for operation in function.block_specializations[function.opset].operations:
        if operation.type == "const" and operation.attributes["val"].WhichOneof("value") == "blobFileValue":
            return operation.attributes["val"]
    raise AssertionError("the program has no constant in a weight file")


def test_a_weight_file_outside(package: Path) -> None:
    def change(spec: Any) -> None:
        _weight(spec).blobFileValue.fileName = "@model_path/../../../../weight.bin"

    _change(package, change)
    with pytest.raises(StorageError, match="outside its package"):
        load(package)


def test_a_weight_of_another_size(package: Path) -> None:
    def change(spec: Any) -> None:
        _weight(spec).type.tensorType.dimensions[0].constant.size = 63

    _change(package, change)
    with pytest.raises(StorageError, match=r"192 elements .* declares"):
        load(package)


def test_another_kind_of_model(package: Path) -> None:
    _change(package, lambda spec: spec.neuralNetwork.SetInParent())
    with pytest.raises(RuntimeUnavailableError, match="neuralNetwork"):
        load(package)


def test_several_functions(package: Path) -> None:
    def change(spec: Any) -> None:
        spec.mlProgram.functions["second"].CopyFrom(spec.mlProgram.functions["main"])

    _change(package, change)
    with pytest.raises(RuntimeUnavailableError, match="2 functions") as raised:
        load(package)
    assert raised.value.facts["functions"] == ("main", "second")


def test_images_are_refused(package: Path) -> None:
    def change(spec: Any) -> None:
        spec.description.input[0].type.imageType.width = 3
        spec.description.input[0].type.imageType.height = 2

    _change(package, change)
    with pytest.raises(RuntimeUnavailableError, match="'x' is of imageType"):
        load(package)


def test_states_are_refused(package: Path) -> None:
    def change(spec: Any) -> None:
        spec.description.state.add().name = "cache"

    _change(package, change)
    with pytest.raises(RuntimeUnavailableError, match="states"):
        load(package)


def test_a_description_of_another_program(package: Path) -> None:
    def change(spec: Any) -> None:
        spec.description.output[0].name = "renamed"

    _change(package, change)
    with pytest.raises(StorageError, match="renamed"):
        load(package)


def test_a_result_of_another_shape_than_declared(package: Path) -> None:
    def change(spec: Any) -> None:
        function = spec.mlProgram.functions["main"]
        for operation in function.block_specializations[function.opset].operations:
            if operation.type == "gather":
                operation.outputs[0].type.tensorType.dimensions[1].constant.size = 5

    _change(package, change)
    with pytest.raises(ValueError, match=r"shape \[2, 2\], the program declares \[2, 5\]"):
        load(package).prepare(INPUTS)()


def test_shapes_in_a_range_and_from_a_list(package: Path) -> None:
    """Only the description is made flexible: prepare holds shapes against it."""

    def flexible(spec: Any) -> None:
        array = spec.description.input[0].type.multiArrayType
        for least, most in ((1, 4), (3, -1)):
            length = array.shapeRange.sizeRanges.add()
            length.lowerBound, length.upperBound = least, most

    _change(package, flexible)
    session = load(package)
    session.prepare({**INPUTS, "x": normal(4, 9)})
    with pytest.raises(ValueError, match=r"takes \[1\.\.4, 3\.\.\]"):
        session.prepare({**INPUTS, "x": normal(5, 3)})

    def listed(spec: Any) -> None:
        shapes = spec.description.input[0].type.multiArrayType.enumeratedShapes.shapes
        shapes.add().shape.extend([2, 3])
        shapes.add().shape.extend([4, 3])

    _change(package, listed)
    session = load(package)
    session.prepare({**INPUTS, "x": normal(4, 3)})
    with pytest.raises(ValueError, match=r"takes \[2, 3\] or \[4, 3\]"):
        session.prepare({**INPUTS, "x": normal(3, 3)})


@pytest.mark.parametrize(("dtype", "low"), [("int4", -8), ("uint6", 0), ("uint3", 0), ("uint1", 0)])
def test_packed_constants_are_those_of_coremltools(tmp_path: Path, dtype: str, low: int) -> None:
    """Both places of a constant: in the specification (few elements) and in the weight file (many)."""
    held = types.nptype_from_builtin(types.string_to_builtin(dtype))
    top = {"int4": 8, "uint6": 64, "uint3": 8, "uint1": 2}[dtype]
    values = {n: np.resize(np.arange(low, top), n).astype(np.float32) for n in (5, 1000)}

    def build(v: Mapping[str, Any]) -> dict[str, Any]:
        if dtype in ("int4", "uint4"):
            made = {
                n: mb.constexpr_blockwise_shift_scale(data=a.astype(held), scale=np.ones(1, np.float32))
                for n, a in values.items()
            }
        else:
            table = np.arange(top, dtype=np.float32).reshape(1, top, 1)
            made = {
                n: mb.constexpr_lut_to_dense(indices=a.astype(held), lut=table) for n, a in values.items()
            }
        return {f"y{n}": mb.mul(x=v["one"], y=constant) for n, constant in made.items()}

    one = {"one": np.ones(1, np.float32)}
    path = save_program(tmp_path / "a.mlpackage", one, build, 18)
    for y, expected in zip(load(path).prepare(one)(), values.values(), strict=True):
        np.testing.assert_array_equal(y, expected)


def test_coremltools_is_whole_after_the_interpreter(whole: Path) -> None:
    """The interpreter imports parts of it without the package; a later import of the package finds them."""
    assert ct.proto.Model_pb2.Model is not None
    assert specification(whole).specificationVersion >= 6
