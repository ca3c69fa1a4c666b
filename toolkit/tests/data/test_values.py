"""Tables are exact: equal to the direct computation bit for bit, and to ONNX Runtime's QuantizeLinear."""

import math
from fractions import Fraction

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from phoneproof.data.preprocessing import Layout, Mode, Preprocess
from phoneproof.data.values import apply, as_input, input_array, layout_of, quantize, value_table
from phoneproof.errors import DataError
from phoneproof.protocol.tensors import TensorSpec
from tests.data.builders import as_is, noise, preprocesses, tensor

SCALE = 1 / 255
IMAGENET = as_is(scale=SCALE, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
QUANTIZED = tensor((1, 3, 4, 4), "int8", scale=0.018658, zero_point=-14)


def direct(preprocess: Preprocess, level: int, channel: int) -> float:
    """The value map in Python's own floats: IEEE 754 binary64, one operation at a time."""
    return (level * preprocess.scale - preprocess.mean[channel]) / preprocess.std[channel]


@given(preprocesses(), st.sampled_from(["float32", "float16", "float64"]))
def test_float_table_is_the_value_map_rounded_once(preprocess: Preprocess, dtype: str) -> None:
    if not preprocess.dtype.startswith("float"):
        return
    expected = [[direct(preprocess, x, c) for x in range(256)] for c in range(preprocess.channels)]
    limit = float(np.finfo(dtype).max)
    if max(abs(y) for row in expected for y in row) >= limit:
        return
    table = value_table(preprocess, tensor((1, 3, 4, 4), dtype))
    assert table.dtype == dtype
    assert table.tobytes() == np.array(expected, np.float64).astype(dtype).tobytes()


@given(
    preprocesses(),
    st.sampled_from(["int8", "uint8", "int16", "uint16"]),
    st.floats(2**-13, 10, width=32),
    st.data(),
)
def test_quantized_table_is_rounded_half_to_even_and_saturated(
    preprocess: Preprocess, dtype: str, scale: float, data: st.DataObject
) -> None:
    if not preprocess.dtype.startswith("float"):
        return
    limits = np.iinfo(dtype)
    zero_point = data.draw(st.integers(int(limits.min), int(limits.max)))
    table = value_table(preprocess, tensor((1, 3, 4, 4), dtype, scale=scale, zero_point=zero_point))
    assert table.dtype == dtype
    for channel in range(preprocess.channels):
        for level in (0, 1, 127, 128, 254, 255):
            y = np.float32(direct(preprocess, level, channel))
            steps = Fraction(float(np.float32(y / np.float32(scale)))) if math.isfinite(y) else 0
            expected = min(max(round(steps) + zero_point, int(limits.min)), int(limits.max))
            assert int(table[channel, level]) == expected


def onnx_quantize(values: np.ndarray, scale: float, zero_point: int, dtype: str) -> np.ndarray:
    kinds = {
        "int8": TensorProto.INT8,
        "uint8": TensorProto.UINT8,
        "int16": TensorProto.INT16,
        "uint16": TensorProto.UINT16,
    }
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"])
    graph = helper.make_graph(
        [node],
        "quantize",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None])],
        [helper.make_tensor_value_info("q", kinds[dtype], [None])],
        [
            helper.make_tensor("s", TensorProto.FLOAT, [], [scale]),
            helper.make_tensor("z", kinds[dtype], [], [zero_point]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(onnx.ModelProto.SerializeToString(model))
    return np.asarray(session.run(None, {"x": values})[0])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("scale", [0.018658, 0.5, 1 / 255, 2.0, 0.007843137718737125])
def test_quantize_equals_onnx_runtime(dtype: str, scale: float) -> None:
    limits = np.iinfo(dtype)
    zero_point = int(limits.min) // 3 + int(limits.max) // 2
    generator = np.random.default_rng(3)
    values = np.concatenate(
        [
            generator.normal(0, 60 * scale, 4000).astype(np.float32),
            (np.arange(-300, 300) + 0.5).astype(np.float32) * np.float32(scale),  # ties
            np.array([0.0, -0.0, 1e30, -1e30, np.inf, -np.inf], np.float32),
        ]
    )
    spec = tensor((1, 1), dtype, scale=scale, zero_point=zero_point)
    assert np.array_equal(quantize(values, spec), onnx_quantize(values, scale, zero_point, dtype))


def test_integer_table_rounds_half_to_even_and_saturates() -> None:
    half = Preprocess(Mode.L, Layout.NCHW, dtype="uint8", scale=0.5)
    assert value_table(half, tensor((1, 1, 2, 2), "uint8"))[0, :6].tolist() == [0, 0, 1, 2, 2, 2]
    shifted = Preprocess(Mode.L, Layout.NCHW, dtype="int8", mean=(128,))
    assert value_table(shifted, tensor((1, 1, 2, 2), "int8"))[0].tolist() == list(range(-128, 128))
    large = Preprocess(Mode.L, Layout.NCHW, dtype="uint8", scale=2)
    assert value_table(large, tensor((1, 1, 2, 2), "uint8"))[0, 255] == 255


class TestRawCasts:
    """Feeding float values to an int8 input by a cast gives a build that answers, and is wrong."""

    def test_a_raw_cast_is_not_the_table(self) -> None:
        image = noise(4, 4)[np.newaxis]
        right = as_input(image, QUANTIZED, value_table(IMAGENET, QUANTIZED), Layout.NCHW)
        floats = as_input(
            image, tensor((1, 3, 4, 4)), value_table(IMAGENET, tensor((1, 3, 4, 4))), Layout.NCHW
        )
        cast = floats.astype(np.int8)
        assert np.mean(right == cast) < 0.1
        assert QUANTIZED.scale is not None
        assert QUANTIZED.zero_point is not None
        restored = (right.astype(np.float64) - QUANTIZED.zero_point) * QUANTIZED.scale
        assert np.abs(restored - floats).max() <= QUANTIZED.scale / 2 + 1e-6
        assert np.abs(cast - floats).max() > 0.9

    @pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "bool"])
    def test_integer_input_without_parameters_takes_no_float_table(self, dtype: str) -> None:
        with pytest.raises(DataError, match="cannot take float32") as caught:
            value_table(IMAGENET, tensor((1, 3, 4, 4), dtype))
        assert "zero_point" in (caught.value.next_step or "")

    @pytest.mark.parametrize("dtype", ["int8", "uint8"])
    def test_stored_floats_reach_no_integer_input_without_parameters(self, dtype: str) -> None:
        with pytest.raises(DataError, match="raw cast"):
            as_input(np.ones((1, 3), np.float32), tensor((1, 3), dtype))
        with pytest.raises(DataError):
            input_array(np.ones(3, np.float32), tensor((1, 3), dtype))

    def test_stored_floats_are_quantized_for_a_quantized_input(self) -> None:
        values = np.array([[-1.0, 0.0, 1.0]], np.float32)
        spec = tensor((1, 3), "int8", scale=0.5, zero_point=3)
        assert as_input(values, spec).tolist() == [[1, 3, 5]]

    def test_unscaled_pixels_reach_no_float_input(self) -> None:
        with pytest.raises(DataError, match="uint8"):
            as_input(np.ones((1, 3), np.uint8), tensor((1, 3)))
        with pytest.raises(DataError, match="uint8") as caught:
            input_array(np.ones(3, np.uint8), tensor((1, 3)))
        assert "preprocess" in (caught.value.next_step or "")

    def test_integer_preprocess_reaches_no_quantized_or_float_input(self) -> None:
        integers = as_is(dtype="uint8")
        for spec in (QUANTIZED, tensor((1, 3, 4, 4))):
            with pytest.raises(DataError):
                value_table(integers, spec)


@pytest.mark.parametrize(
    ("scale", "zero_point", "dtype"),
    [
        (0.0, 0, "int8"),
        (-1.0, 0, "int8"),
        (float("nan"), 0, "int8"),
        (1e-60, 0, "int8"),
        (1.0, 128, "int8"),
        (1.0, -1, "uint8"),
        (1.0, 0, "float32"),
        (1.0, None, "int8"),
        (None, 0, "int8"),
    ],
)
def test_parameters_that_cannot_be_meant(scale: float | None, zero_point: int | None, dtype: str) -> None:
    with pytest.raises(DataError):
        value_table(IMAGENET, TensorSpec("image", dtype, (1, 3, 4, 4), scale, zero_point))


def test_values_that_the_dtype_cannot_hold_are_refused() -> None:
    with pytest.raises(DataError, match="float16"):
        value_table(as_is(scale=1000), tensor((1, 3, 4, 4), "float16"))


def test_nan_is_not_quantized() -> None:
    with pytest.raises(DataError, match="NaN"):
        quantize(np.array([np.nan], np.float32), QUANTIZED)


@given(preprocesses(), st.integers(1, 3), st.integers(1, 6), st.integers(1, 6), st.sampled_from(Layout))
def test_apply_is_the_table_at_each_pixel(p: Preprocess, n: int, h: int, w: int, layout: Layout) -> None:
    table = value_table(p, TensorSpec("image", p.dtype, ()))
    image = np.stack([noise(h, w, p.channels, seed) for seed in range(n)])
    found = apply(image, table, layout)
    expected = np.empty(image.shape, table.dtype)
    for index in np.ndindex(*image.shape):
        expected[index] = table[index[-1], image[index]]
    if layout is Layout.NCHW:
        expected = expected.transpose(0, 3, 1, 2)
    assert found.dtype == table.dtype
    assert found.tobytes() == expected.tobytes()


def test_wrong_shapes_are_refused() -> None:
    table = value_table(IMAGENET, tensor((1, 3, 4, 4)))
    image = noise(4, 4)[np.newaxis]
    with pytest.raises(DataError, match="shape"):
        as_input(image, tensor((1, 3, 5, 4)), table, Layout.NCHW)
    with pytest.raises(DataError, match="shape"):
        as_input(image, tensor((1, 3, 4, 4)), table, Layout.NHWC)
    with pytest.raises(DataError, match="table"):
        as_input(image[..., :1], tensor((1, 1, 4, 4)), table, Layout.NCHW)
    with pytest.raises(DataError):
        as_input(image, QUANTIZED, table, Layout.NCHW)


class TestGivenArrays:
    def test_a_batch_of_one_is_taken_off(self) -> None:
        assert input_array(np.ones((1, 3), np.float32), tensor((1, 3))).shape == (3,)

    def test_float64_is_rounded_once(self) -> None:
        found = input_array(np.full(3, 0.1), tensor((1, 3)))
        assert found.dtype == np.float32
        assert (found == np.float32(0.1)).all()

    def test_big_endian_becomes_little_endian(self) -> None:
        values = np.array([1.5, 2.5, 3.5], ">f4")
        assert input_array(values, tensor((1, 3))).tobytes() == values.astype("<f4").tobytes()

    @pytest.mark.parametrize("shape", [(4,), (3, 1), (2, 3), (1, 1, 3), ()])
    def test_other_shapes_are_refused(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(DataError, match="shape"):
            input_array(np.ones(shape, np.float32), tensor((1, 3)))


@pytest.mark.parametrize(
    ("shape", "declared", "expected"),
    [
        ((1, 3, 4, 5), Layout.NCHW, Layout.NCHW),
        ((1, 4, 5, 3), Layout.NCHW, Layout.NHWC),
        ((1, 3, 4, 5), Layout.NHWC, Layout.NCHW),
        ((1, 3, 8, 3), Layout.NHWC, Layout.NHWC),  # both fit: the declared one
        ((1, 3, 8, 3), Layout.NCHW, Layout.NCHW),
    ],
)
def test_an_input_is_laid_out_as_declared_where_that_fits(
    shape: tuple[int, ...], declared: Layout, expected: Layout
) -> None:
    assert layout_of(tensor(shape, "float32"), Preprocess(Mode.RGB, declared)) is expected


@pytest.mark.parametrize("shape", [(1, 1, 4, 5), (1, 3, 4), (1, 4, 3, 5), (3,)])
def test_an_input_that_holds_no_such_images_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="do not fit the input"):
        layout_of(tensor(shape, "float32"), Preprocess(Mode.RGB, Layout.NCHW))
