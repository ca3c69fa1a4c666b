"""What the audit tells of a source model: facts, predictions for accelerators, and doubts about it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from phoneproof.builds.source_facts import SourceFacts
from phoneproof.errors import Fact
from phoneproof.findings import Finding
from phoneproof.recipes.accelerator_rows import ACCELERATORS
from phoneproof.recipes.accelerators import Accelerator, Prediction, predict
from phoneproof.report.audited import AuditedTensor, DoubtfulOperator, PredictedSupport

LEAST_WEIGHTS: Final = 10_000
LEAST_MULTIPLICATIONS: Final = 1_000_000
"""Networks with fewer of both gain nothing worth having. Measured: docs/audit.md, "Too small to gain"."""

LEAST_VOCABULARY: Final = 1_000
"""Scores for that many rows of an embedding are a vocabulary, and the model writes text."""

NORMALISING: Final = frozenset(
    {"layer_norm", "rms_norm", "group_norm", "instance_norm", "l2_norm", "softmax", "log_softmax", "gelu"}
    | {"erf", "sqrt", "rsqrt", "attention"}
)
"""Operators that divide by a sum, a norm or a deviation of the data, or bend them by erf. Exporters that take
a layer norm apart leave one sqrt or rsqrt of it, and of a GELU one erf; attention holds a softmax."""

WEIGHING: Final = frozenset(
    {"conv1d", "conv2d", "depthwise_conv2d", "conv3d", "conv_transpose2d", "conv_transpose3d"}
    | {"linear", "matmul", "einsum", "lstm", "gru", "rnn"}
)
"""Operators whose multiplications int8 makes cheap."""

LEAST_NORMALISING: Final = 4
NORMALISING_SHARE: Final = 0.25
"""Transformers have 4 of 12 in each layer (two layer norms, softmax, GELU; six linear layers and two products
of matrices), ConvNeXt 2 of 5; MobileNetV2 and ResNet have none that is not folded."""


def inputs_of(facts: SourceFacts) -> tuple[AuditedTensor, ...]:
    """The inputs as the model declares them."""
    return tuple(
        AuditedTensor(one.name, one.dtype, facts.open_inputs.get(one.name, one.shape)) for one in facts.inputs
    )


def outputs_of(facts: SourceFacts) -> tuple[AuditedTensor, ...]:
    """The outputs, axes fixed."""
    return tuple(AuditedTensor(one.name, one.dtype, one.shape) for one in facts.outputs)


def predicted_support(facts: SourceFacts) -> tuple[PredictedSupport, ...]:
    """What the tables say of the model's operators, for each accelerator."""
    return tuple(_support(facts, accelerator) for accelerator in ACCELERATORS)


def _support(facts: SourceFacts, accelerator: Accelerator) -> PredictedSupport:
    supported = 0
    doubtful: Counter[tuple[str, Prediction]] = Counter()
    unlisted: Counter[str] = Counter(facts.anatomy.unnamed)
    for use in facts.anatomy.uses:
        one = predict(accelerator, use.operator, use.rank, frozenset(use.traits))
        if one is None:
            unlisted[use.operator] += use.count
        elif one.doubt is None:
            supported += use.count
        else:
            doubtful[use.operator, one] += use.count
    return PredictedSupport(
        accelerator.name,
        supported,
        tuple(
            DoubtfulOperator(word, count, one.doubt, one.note, one.url)
            for (word, one), count in sorted(doubtful.items(), key=lambda item: (-item[1], item[0][0]))
            if one.doubt is not None
        ),
        dict(sorted(unlisted.items())),
    )


def operators_of(facts: SourceFacts) -> Mapping[str, int]:
    """Number of operators by word of the vocabulary, those it lacks by their own type."""
    counted: Counter[str] = Counter(facts.anatomy.unnamed)
    for use in facts.anatomy.uses:
        counted[use.operator] += use.count
    return dict(sorted(counted.items()))


def model_findings(key: str, facts: SourceFacts) -> tuple[Finding, ...]:
    """Why the model is a poor candidate for int8, or needs care. key: the model's, name/format."""
    found = (_small(facts), _generative(facts), _normalising(facts), _open(facts))
    ids = ("MODEL-SMALL", "MODEL-GENERATIVE", "MODEL-NORMALISATION-HEAVY", "MODEL-DYNAMIC-SHAPES")
    return tuple(
        Finding.of(name, key, **told) for name, told in zip(ids, found, strict=True) if told is not None
    )


def _small(facts: SourceFacts) -> dict[str, Fact] | None:
    weights, multiplications = sum(facts.anatomy.weights.values()), facts.anatomy.multiplications
    if not facts.anatomy.uses or weights >= LEAST_WEIGHTS or multiplications >= LEAST_MULTIPLICATIONS:
        return None
    return {
        "weights": weights,
        "least_weights": LEAST_WEIGHTS,
        "multiplications": multiplications,
        "least_multiplications": LEAST_MULTIPLICATIONS,
    }


def _generative(facts: SourceFacts) -> dict[str, Fact] | None:
    evidence = tuple(_generating(facts))
    return {"evidence": evidence} if evidence else None


def _generating(facts: SourceFacts) -> Iterator[str]:
    """Signs that the model writes a sequence piece by piece."""
    rows = set(facts.anatomy.vocabularies)
    for output in facts.outputs:
        last = output.shape[-1] if output.shape else 0
        if last >= LEAST_VOCABULARY and last in rows:
            yield f"output {output.name} scores each of the {last} rows of an embedding"
    if facts.anatomy.causal:
        yield "attention is masked so that no position sees later ones"
    kept = [one.name for one in facts.inputs if _is_memory(one.name)]
    given = [one.name for one in facts.outputs if _is_memory(one.name)]
    if kept and given:
        yield f"input {kept[0]} takes what output {given[0]} gave before"


def _is_memory(name: str) -> bool:
    """Whether a tensor is called as exporters call the keys and values of earlier steps."""
    plain = name.lower().replace("-", "_").replace(".", "_")
    return plain.startswith(("past", "present")) or "key_value" in plain or "kv_cache" in plain


def _normalising(facts: SourceFacts) -> dict[str, Fact] | None:
    counted = operators_of(facts)
    normalising = {word: counted[word] for word in sorted(NORMALISING) if word in counted}
    count = sum(normalising.values())
    weighing = sum(counted.get(word, 0) for word in WEIGHING)
    if count < LEAST_NORMALISING or count / (count + weighing) < NORMALISING_SHARE:
        return None
    listed = tuple(f"{word}: {number}" for word, number in normalising.items())
    return {"share": count / (count + weighing), "count": count, "weighing": weighing, "operators": listed}


def _open(facts: SourceFacts) -> dict[str, Fact] | None:
    """Open lengths other than that of the batch, which is always 1."""
    shapes = {one.name: one.shape for one in facts.inputs}
    listed = tuple(
        f"{name} axis {axis} = {shapes[name][axis]}"
        for name, declared in facts.open_inputs.items()
        for axis, length in enumerate(declared)
        if length is None and axis > 0
    )
    return {"axes": listed} if listed else None
