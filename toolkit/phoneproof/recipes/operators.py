"""One vocabulary for what ONNX, PyTorch and TensorFlow call by different names.

Tables of what accelerators run are written in these words, and the inspection of a source model translates
into them. The names are of ONNX's operator types, aten operators (without `aten.`, overload and the `_` of
those that work in place), and TensorFlow's operation types.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Family = Literal[
    "convolution",
    "linear",
    "recurrent",
    "attention",
    "normalisation",
    "activation",
    "pooling",
    "elementwise",
    "comparison",
    "reduction",
    "lookup",
    "movement",
    "image",
    "control",
    "quantization",
    "other",
]
SourceNames = Literal["onnx", "aten", "tensorflow"]


@dataclass(frozen=True)
class Operator:
    """One word of the vocabulary.

    onnx, aten, tensorflow: names that mean it; where an operator's use decides (depthwise or not, which
    resize), the inspection chooses among the words. parts: operators that converters make of it where a
    runtime has none of its own; empty where it is not taken apart.
    """

    name: str
    family: Family
    onnx: tuple[str, ...]
    aten: tuple[str, ...]
    tensorflow: tuple[str, ...]
    parts: tuple[str, ...] = ()


def _word(
    name: str, family: Family, onnx: str = "", aten: str = "", tensorflow: str = "", parts: str = ""
) -> Operator:
    return Operator(
        name,
        family,
        tuple(onnx.split()),
        tuple(aten.split()),
        tuple(tensorflow.split()),
        tuple(parts.split()),
    )


_WORDS: Final = (
    _word("conv1d", "convolution", aten="conv1d", parts="reshape conv2d"),
    _word("conv2d", "convolution", "Conv", "conv2d convolution", "Conv2D"),
    _word("depthwise_conv2d", "convolution", "", "", "DepthwiseConv2dNative"),
    _word("conv3d", "convolution", "", "conv3d", "Conv3D"),
    _word(
        "conv_transpose2d",
        "convolution",
        "ConvTranspose",
        "conv_transpose2d conv_transpose1d",
        "Conv2DBackpropInput",
    ),
    _word("conv_transpose3d", "convolution", "", "conv_transpose3d", "Conv3DBackpropInputV2"),
    _word("linear", "linear", "Gemm", "linear addmm", ""),
    _word(
        "matmul",
        "linear",
        "MatMul",
        "matmul bmm mm baddbmm",
        "MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3",
    ),
    _word("einsum", "linear", "Einsum", "einsum", "Einsum", "transpose matmul"),
    _word(
        "attention", "attention", "Attention", "scaled_dot_product_attention", "", "matmul mul add softmax"
    ),
    _word("lstm", "recurrent", "LSTM", "lstm lstm_cell", "LSTM BlockLSTM BlockLSTMV2"),
    _word("gru", "recurrent", "GRU", "gru gru_cell", "GRU"),
    _word("rnn", "recurrent", "RNN", "rnn_tanh rnn_relu", "SimpleRNN"),
    _word(
        "batch_norm",
        "normalisation",
        "BatchNormalization",
        "batch_norm _native_batch_norm_legit_no_training native_batch_norm",
        "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3",
        "mul add",
    ),
    _word(
        "layer_norm",
        "normalisation",
        "LayerNormalization",
        "layer_norm native_layer_norm",
        "",
        "reduce_mean sub mul add rsqrt",
    ),
    _word("rms_norm", "normalisation", "RMSNormalization", "rms_norm", "", "reduce_mean mul add rsqrt"),
    _word(
        "group_norm",
        "normalisation",
        "GroupNormalization",
        "group_norm native_group_norm",
        "",
        "reshape reduce_mean sub mul add rsqrt",
    ),
    _word(
        "instance_norm",
        "normalisation",
        "InstanceNormalization",
        "instance_norm",
        "",
        "reduce_mean sub mul add rsqrt",
    ),
    _word(
        "l2_norm",
        "normalisation",
        "LpNormalization",
        "linalg_vector_norm norm",
        "",
        "mul reduce_sum sqrt div",
    ),
    _word("local_response_norm", "normalisation", "LRN", "", "LRN"),
    _word("softmax", "normalisation", "Softmax", "softmax _softmax _safe_softmax", "Softmax"),
    _word(
        "log_softmax", "normalisation", "LogSoftmax", "log_softmax _log_softmax", "LogSoftmax", "softmax log"
    ),
    _word("relu", "activation", "Relu", "relu", "Relu"),
    _word("relu6", "activation", "", "relu6 hardtanh", "Relu6", "clip"),
    _word("clip", "activation", "Clip", "clamp clip clamp_min clamp_max", "ClipByValue", "minimum maximum"),
    _word("leaky_relu", "activation", "LeakyRelu", "leaky_relu", "LeakyRelu"),
    _word("prelu", "activation", "PRelu", "prelu _prelu_kernel", ""),
    _word("elu", "activation", "Elu Celu", "elu celu", "Elu"),
    _word("selu", "activation", "Selu", "selu", "Selu", "elu mul"),
    _word("gelu", "activation", "Gelu", "gelu", ""),
    _word("silu", "activation", "Swish", "silu", "", "sigmoid mul"),
    _word("sigmoid", "activation", "Sigmoid", "sigmoid", "Sigmoid"),
    _word("tanh", "activation", "Tanh", "tanh", "Tanh"),
    _word("hard_sigmoid", "activation", "HardSigmoid", "hardsigmoid", "", "add clip mul"),
    _word("hard_swish", "activation", "HardSwish", "hardswish", "", "hard_sigmoid mul"),
    _word("softplus", "activation", "Softplus", "softplus", "Softplus", "exp add log"),
    _word("mish", "activation", "Mish", "mish", "", "softplus tanh mul"),
    _word("softsign", "activation", "Softsign", "", "Softsign", "abs add div"),
    _word("erf", "activation", "Erf", "erf", "Erf"),
    _word(
        "max_pool2d",
        "pooling",
        "MaxPool",
        "max_pool2d max_pool1d max_pool2d_with_indices",
        "MaxPool MaxPoolV2",
    ),
    _word("avg_pool2d", "pooling", "AveragePool", "avg_pool2d avg_pool1d adaptive_avg_pool2d", "AvgPool"),
    _word("global_avg_pool", "pooling", "GlobalAveragePool", "adaptive_avg_pool1d", "", "reduce_mean"),
    _word("global_max_pool", "pooling", "GlobalMaxPool", "adaptive_max_pool2d", "", "reduce_max"),
    _word("pool3d", "pooling", "", "max_pool3d avg_pool3d adaptive_avg_pool3d", "MaxPool3D AvgPool3D"),
    _word("add", "elementwise", "Add Sum", "add", "Add AddV2 AddN BiasAdd"),
    _word("sub", "elementwise", "Sub", "sub rsub", "Sub"),
    _word("mul", "elementwise", "Mul", "mul", "Mul"),
    _word("div", "elementwise", "Div", "div true_divide", "RealDiv Div"),
    _word("floor_div", "elementwise", "", "floor_divide", "FloorDiv", "div floor"),
    _word("mod", "elementwise", "Mod", "remainder fmod", "FloorMod Mod"),
    _word("pow", "elementwise", "Pow", "pow", "Pow"),
    _word("square", "elementwise", "", "square", "Square", "mul"),
    _word("squared_difference", "elementwise", "", "", "SquaredDifference", "sub mul"),
    _word("sqrt", "elementwise", "Sqrt", "sqrt", "Sqrt"),
    _word("rsqrt", "elementwise", "", "rsqrt", "Rsqrt", "sqrt div"),
    _word("reciprocal", "elementwise", "Reciprocal", "reciprocal", "Reciprocal", "div"),
    _word("exp", "elementwise", "Exp", "exp", "Exp"),
    _word("log", "elementwise", "Log", "log", "Log"),
    _word("abs", "elementwise", "Abs", "abs", "Abs"),
    _word("neg", "elementwise", "Neg", "neg", "Neg", "mul"),
    _word("sign", "elementwise", "Sign", "sign", "Sign"),
    _word("ceil", "elementwise", "Ceil", "ceil", "Ceil"),
    _word("floor", "elementwise", "Floor", "floor", "Floor"),
    _word("round", "elementwise", "Round", "round", "Round"),
    _word("maximum", "elementwise", "Max", "maximum", "Maximum"),
    _word("minimum", "elementwise", "Min", "minimum", "Minimum"),
    _word("sin", "elementwise", "Sin", "sin", "Sin"),
    _word("cos", "elementwise", "Cos", "cos", "Cos"),
    _word("tan", "elementwise", "Tan", "tan", "Tan", "sin cos div"),
    _word("atan", "elementwise", "Atan", "atan", "Atan"),
    _word(
        "inverse_trigonometry",
        "elementwise",
        "Asin Acos Asinh Acosh Atanh Sinh Cosh",
        "asin acos asinh acosh atanh sinh cosh",
        "Asin Acos Asinh Acosh Atanh Sinh Cosh",
    ),
    _word("equal", "comparison", "Equal", "eq", "Equal"),
    _word("not_equal", "comparison", "", "ne", "NotEqual"),
    _word("greater", "comparison", "Greater GreaterOrEqual", "gt ge", "Greater GreaterEqual"),
    _word("less", "comparison", "Less LessOrEqual", "lt le", "Less LessEqual"),
    _word("logical_and", "comparison", "And", "logical_and bitwise_and", "LogicalAnd"),
    _word("logical_or", "comparison", "Or", "logical_or bitwise_or", "LogicalOr"),
    _word("logical_not", "comparison", "Not", "logical_not bitwise_not", "LogicalNot"),
    _word("where", "comparison", "Where", "where masked_fill", "Select SelectV2"),
    _word("isnan", "comparison", "IsNaN", "isnan", "IsNan"),
    _word("reduce_mean", "reduction", "ReduceMean", "mean", "Mean"),
    _word("reduce_sum", "reduction", "ReduceSum", "sum", "Sum"),
    _word("reduce_max", "reduction", "ReduceMax", "amax", "Max"),
    _word("max_with_index", "reduction", "", "max", "", "reduce_max argmax"),
    _word("reduce_min", "reduction", "ReduceMin", "amin", "Min"),
    _word("reduce_prod", "reduction", "ReduceProd", "prod", "Prod"),
    _word("reduce_l2", "reduction", "ReduceL2", "", "EuclideanNorm", "mul reduce_sum sqrt"),
    _word("argmax", "reduction", "ArgMax", "argmax", "ArgMax"),
    _word("argmin", "reduction", "ArgMin", "argmin", "ArgMin"),
    _word("cumsum", "reduction", "CumSum", "cumsum", "Cumsum"),
    _word("topk", "reduction", "TopK", "topk", "TopKV2"),
    _word("sort", "reduction", "", "sort argsort", ""),
    _word("embedding", "lookup", "", "embedding", "", "gather"),
    _word("gather", "lookup", "Gather", "index_select", "GatherV2 Gather ResourceGather"),
    _word("gather_elements", "lookup", "GatherElements", "gather", ""),
    _word("gather_nd", "lookup", "GatherND", "index", "GatherNd"),
    _word(
        "scatter",
        "lookup",
        "ScatterND ScatterElements Scatter",
        "scatter scatter_add index_put slice_scatter select_scatter",
        "ScatterNd TensorScatterUpdate",
    ),
    _word("one_hot", "lookup", "OneHot", "one_hot", "OneHot"),
    _word("nonzero", "lookup", "NonZero", "nonzero", "Where"),
    _word(
        "reshape",
        "movement",
        "Reshape Flatten",
        "view reshape flatten unflatten view_copy _unsafe_view",
        "Reshape",
    ),
    _word(
        "transpose",
        "movement",
        "Transpose",
        "permute transpose t permute_copy transpose_copy numpy_T",
        "Transpose",
    ),
    _word("squeeze", "movement", "Squeeze", "squeeze squeeze_copy", "Squeeze", "reshape"),
    _word("unsqueeze", "movement", "Unsqueeze", "unsqueeze unsqueeze_copy", "ExpandDims", "reshape"),
    _word("concat", "movement", "Concat", "cat concat", "ConcatV2"),
    _word("stack", "movement", "", "stack", "Pack", "unsqueeze concat"),
    _word("unstack", "movement", "", "unbind unbind_copy", "Unpack", "slice squeeze"),
    _word("split", "movement", "Split", "split chunk split_with_sizes split_with_sizes_copy", "Split SplitV"),
    _word("slice", "movement", "Slice", "slice slice_copy narrow", "StridedSlice Slice"),
    _word("select", "movement", "", "select select_copy", "", "slice reshape"),
    _word("pad", "movement", "Pad", "pad constant_pad_nd", "Pad PadV2"),
    _word("reflect_pad", "movement", "", "reflection_pad1d reflection_pad2d replication_pad2d", "MirrorPad"),
    _word("tile", "movement", "Tile", "repeat tile", "Tile"),
    _word("expand", "movement", "Expand", "expand expand_copy expand_as broadcast_to", "BroadcastTo"),
    _word("flip", "movement", "", "flip", "ReverseV2"),
    _word("roll", "movement", "", "roll", "Roll", "slice concat"),
    _word("cast", "movement", "Cast", "to _to_copy type_as", "Cast"),
    _word("depth_to_space", "image", "DepthToSpace", "pixel_shuffle", "DepthToSpace"),
    _word("space_to_depth", "image", "SpaceToDepth", "pixel_unshuffle", "SpaceToDepth"),
    _word("space_to_batch", "image", "", "", "SpaceToBatchND BatchToSpaceND"),
    _word("resize_bilinear", "image", "Resize Upsample", "upsample_bilinear2d", "ResizeBilinear"),
    _word("resize_nearest", "image", "", "upsample_nearest2d upsample_nearest1d", "ResizeNearestNeighbor"),
    _word("resize_cubic", "image", "", "upsample_bicubic2d", "ResizeBicubic"),
    _word("grid_sample", "image", "GridSample", "grid_sampler grid_sampler_2d", ""),
    _word("roi_align", "image", "RoiAlign", "", "CropAndResize"),
    _word(
        "non_max_suppression",
        "image",
        "NonMaxSuppression",
        "",
        "NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5 CombinedNonMaxSuppression",
    ),
    _word("loop", "control", "Loop Scan", "while_loop", "While StatelessWhile LoopCond"),
    _word("condition", "control", "If", "cond", "If StatelessIf"),
    _word(
        "random",
        "other",
        "RandomNormalLike RandomUniformLike RandomNormal RandomUniform",
        "rand randn randn_like rand_like",
        "RandomUniform RandomStandardNormal",
    ),
    _word("stft", "other", "STFT DFT", "stft _fft_r2c fft_rfft", "RFFT RFFT2D FFT"),
    _word("triangle", "other", "Trilu", "triu tril", "MatrixBandPart"),
    _word("range", "other", "Range", "arange", "Range"),
    _word(
        "fill",
        "other",
        "ConstantOfShape",
        "full zeros ones full_like zeros_like ones_like new_zeros",
        "Fill ZerosLike OnesLike",
    ),
    _word("quantize", "quantization", "QuantizeLinear", "quantize_per_tensor", "FakeQuantWithMinMaxVars"),
    _word("dequantize", "quantization", "DequantizeLinear", "dequantize_per_tensor", ""),
)

OPERATORS: Final[Mapping[str, Operator]] = {word.name: word for word in _WORDS}
"""Every word, by its name."""

NOT_COMPUTED: Final[Mapping[SourceNames, frozenset[str]]] = {
    "onnx": frozenset({"Constant", "Identity", "Dropout", "Shape", "Size"}),
    "aten": frozenset(
        {
            "dropout",
            "dropout2d",
            "feature_dropout",
            "native_dropout",
            "alias",
            "detach",
            "clone",
            "contiguous",
        }
        | {"lift_fresh_copy", "lift_fresh", "getitem", "sym_size", "sym_constrain_range_for_size"}
        | {"_assert_scalar", "_assert_async", "_assert_tensor_metadata", "scalar_tensor", "item", "eq_sym"}
        | {"clone_copy", "detach_copy", "alias_copy", "_unsafe_alias"}
    ),
    "tensorflow": frozenset(
        {"Const", "Placeholder", "Identity", "IdentityN", "NoOp", "StopGradient", "Shape", "Size", "Rank"}
        | {
            "Enter",
            "Exit",
            "Switch",
            "Merge",
            "NextIteration",
            "PreventGradient",
            "Snapshot",
            "ReadVariableOp",
        }
        | {"TensorListReserve", "TensorListFromTensor", "TensorListGetItem", "TensorListSetItem"}
        | {"TensorListStack", "EnsureShape", "CheckNumerics", "Assert"}
    ),
}
"""Types that compute nothing: constants, names, shapes, and the plumbing of loops."""


def _by_name(kind: SourceNames) -> dict[str, str]:
    return {name: word.name for word in _WORDS for name in getattr(word, kind)}


WORD_OF: Final[Mapping[SourceNames, Mapping[str, str]]] = {
    "onnx": _by_name("onnx"),
    "aten": _by_name("aten"),
    "tensorflow": _by_name("tensorflow"),
}
"""The word for each name."""
