"""What a graph is made of, whichever format it came in: nodes as words, constants folded, weights counted."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from phoneproof.builds.source_facts import Anatomy, OperatorUse
from phoneproof.recipes.operators import NOT_COMPUTED, OPERATORS, WORD_OF, SourceNames

Shape = tuple[int, ...]


@dataclass(frozen=True)
class GraphNode:
    """A node of a source's graph.

    type: in the source's own language. word: of the vocabulary where the use decides it, else None: then the
    type does. inputs, outputs: names of values; a weight is a value too. causal: attention that is masked.
    """

    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    word: str | None = None
    rank: int | None = None
    traits: frozenset[str] = frozenset()
    multiplications: int = 0
    causal: bool = False


def anatomy(nodes: Iterable[GraphNode], weights: Mapping[str, Shape], names: SourceNames) -> Anatomy:
    """What the graph is made of.

    nodes: in an order in which no value is used before it is made. weights: shape by name of every constant.
    A node all of whose inputs are constant is no operator: every converter computes it once. So is one that
    asks for a shape, since all axes are fixed.
    """
    constants: dict[str, frozenset[str]] = {name: frozenset({name}) for name in weights}
    uses: Counter[tuple[str, int | None, tuple[str, ...]]] = Counter()
    unnamed: Counter[str] = Counter()
    owners: dict[str, str] = {}
    vocabularies: list[int] = []
    live = []
    for node in nodes:
        if _is_constant(node, constants):
            roots = frozenset[str]().union(*(constants[name] for name in node.inputs if name in constants))
            constants.update(dict.fromkeys(node.outputs, roots))
            continue
        if node.type in NOT_COMPUTED[names]:
            continue
        live.append(node)
        roots = frozenset[str]().union(*(constants.get(name, frozenset()) for name in node.inputs))
        word = _word(node, names, constants)
        if word is None:
            unnamed[node.type] += 1
            continue
        uses[word, node.rank, tuple(sorted(node.traits))] += 1
        for root in sorted(roots):
            owners.setdefault(root, OPERATORS[word].family)
        if word == "embedding":
            vocabularies += [max(weights[root]) for root in roots if len(weights[root]) > 1]
    elements: Counter[str] = Counter()
    for root, family in owners.items():
        elements[family] += math.prod(weights[root])
    return Anatomy(
        uses=tuple(OperatorUse(word, count, rank, traits) for (word, rank, traits), count in _sorted(uses)),
        unnamed=dict(sorted(unnamed.items())),
        weights=dict(sorted(elements.items())),
        multiplications=sum(node.multiplications for node in live),
        vocabularies=tuple(sorted(vocabularies, reverse=True)),
        causal=any(node.causal for node in live),
    )


def convolution_word(
    weight: Shape, groups: int, transposed: bool, channels: int
) -> tuple[str, frozenset[str]]:
    """The word and traits of a convolution. weight: its shape with the channels first, as ONNX and PyTorch
    have it. channels: of its input.
    """
    dimensions = len(weight) - 2
    if transposed:
        return ("conv_transpose3d" if dimensions == 3 else "conv_transpose2d"), frozenset()
    if dimensions != 2:
        return ("conv3d" if dimensions == 3 else "conv1d"), frozenset()
    if groups == 1 or groups != channels:
        return "conv2d", frozenset()
    several = weight[0] != channels and channels != 1
    return "depthwise_conv2d", frozenset({"depth_multiplier"} if several else ())


def pooling_word(name: str, rank: int | None) -> str:
    """The word of a pooling of a tensor of that rank, batch and channels included."""
    return "pool3d" if rank is not None and rank > 4 else name


def pooling_traits(
    kernel: Sequence[int], stride: Sequence[int], pads: Sequence[int], ceil: bool, counted: bool
) -> frozenset[str]:
    """Traits of a pooling. counted: whether an average counts the padding."""
    found = {"ceil"} if ceil else set()
    if any(step > size for step, size in zip(stride, kernel, strict=False)):
        found.add("stride_above_kernel")
    if counted and any(pads):
        found.add("padding_counted")
    return frozenset(found)


def _is_constant(node: GraphNode, constants: Mapping[str, frozenset[str]]) -> bool:
    if node.type in ("Shape", "Size", "Rank"):
        return True
    if WORD_OF["onnx"].get(node.type) == "random" or node.type.startswith(("rand", "Random")):
        return False
    return all(name in constants for name in node.inputs)


def _word(node: GraphNode, names: SourceNames, constants: Mapping[str, frozenset[str]]) -> str | None:
    word = node.word or WORD_OF[names].get(node.type)
    if word == "matmul" and any(name in constants for name in node.inputs):
        return "linear"
    if word == "gather" and node.inputs and constants.get(node.inputs[0]):
        return "embedding"
    return word


def _sorted(
    uses: Mapping[tuple[str, int | None, tuple[str, ...]], int],
) -> list[tuple[tuple[str, int | None, tuple[str, ...]], int]]:
    return sorted(uses.items(), key=lambda item: (item[0][0], item[0][1] or 0, item[0][2]))
