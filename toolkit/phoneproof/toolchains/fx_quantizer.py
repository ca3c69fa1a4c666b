"""Static quantization by torch's FX graph mode for the engine QNNPACK, with ranges of our own."""

import copy
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.ao.quantization import QConfig, QConfigMapping, get_default_qconfig_mapping
from torch.ao.quantization.backend_config import BackendConfig, get_qnnpack_backend_config
from torch.ao.quantization.fx.custom_config import PrepareCustomConfig
from torch.ao.quantization.observer import HistogramObserver, default_per_channel_weight_observer
from torch.fx import GraphModule, Node

from phoneproof.builds.manifest import FloatOperator, FloatReason
from phoneproof.errors import PhoneproofError, ToolchainError, said
from phoneproof.quantize.range_observer import RangeObserver
from phoneproof.quantize.torch_fx import (
    InFloat,
    dtypes,
    hide_calls,
    kept_by_plan,
    kept_modules,
    operator_of,
    traced,
    type_of,
)
from phoneproof.recipes.table import RecipeOptions
from phoneproof.runtimes.torch_qnnpack import ENGINE
from phoneproof.toolchains.fx_clamps import mend_clamps, ranges_behind_clamps

Tensors = tuple[torch.Tensor, ...]

_REPRESENTATION: Final = frozenset({"quantize_per_tensor", "dequantize"})
_MOVING: Final = frozenset(
    {"reshape", "view", "flatten", "Flatten", "permute", "transpose", "squeeze", "unsqueeze", "contiguous"}
    | {
        "getitem",
        "cat",
        "concat",
        "chunk",
        "split",
        "stack",
        "expand",
        "repeat",
        "Identity",
        "Dropout",
        "Unflatten",
    }
)
_OTHER_MODES: Final = frozenset(
    {"Embedding", "EmbeddingBag", "LSTM", "GRU", "LSTMCell", "GRUCell", "RNNCell"}
)
"""QNNPACK has them with int8 weights and float activations only, which is not static quantization."""


@dataclass(frozen=True)
class Quantized:
    """What became of a module. operators: number by dtype; see BuildManifest and Made for the others.

    reference: what the module must compute: of a quantized one, torch's float operators between its steps.
    """

    module: torch.nn.Module
    reference: torch.nn.Module
    operators: Mapping[str, int]
    float_operators: tuple[FloatOperator, ...] = ()
    kept_in_int8: tuple[str, ...] = ()

    @classmethod
    def in_float(cls, module: torch.nn.Module, example: Tensors, place: str) -> "Quantized":
        """The module as it is. ToolchainError where torch.fx cannot count its operators."""
        return cls(
            module,
            module,
            dict(sorted(Counter(dtypes(traced(module, len(example), place), example).values()).items())),
        )


def quantized(
    module: torch.nn.Module,
    samples: Iterable[Tensors],
    example: Tensors,
    options: RecipeOptions,
    place: str,
    on_sample: Callable[[int], None],
) -> Quantized:
    """Calibrate the module with `samples` and quantize it.

    example: input tensors, in the order of forward, as each of the samples.
    RecipeError for unknown names in `options`, DataError for a sample that is not finite, ToolchainError
    where torch cannot trace or convert the module.
    """
    graph = traced(module, len(example), place)
    kept = kept_by_plan(graph, options)
    hidden = hide_calls(graph, kept)
    in_float = kept_modules(graph, kept)
    backend = get_qnnpack_backend_config()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch's own deprecations
            prepared = _calibrated(graph, samples, example, _mapping(options, in_float), backend, on_sample)
            reference, converted = _converted(prepared, example, backend)
            found = dtypes(converted, example)
    except PhoneproofError:
        raise
    except Exception as error:  # torch's passes raise all kinds
        raise ToolchainError(
            f"torch cannot quantize the module: {type(error).__name__}: {said(error)}.",
            where=place,
            next_step="Keep the operator it names in float with keep_float_names.",
        ) from error
    return _counted(converted, reference, found, in_float | set(hidden), hidden, backend)


def _calibrated(
    graph: GraphModule,
    samples: Iterable[Tensors],
    example: Tensors,
    mapping: QConfigMapping,
    backend: BackendConfig,
    on_sample: Callable[[int], None],
) -> GraphModule:
    from torch.ao.quantization.quantize_fx import prepare_fx

    custom = PrepareCustomConfig().set_non_traceable_module_classes([InFloat])
    prepared: GraphModule = prepare_fx(graph, mapping, example, custom, backend_config=backend)
    _name_observers(prepared)
    with torch.no_grad(), ranges_behind_clamps(prepared):
        for index, sample in enumerate(samples):
            on_sample(index)
            prepared(*sample)
    return prepared


def _converted(
    prepared: GraphModule, example: Tensors, backend: BackendConfig
) -> tuple[GraphModule, GraphModule]:
    """The reference and the module of QNNPACK's operators."""
    from torch.ao.quantization.quantize_fx import convert_fx, convert_to_reference_fx

    reference = convert_to_reference_fx(copy.deepcopy(prepared), backend_config=backend)
    converted = convert_fx(prepared, backend_config=backend)
    mend_clamps(converted, example)
    return reference, converted


def _mapping(options: RecipeOptions, in_float: Iterable[str]) -> QConfigMapping:
    """torch's own mapping for QNNPACK with our observer for activations, and weights as the plan says.

    Rows with fixed parameters (sigmoid, tanh) and per tensor weights (transposed convolutions, whose kernels
    take no others) stay.
    """
    mapping = get_default_qconfig_mapping(ENGINE)
    ours = RangeObserver.with_args(method=options.method, percentile=options.percentile)

    def changed(row: QConfig | None, is_global: bool) -> QConfig | None:
        if row is None or not _is_histogram(row.activation):
            return row
        per_channel = is_global and options.per_channel
        return QConfig(  # type: ignore[no-untyped-call]
            activation=ours, weight=default_per_channel_weight_observer if per_channel else row.weight
        )

    mapping.set_global(changed(mapping.global_qconfig, True))
    for kind, row in list(mapping.object_type_qconfigs.items()):
        mapping.set_object_type(kind, changed(row, False))
    for path in in_float:
        mapping.set_module_name(path, None)
    return mapping


def _is_histogram(activation: Any) -> bool:
    made = getattr(activation, "p", None)
    return activation is HistogramObserver or getattr(made, "func", None) is HistogramObserver


def _name_observers(prepared: GraphModule) -> None:
    """Name each observer after what it sees first, for messages."""
    for node in prepared.graph.nodes:
        if node.op == "call_module":
            observer = prepared.get_submodule(str(node.target))
            if isinstance(observer, RangeObserver) and observer.statistics.name == "activation":
                observer.statistics.name = node.all_input_nodes[0].name


def _counted(
    graph: GraphModule,
    reference: GraphModule,
    found: Mapping[str, str],
    kept: Iterable[str],
    hidden: Mapping[str, str],
    backend: BackendConfig,
) -> Quantized:
    """Operators by dtype: int8 where the result is quantized, each one left in float with its reason."""
    known = _quantizable(backend)
    counts: Counter[str] = Counter()
    left: list[FloatOperator] = []
    kept_in_int8: list[str] = []
    for node in graph.graph.nodes:
        dtype = found.get(node.name)
        kind = type_of(graph, node) if node.op.startswith("call_") else ""
        if dtype is None or not kind or kind in _REPRESENTATION:
            continue
        dtype = "int8" if dtype in {"quint8", "qint8"} else dtype
        counts[dtype] += 1
        path = str(node.target)
        name = hidden.get(path) or operator_of(graph, node).name
        if dtype.startswith("float"):
            call = graph.get_submodule(path) if node.op == "call_module" else None
            kind = str(getattr(call.target, "__name__", call.target)) if isinstance(call, InFloat) else kind
            reason = "kept_by_plan" if path in kept else _reason(node, kind, known, found)
            left.append(FloatOperator(name, kind, reason))
        elif dtype == "int8" and path in kept:
            kept_in_int8.append(name)
    return Quantized(graph, reference, dict(sorted(counts.items())), tuple(left), tuple(kept_in_int8))


def _reason(node: Node, kind: str, known: frozenset[str], found: Mapping[str, str]) -> FloatReason:
    if kind in _MOVING:
        return "data_movement"
    if kind in _OTHER_MODES:
        return "unsupported_by_recipe"
    if kind not in known:
        return "not_quantizable"
    before = [one for one in node.all_input_nodes if str(found.get(one.name, "")).startswith("float")]
    is_ready = bool(before) and all(type_name(one) == "dequantize" for one in before)
    return "outputs_not_quantized" if is_ready else "inputs_not_quantized"


def type_name(node: Node) -> str:
    """Name of what a function or method node calls; empty for other nodes."""
    return (
        str(getattr(node.target, "__name__", node.target))
        if node.op in {"call_function", "call_method"}
        else ""
    )


def _quantizable(backend: BackendConfig) -> frozenset[str]:
    """Names of the classes, functions and methods for which QNNPACK has an integer form."""
    patterns = [config.pattern for config in backend.configs]
    return frozenset(
        str(getattr(one, "__name__", one))
        for one in patterns
        if one is not None and not isinstance(one, tuple)
    )
