"""Write docs/audit.md out of the tables of accelerators. With --check only say whether it is up to date."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from phoneproof.recipes.accelerator_rows import ACCELERATORS
from phoneproof.recipes.accelerators import Accelerator, Rows, predict
from phoneproof.recipes.operators import OPERATORS, Operator
from phoneproof.runs.advising import CONVOLUTIONAL_SHARE
from phoneproof.runs.model_audit import (
    LEAST_MULTIPLICATIONS,
    LEAST_NORMALISING,
    LEAST_VOCABULARY,
    LEAST_WEIGHTS,
    NORMALISING,
    NORMALISING_SHARE,
)
from phoneproof.verify.losses import CALIBRATION_ABOVE, LAYERS_FROM

PAGE = Path(__file__).parents[1] / "docs" / "audit.md"

BEGINNING = """\
# Audit

Written by `scripts/audit_reference.py` out of the tables in `toolkit/phoneproof/recipes/`; do not edit it by
hand.

`phoneproof audit` takes a [plan](plan.md), inspects its source models, stores and checks its sets, and stops
there. `phoneproof run` begins with the same and goes on from it. Of each model the audit tells

- what it takes and gives, with the lengths that it leaves open, and how many parameters it has;
- its operators, in one vocabulary for ONNX, PyTorch and TensorFlow. What is constant once the axes are fixed
  is left out: every converter computes it beforehand;
- how many of them the tables below predict each accelerator to run, and which not;
- what speaks against int8 ([findings](findings.md) that begin with MODEL);
- which recipes to try on Android and iOS, and why.

None of this is measured. A table says what a vendor's list or source says; drivers, versions and shapes
differ. What a build really did on a device stands in the report as `accelerator_actual` and
`operators_by_accelerator`.
"""

SMALL = f"""\
## Too small to gain

MODEL-SMALL stands on models with fewer than {LEAST_WEIGHTS:,} weights and fewer than
{LEAST_MULTIPLICATIONS:,} multiplications in one inference. Four 3 x 3 convolutions and a linear layer, int8
(QDQ, per channel) against float32 in ONNX Runtime 1.32, one thread of an x86-64 server, least of 60 rounds:

| image | channels | weights | multiplications | size of int8 / float | speed of int8 / float |
|---|---|---|---|---|---|
| 8 x 8 | 4 | 580 | 0.03 million | 1.73 | 0.67 |
| 8 x 8 | 8 | 2,024 | 0.12 million | 0.74 | 0.76 |
| 8 x 8 | 16 | 7,504 | 0.47 million | 0.39 | 0.99 |
| 8 x 8 | 24 | 16,440 | 1.04 million | 0.32 | 1.78 |
| 32 x 32 | 4 | 580 | 0.55 million | 1.73 | 0.52 |
| 32 x 32 | 16 | 7,504 | 7.52 million | 0.39 | 1.48 |
| 32 x 32 | 32 | 28,832 | 29.2 million | 0.29 | 2.55 |
| 32 x 32 | 96 | 252,384 | 257 million | 0.26 | 3.88 |

So few weights save less than 20 kB, and so few multiplications no time: the quantize and dequantize
operators, and what else is done once for each inference, take as long. `benchmarks/small_networks.py`
measures it again.
"""

ADVICE = f"""\
## What is advised

The first line that fits decides.

| the model | how it is told | advice |
|---|---|---|
| generative | scores for each row of an embedding ({LEAST_VOCABULARY:,} or more), attention masked \
towards later positions, or an input that takes an earlier output (`past`, `present`, `key_value`) | \
dynamic; on iOS weights only |
| recurrent | LSTM, GRU or RNN | dynamic; on iOS weights only |
| text | integers choose rows of an embedding | dynamic; on iOS weights only |
| normalisation-heavy | at least {LEAST_NORMALISING} of {", ".join(sorted(NORMALISING))}, and at least \
{NORMALISING_SHARE:.0%} of these and the convolutions, matrix products and recurrent layers together | \
dynamic; on iOS weights only |
| convolutional | at least {CONVOLUTIONAL_SHARE:.0%} of the weights in convolutions | static int8, per \
channel |
| another | | static int8, per channel |

Without a calibration set a dynamic recipe takes the place of a static one, and on iOS weights only. Static
recipes begin with `minmax`; if accuracy falls, `entropy` comes before `percentile` when time allows. For GPUs
a float16 recipe is named beside: they compute in float16, CPUs do not. A recipe is named only where the form
of the source has a route to it ([recipes](recipes.md)) and the platform runs its format.

## What to do about a loss

With each quantized build that lost accuracy the report and the end of `phoneproof run` say what to try. A
loss counts where the accuracy gate fails, or where it is {LAYERS_FROM * 100:.0f} points or more and the
interval of the drop lies above 0.

| loss | try |
|---|---|
| less than {LAYERS_FROM * 100:.0f} points | another calibration method, `per_channel = true` |
| {LAYERS_FROM * 100:.0f} to {CALIBRATION_ABOVE * 100:.0f} points | the most sensitive layers in float \
(`keep_float_names`) |
| more than {CALIBRATION_ABOVE * 100:.0f} points | first the calibration set and what was found in it; \
then sensitive layers in float; then training with quantization (QAT) |

The order is that of PyTorch's guide to
[debugging the accuracy of quantized models](\
https://docs.pytorch.org/docs/stable/quantization-accuracy-debugging.html).
"""

LEGEND = """\
## Operators by accelerator

`yes`: runs. `no`: there is no kernel. `not so`: a kernel exists, but not for int8, or not for this
operator by itself; the reason stands [below](#what-is-refused-and-why). Empty: no source speaks of it,
and it counts for neither. An operator without a row of its own is judged by the parts that converters
make of it: it runs if all of them do.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([BEGINNING, SMALL, ADVICE, _about(), LEGEND, _matrix(), *_doubts(), _names()])


def _table(head: str, rows: Iterable[str]) -> str:
    columns = head.count("|") - 1
    return f"{head}\n{'|---' * columns}|\n" + "".join(f"{row}\n" for row in rows)


def _about() -> str:
    rows = (
        f"| {one.name} | {one.about} | {', '.join(f'[{n}]({url})' for n, url in enumerate(_urls(one), 1))} |"
        for one in ACCELERATORS
    )
    return "## Accelerators\n\n" + _table("| accelerator | what the table is of | sources |", rows)


def _urls(accelerator: Accelerator) -> list[str]:
    return list(dict.fromkeys(rows.url for rows in accelerator.rows))


def _matrix() -> str:
    names = " | ".join(one.name for one in ACCELERATORS)
    rows = (f"| `{word}` | {' | '.join(_cell(one, word) for one in ACCELERATORS)} |" for word in OPERATORS)
    return _table(f"| operator | {names} |", rows)


def _cell(accelerator: Accelerator, word: str) -> str:
    said = predict(accelerator, word)
    if said is None:
        return ""
    return {None: "yes", "absent": "no", "refused": "not so"}[said.doubt]


def _doubts() -> Iterator[str]:
    yield "## What is refused, and why\n"
    for accelerator in ACCELERATORS:
        rows = sorted((one for one in accelerator.rows if one.doubt is not None), key=lambda one: one.note)
        lines = (_doubt(note, list(alike)) for note, alike in groupby(rows, key=lambda one: one.note))
        yield f"### {accelerator.name}\n\n" + _table("| operators | used | why not | source |", lines)


def _doubt(note: str, rows: list[Rows]) -> str:
    words = ", ".join(f"`{word}`" for one in rows for word in sorted(one.operators))
    trait = ", ".join(dict.fromkeys(_used(one) for one in rows))
    return f"| {words} | {trait} | {note} | [source]({rows[0].url}) |"


def _used(rows: Rows) -> str:
    if rows.least_rank is not None:
        return f"with {rows.least_rank} axes or more"
    return "always" if rows.trait is None else rows.trait.replace("_", " ")


def _names() -> str:
    rows = (
        f"| `{one.name}` | {one.family} | {_listed(one)} | {', '.join(one.parts)} |"
        for one in OPERATORS.values()
    )
    return "## The vocabulary\n\n" + _table(
        "| word | family | ONNX | PyTorch (aten) | TensorFlow | parts |", rows
    )


def _listed(one: Operator) -> str:
    return " | ".join(", ".join(names) for names in (one.onnx, one.aten, one.tensorflow))


def main() -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is out of date")
    wanted = page()
    if not parser.parse_args().check:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == wanted:
        return 0
    sys.stderr.write(f"{PAGE} is out of date: run scripts/audit_reference.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
