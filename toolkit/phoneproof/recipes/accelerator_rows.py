"""The rows of the tables of accelerators: what each runs, lacks or refuses, and where that is written.

Each source was read at the version in its address. A word that no source speaks of stands in no row.
"""

from typing import Final

from phoneproof.recipes.accelerators import Accelerator, Doubt, Rows, Trait

_XNNPACK_EXECUTORCH: Final = (
    "https://github.com/pytorch/executorch/blob/main/backends/xnnpack/partition/config/__init__.py"
)
_XNNPACK_NODES: Final = "https://github.com/pytorch/executorch/blob/main/backends/xnnpack/partition/config/generic_node_configs.py"
_XNNPACK_GEMM: Final = (
    "https://github.com/pytorch/executorch/blob/main/backends/xnnpack/partition/config/gemm_configs.py"
)
_LITERT: Final = "https://github.com/google-ai-edge/LiteRT/blob/"
_XNNPACK_LITERT: Final = (
    f"{_LITERT}038d2a26d7eb547631fb65ca7a7c85bb4032b2bc/tflite/delegates/xnnpack/xnnpack_delegate.cc"
)
_XNNPACK_README: Final = (
    f"{_LITERT}3a653aa83cbb60902ff8a547bd619c83bf90d678/tflite/delegates/xnnpack/README.md"
)
_TENSORFLOW: Final = "https://github.com/tensorflow/tensorflow/blob/"
_GPU: Final = (
    f"{_TENSORFLOW}03a5e4e19a9c8200e13c85f1c637877fdf589be6/tensorflow/lite/tools/versioning/"
    "gpu_compatibility.cc"
)
_NNAPI: Final = (
    f"{_TENSORFLOW}002e5f47fa2ea99aa910ba83e66240c0cda8ff8a/tensorflow/lite/delegates/nnapi/nnapi_delegate.cc"
)
_QNN_REPOSITORY: Final = "https://github.com/onnxruntime/onnxruntime-qnn/"
_QNN: Final = (
    f"{_QNN_REPOSITORY}blob/0131740f31800af002800abb7886dfba60d5febe/docs/execution_providers/"
    "QNN-ExecutionProvider.md"
)
_QNN_EXECUTORCH: Final = "https://github.com/pytorch/executorch/blob/01ce0f2f53dd999f47192b31646d721ba7899a4c/backends/qualcomm/builders/README.md"
_ANE_GUIDE: Final = "https://github.com/sbryngelson/ane-guide/blob/b7565c53c18e7ab8f9de402bfbed0b3a32a498a0/"
_ANE: Final = f"{_ANE_GUIDE}appendices/a-op-device-matrix.md"
_ANE_SURFACE: Final = f"{_ANE_GUIDE}part-1-machine/04-capability-surface.md"


def _rows(
    words: str,
    url: str,
    doubt: Doubt | None = None,
    note: str = "",
    trait: Trait | None = None,
    least_rank: int | None = None,
) -> Rows:
    return Rows(frozenset(words.split()), doubt, url, note, trait, least_rank)


_ARITHMETIC: Final = (
    "add sub mul div floor_div mod pow square sqrt rsqrt exp log abs neg sign ceil floor round maximum "
    "minimum clip relu sigmoid tanh softmax reduce_mean reduce_sum reduce_max reduce_min"
)

_EXECUTORCH: Final = Accelerator(
    "xnnpack-executorch",
    "XNNPACK in ExecuTorch",
    "CPUs of phones. What is not delegated runs in ExecuTorch's portable kernels, many times slower.",
    (
        _rows(
            "abs add avg_pool2d batch_norm concat ceil clip conv1d conv2d depthwise_conv2d "
            "conv_transpose2d cos depth_to_space div exp floor gelu hard_swish leaky_relu linear log "
            "matmul max_pool2d maximum minimum mul neg pad pow prelu relu relu6 reshape resize_bilinear "
            "rsqrt sigmoid sin slice softmax space_to_depth sqrt sub tanh transpose unsqueeze "
            "global_avg_pool reduce_mean quantize dequantize",
            _XNNPACK_EXECUTORCH,
        ),
        _rows("elu", _XNNPACK_EXECUTORCH, "absent", "Its configuration is switched off in the partitioner."),
        _rows(
            "layer_norm rms_norm group_norm instance_norm log_softmax erf argmax argmin cumsum topk sort "
            "embedding gather gather_elements gather_nd scatter where nonzero equal not_equal greater "
            "less logical_and logical_or logical_not reduce_sum reduce_max reduce_min reduce_prod expand "
            "split select squeeze tile flip roll reflect_pad resize_nearest resize_cubic grid_sample lstm"
            " gru rnn triangle mod floor_div round sign reciprocal tan atan inverse_trigonometry "
            "conv_transpose3d pool3d softplus global_max_pool random",
            _XNNPACK_EXECUTORCH,
            "absent",
            "The partitioner has no configuration for it.",
        ),
        _rows(
            "attention",
            _XNNPACK_NODES,
            "refused",
            "Taken apart, its matrix products and softmax are delegated; expand and where are not.",
        ),
        _rows(
            "max_with_index",
            _XNNPACK_EXECUTORCH,
            "refused",
            "Taken only of a 4-D tensor, and where nothing takes the indices.",
        ),
        _rows("cast", _XNNPACK_NODES, "refused", "Conversions of types are not taken."),
        _rows("unsqueeze", _XNNPACK_NODES, "refused", "Only a new last axis is taken.", "other_axis"),
        _rows(
            "avg_pool2d",
            _XNNPACK_NODES,
            "refused",
            "An adaptive pooling is taken only where it gives one value for each channel.",
            "adaptive",
        ),
        _rows("conv3d", _XNNPACK_GEMM, "absent", "Only convolutions of one and two dimensions are taken."),
        _rows(
            "softmax", _XNNPACK_NODES, "refused", "Only a softmax along the last axis is taken.", "other_axis"
        ),
        _rows(
            "avg_pool2d", _XNNPACK_NODES, "refused", "An average pooling with ceil_mode is not taken.", "ceil"
        ),
        _rows(
            "avg_pool2d",
            _XNNPACK_NODES,
            "refused",
            "An average pooling that counts its padding is not taken; set count_include_pad=False.",
            "padding_counted",
        ),
        _rows(
            "max_pool2d",
            _XNNPACK_NODES,
            "refused",
            "A pooling whose stride is above its kernel is not taken.",
            "stride_above_kernel",
        ),
        _rows(
            "reduce_mean",
            _XNNPACK_NODES,
            "refused",
            "Only a mean over the two innermost axes of a 4-D tensor that keeps them is taken.",
            "not_spatial",
        ),
        _rows("slice", _XNNPACK_NODES, "refused", "Only slices with a step of 1 are taken.", "strided"),
        _rows("pow", _XNNPACK_NODES, "refused", "Only the power 2 is taken.", "not_square"),
        _rows(_ARITHMETIC, _XNNPACK_NODES, "refused", "Only floating point is taken.", "integer"),
    ),
)

_LITERT_CPU: Final = Accelerator(
    "xnnpack-litert",
    "XNNPACK in LiteRT",
    "CPUs of phones. What is not delegated runs in LiteRT's own kernels.",
    (
        _rows(
            "abs ceil cos dequantize elu exp floor gelu hard_swish leaky_relu sigmoid neg quantize relu "
            "relu6 round rsqrt sin sqrt square tanh add div maximum minimum mul prelu squared_difference "
            "sub avg_pool2d matmul concat conv2d depthwise_conv2d depth_to_space unsqueeze linear "
            "max_pool2d reduce_min reduce_max reduce_sum reduce_mean pad reshape resize_bilinear slice "
            "softmax space_to_depth split",
            _XNNPACK_LITERT,
        ),
        _rows("transpose conv_transpose2d", _XNNPACK_README),
        _rows(
            "log pow argmax argmin cumsum topk embedding gather gather_nd scatter one_hot nonzero where "
            "equal not_equal greater less logical_and logical_or logical_not reduce_prod tile expand flip"
            " unstack reflect_pad conv3d conv_transpose3d lstm rnn resize_nearest space_to_batch "
            "floor_div mod sign log_softmax local_response_norm loop condition fill range random",
            _XNNPACK_LITERT,
            "absent",
            "The delegate has no case for it.",
        ),
        _rows(
            "concat split",
            _XNNPACK_LITERT,
            "refused",
            "At most 5 tensors are put together, and at most 4 are made of one.",
            "many",
        ),
        _rows("slice", _XNNPACK_README, "refused", "Only slices with a step of 1 are taken.", "strided"),
        _rows(
            _ARITHMETIC,
            _XNNPACK_README,
            "refused",
            "Integers that are not quantized are not taken.",
            "integer",
        ),
    ),
)

_LITERT_GPU: Final = Accelerator(
    "litert-gpu",
    "LiteRT GPU delegate",
    "GPUs of phones (OpenCL, OpenGL, Metal). They compute in float: an int8 build gains no speed there.",
    (
        _rows(
            "add avg_pool2d matmul cast concat conv2d cumsum depthwise_conv2d depth_to_space dequantize "
            "embedding linear gather hard_swish max_pool2d reduce_mean mul stack one_hot quantize prelu "
            "reshape where slice softmax space_to_depth split tile transpose conv_transpose2d "
            "resize_bilinear resize_nearest relu relu6 leaky_relu reduce_max reduce_min reduce_prod "
            "reduce_sum pad reflect_pad abs ceil cos elu exp floor gelu log sigmoid neg rsqrt sign sin "
            "sqrt square tanh div equal floor_div mod greater logical_and less maximum minimum not_equal "
            "pow squared_difference sub clip",
            _GPU,
        ),
        _rows(
            "conv3d conv_transpose3d argmax argmin topk gather_nd scatter unstack expand flip logical_or "
            "logical_not round local_response_norm log_softmax space_to_batch range random fill loop "
            "condition nonzero rnn non_max_suppression",
            _GPU,
            "absent",
            "The delegate's check of compatibility has no case for it.",
        ),
        _rows(
            "lstm",
            _GPU,
            "absent",
            "It takes LSTM, one step; converters make UNIDIRECTIONAL_SEQUENCE_LSTM, for which it has no "
            "case.",
        ),
        _rows("slice", _GPU, "refused", "Only tensors of 3 and 4 axes are sliced.", None, 5),
        _rows("gather", _GPU, "refused", "Integers are not gathered.", "integer"),
        _rows(
            "depthwise_conv2d",
            _GPU,
            "refused",
            "A depth multiplier is taken for inputs of one channel only.",
            "depth_multiplier",
        ),
        _rows(
            "where",
            _GPU,
            "refused",
            "Its operands must have the shape of the output, or be scalars.",
            "broadcast",
        ),
    ),
)

_NNAPI_DRIVERS: Final = Accelerator(
    "nnapi",
    "NNAPI",
    "The LiteRT delegate on Android 11 and later; a phone's driver may take less. Deprecated since "
    "Android 15.",
    (
        _rows(
            "add argmax argmin mul avg_pool2d max_pool2d conv2d depthwise_conv2d linear hard_swish "
            "softmax reshape resize_bilinear resize_nearest squeeze lstm rnn local_response_norm concat "
            "dequantize floor relu relu6 sigmoid tanh sub pad space_to_batch slice transpose "
            "conv_transpose2d space_to_depth reduce_mean maximum minimum cast leaky_relu prelu tile "
            "logical_or logical_and logical_not less greater equal not_equal topk where gather unsqueeze "
            "split quantize reduce_max reduce_min depth_to_space fill stack",
            _NNAPI,
        ),
        _rows(
            "div abs exp log rsqrt pow sin sqrt neg log_softmax elu reduce_sum reduce_prod",
            _NNAPI,
            "refused",
            "Taken in float only: an int8 build computes it on the CPU.",
        ),
        _rows(
            "matmul gelu conv3d conv_transpose3d cumsum round sign square squared_difference gather_nd "
            "scatter one_hot nonzero reflect_pad flip cos ceil mod floor_div expand unstack loop "
            "condition range random non_max_suppression",
            _NNAPI,
            "absent",
            "The delegate has no case for it.",
        ),
        _rows("concat softmax sub", _NNAPI, "refused", "Only tensors of up to 4 axes are taken.", None, 5),
        _rows("where", _NNAPI, "refused", "Its condition and its operands must have one shape.", "broadcast"),
    ),
)

_HEXAGON: Final = Accelerator(
    "qnn",
    "QNN (Hexagon)",
    "HTP, the NPU of Snapdragon, through ONNX Runtime's QNN provider or ExecuTorch's Qualcomm backend.",
    (
        _rows(
            "abs add logical_and argmax argmin atan avg_pool2d batch_norm cast ceil clip concat conv2d "
            "depthwise_conv2d conv3d conv_transpose2d conv_transpose3d cos cumsum depth_to_space div "
            "einsum elu equal exp expand floor gather gather_elements gather_nd gelu linear "
            "global_avg_pool global_max_pool greater grid_sample group_norm hard_sigmoid hard_swish "
            "instance_norm isnan local_response_norm lstm layer_norm leaky_relu less log log_softmax "
            "l2_norm matmul maximum max_pool2d minimum mod mul neg nonzero logical_not logical_or prelu "
            "pad pow quantize dequantize random reciprocal reduce_l2 reduce_max reduce_mean reduce_min "
            "reduce_prod reduce_sum relu rms_norm reshape resize_bilinear resize_nearest roi_align round "
            "stft scatter sigmoid sign sin slice softmax softplus space_to_depth split sqrt squeeze sub "
            "tan tanh tile topk transpose unsqueeze where",
            _QNN,
        ),
        _rows(
            "rsqrt not_equal stack unstack silu triangle roll reflect_pad conv1d max_with_index floor_div",
            _QNN_EXECUTORCH,
        ),
        _rows("gru one_hot selu", f"{_QNN_REPOSITORY}releases/tag/v2.4.0"),
        _rows("non_max_suppression condition", f"{_QNN_REPOSITORY}releases/tag/v2.5.0"),
        _rows("erf", _QNN, "refused", "Taken only where it is a part of a GELU, whose pattern is fused."),
        _rows("rnn loop", _QNN, "absent", "It is not among the operators that the provider takes."),
        _rows("space_to_batch", _QNN_EXECUTORCH, "absent", "The backend's table says that it is not there."),
    ),
)

_NEURAL_ENGINE: Final = Accelerator(
    "neural-engine",
    "Neural Engine",
    "iPhones from A14 on, measured by others on Macs with M1, M2 and M5; Apple publishes no list. What it"
    " does not take runs on the GPU or the CPU.",
    (
        _rows(
            "conv2d depthwise_conv2d conv_transpose2d linear matmul einsum avg_pool2d max_pool2d "
            "attention batch_norm layer_norm instance_norm l2_norm local_response_norm abs add sub mul "
            "div floor_div pow square sqrt rsqrt reciprocal maximum minimum equal not_equal greater less "
            "logical_not where relu relu6 leaky_relu prelu clip elu sigmoid hard_sigmoid tanh gelu silu "
            "softmax softplus softsign erf exp log sign ceil floor round reduce_sum reduce_mean "
            "reduce_max reduce_min reduce_l2 argmax reshape unsqueeze squeeze transpose concat split "
            "stack pad reflect_pad slice flip tile gather gather_elements gather_nd depth_to_space "
            "space_to_depth space_to_batch resize_bilinear resize_nearest roi_align grid_sample cast "
            "quantize dequantize atan topk sort fill",
            _ANE,
        ),
        _rows("group_norm", _ANE_SURFACE),
        _rows("embedding", _ANE, None, "It is a gather."),
        _rows(
            "mod logical_and logical_or reduce_prod scatter nonzero one_hot triangle lstm gru rnn tan "
            "inverse_trigonometry random loop condition",
            _ANE,
            "absent",
            "No engine up to M5 has a path for it.",
        ),
        _rows("non_max_suppression", _ANE, "absent", "It is given to the CPU or the GPU."),
        _rows(
            "conv3d",
            _ANE_SURFACE,
            "absent",
            "A capability bit is set for it, but no engine's compiler lowers it.",
        ),
        _rows("sin cos", _ANE, "refused", "A14 and M2 have no path for it; A15 and M3 do."),
        _rows("argmin", _ANE, "refused", "A14 and M2 reach it by a bridge only; A15 and M3 run it."),
        _rows("cumsum", _ANE, "refused", "It runs, but not by the usual way of compiling."),
        _rows(
            _ARITHMETIC,
            _ANE_SURFACE,
            "refused",
            "The engine computes in float16; integers of 32 bits never run on it.",
            "integer",
        ),
        _rows(
            "reshape transpose slice concat add mul matmul",
            _ANE_SURFACE,
            "refused",
            "Tensors have at most 5 axes.",
            None,
            6,
        ),
    ),
)

ACCELERATORS: Final = (_LITERT_CPU, _EXECUTORCH, _LITERT_GPU, _NNAPI_DRIVERS, _HEXAGON, _NEURAL_ENGINE)
"""In the order of reports: CPUs, GPUs, NPUs."""
