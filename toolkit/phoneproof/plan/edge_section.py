"""The part of a plan that says which edge inputs builds are tried on: `[edge]`."""

from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from phoneproof.data.edge import EDGE_NAMES
from phoneproof.plan.data_section import (
    CsvSection,
    DataSection,
    DataSet,
    ImageFolderSection,
    NpySection,
    NpzSection,
)
from phoneproof.plan.values import Problem, Section, Text, refuse, unique, wrong
from phoneproof.plan.wording import nearest

_ADVICE: Final = "Remove kind: it follows from the data."


def _edge_name(value: str) -> str:
    if value not in EDGE_NAMES:
        raise wrong(f"There is no edge input {value[:80]!r}.", nearest(value, EDGE_NAMES))
    return value


class EdgeSection(Section):
    """`[edge]`: single odd inputs, each tried by itself.

    kind: None follows from the data, and is never audio. own: samples of your own beside the made ones.
    audio_input: the input that holds sound, for the kind audio, where several hold floats.
    vocabulary: number of token ids; None is the length of the largest table that ids choose from in the
    source model, or, where it has none, the greatest id in the data and one.
    """

    run: bool = True
    kind: Literal["image", "values", "tokens", "audio"] | None = None
    skip: Annotated[tuple[Annotated[str, AfterValidator(_edge_name)], ...], AfterValidator(unique)] = ()
    audio_input: Text | None = None
    vocabulary: Annotated[int, Field(ge=1)] | None = None
    own: DataSet | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.audio_input is not None and self.kind != "audio":
            what = "An input of sound is named, but kind is not 'audio'."
            refuse(self, [(("audio_input",), what, "Set kind = 'audio', or remove audio_input.")])
        if self.vocabulary is not None and self.kind not in (None, "tokens"):
            what = f"A vocabulary is given, but kind is {self.kind!r}."
            refuse(self, [(("vocabulary",), what, "Remove vocabulary, or set kind = 'tokens'.")])
        return self

    def misfits(self, data: DataSection) -> list[Problem]:
        """Where it does not fit the plan's data; places below the plan."""
        problems: list[Problem] = []
        if self.kind == "image" and data.preprocess is None:
            what = "Edge images need a preprocess, and the plan declares none."
            problems.append((("edge", "kind"), what, "Add [data.preprocess], or remove kind."))
        if self.kind not in (None, "image") and data.preprocess is not None:
            what = f"The data are images, so edge inputs cannot be of the kind {self.kind!r}."
            problems.append((("edge", "kind"), what, _ADVICE))
        if isinstance(self.own, ImageFolderSection | CsvSection) and data.preprocess is None:
            what = "Own edge inputs are images, but not how they become tensors."
            problems.append((("edge", "own"), what, "Add [data.preprocess], or give arrays."))
        if isinstance(self.own, NpzSection | NpySection) and data.preprocess is not None:
            what = "Own edge inputs are arrays, and the plan's preprocess takes images."
            problems.append((("edge", "own"), what, "Give images, or pixels by an entry point."))
        return problems
