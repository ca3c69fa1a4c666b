"""The part of a plan that says which data there is: `[data]`."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, PlainSerializer, PlainValidator, model_validator

from phoneproof.data.preprocessing import Preprocess
from phoneproof.errors import DataError
from phoneproof.plan.values import (
    Count,
    EntryPoint,
    Path,
    Positive,
    Problem,
    Section,
    Text,
    Texts,
    refuse,
    refuse_as_told,
)

MOST_SEEDS: Final = 2**32 - 1


class SetSection(Section):
    """What every kind of set has.

    Without `skip` and `take` a set is all there is, in its own order. With one of them the samples are put in
    the order of sha256(seed, content of the sample); `skip` leaves out the first ones and `take` ends after
    so many. Two sets from one place are disjoint when one takes n and the other skips n.
    """

    skip: Annotated[int, Field(ge=0)] = 0
    take: Annotated[int, Field(ge=1)] | None = None


class ImageFolder(SetSection):
    """A folder of images; sub-folders are classes."""

    kind: Literal["image_folder"]
    path: Path
    input: Text | None = None


class Csv(SetSection):
    """A table with one line per sample, naming an image file and optionally its class."""

    kind: Literal["csv"]
    path: Path
    file_column: Text = "file"
    label_column: Text | None = None
    root: Path | None = None
    input: Text | None = None


class Npz(SetSection):
    """An .npz with one array per input, samples along the first axis."""

    kind: Literal["npz"]
    path: Path
    inputs: Mapping[Text, Text] = Field(default_factory=dict)
    label_array: Text | None = None


class Npy(SetSection):
    """An .npy with the samples along the first axis, and optionally another with their classes."""

    kind: Literal["npy"]
    path: Path
    labels_path: Path | None = None
    input: Text | None = None


class EntryPointSet(SetSection):
    """A Python function that yields samples."""

    kind: Literal["entry_point"]
    entry_point: EntryPoint


DataSet = Annotated[ImageFolder | Csv | Npz | Npy | EntryPointSet, Field(discriminator="kind")]


def _read_preprocess(value: Any) -> Preprocess:
    try:
        return Preprocess.from_dict(value)
    except DataError as error:
        raise refuse_as_told(error, "preprocess") from None


PreprocessTable = Annotated[
    Preprocess, PlainValidator(_read_preprocess), PlainSerializer(lambda declared: declared.to_dict())
]


class DataSection(Section):
    """`[data]`: the calibration set, the evaluation set, and how images become tensors."""

    calibration: DataSet | None = None
    evaluation: DataSet | None = None
    preprocess: PreprocessTable | None = None
    classes: Texts = ()
    samples: Count = 500
    calibration_samples: Count = 500
    seed: Annotated[int, Field(ge=0, le=MOST_SEEDS)] = 0
    max_gb: Positive = 4.0
    may_leave: bool = False
    trust_pickle: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse(self, [*self._shared_samples(), *self._images_without_preprocess()])
        return self

    def _shared_samples(self) -> list[Problem]:
        a, b = self.calibration, self.evaluation
        if a is None or b is None or _place(a) != _place(b):
            return []
        ends = [float("inf") if one.take is None else one.skip + one.take for one in (a, b)]
        if ends[0] <= b.skip or ends[1] <= a.skip:
            return []
        return [
            (
                ("evaluation",),
                "The calibration and evaluation sets share samples of one source.",
                "Split it: take = 200 in one of the two and skip = 200 in the other.",
            )
        ]

    def _images_without_preprocess(self) -> list[Problem]:
        images = [s for s in (self.calibration, self.evaluation) if isinstance(s, ImageFolder | Csv)]
        if not images or self.preprocess is not None:
            return []
        return [
            (
                ("preprocess",),
                "Images are given, but not how they become tensors.",
                "Add [data.preprocess] with mode, layout, resize, scale, mean and std.",
            )
        ]


def _place(data_set: ImageFolder | Csv | Npz | Npy | EntryPointSet) -> tuple[str, str]:
    if isinstance(data_set, EntryPointSet):
        return (data_set.kind, data_set.entry_point)
    return (data_set.kind, data_set.path.rstrip("/"))


__all__ = ["Csv", "DataSection", "DataSet", "EntryPointSet", "ImageFolder", "Npy", "Npz", "SetSection"]
