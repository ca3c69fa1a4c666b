"""The part of a plan that says which data there is: `[data]`."""

from collections.abc import Mapping
from dataclasses import dataclass
from os.path import normpath
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, PlainSerializer, PlainValidator, model_validator

from phoneproof.data.preprocessing import Preprocess
from phoneproof.data.set_specs import SetSpec
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

Role = Literal["calibration", "evaluation", "edge"]
"""edge: samples of the user's own that are tried one by one."""


def set_key(role: Role) -> str:
    """Where a plan names the set of that role."""
    return "edge.own" if role == "edge" else f"data.{role}"


@dataclass(frozen=True)
class DeclaredSet:
    """A set with absolute paths, and the part of it that is meant.

    With skip 0 and take None the part is the whole set. Else it is choose_subset(labels, skip + take, seed)
    without choose_subset(labels, skip, seed): that choice grows with its number, so two parts, one that takes
    n and one that skips n, share no sample, and both hold each class with its share.
    """

    role: Role
    spec: SetSpec
    skip: int
    take: int | None


class SetSection(Section):
    """What every kind of set has: the part of it that is meant, as DeclaredSet says."""

    skip: Annotated[int, Field(ge=0)] = 0
    take: Annotated[int, Field(ge=1)] | None = None


class ImageFolderSection(SetSection):
    """A folder of images; sub-folders are classes."""

    kind: Literal["image_folder"]
    path: Path


class CsvSection(SetSection):
    """A CSV file that names image files and perhaps their labels."""

    kind: Literal["csv"]
    path: Path
    path_column: Text = "path"
    label_column: Text | None = None
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    encoding: Text | None = None


class NpzSection(SetSection):
    """An .npz with one array per input, samples along the first axis."""

    kind: Literal["npz"]
    path: Path
    arrays: Mapping[Text, Text] = Field(default_factory=dict)
    labels_array: Text = "labels"


class NpySection(SetSection):
    """An .npy with the samples along the first axis, and perhaps another with their labels."""

    kind: Literal["npy"]
    path: Path
    labels_path: Path | None = None


class EntryPointSection(SetSection):
    """A Python function that gives samples; `folder` is put on the path of modules."""

    kind: Literal["entry_point"]
    function: EntryPoint
    folder: Path = "."


AnySet = ImageFolderSection | CsvSection | NpzSection | NpySection | EntryPointSection
DataSet = Annotated[AnySet, Field(discriminator="kind")]


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

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse(self, [*self._shared_samples(), *self._preprocess_fits()])
        return self

    def _shared_samples(self) -> list[Problem]:
        a, b = self.calibration, self.evaluation
        if a is None or b is None or _place(a) != _place(b):
            return []
        if _reading(a) != _reading(b):
            what = "Both sets read one source, but not with the same keys, so take and skip cannot part them."
            return [(("evaluation",), what, "Give both sets the same keys, except take and skip.")]
        ends = [float("inf") if one.take is None else one.skip + one.take for one in (a, b)]
        if ends[0] <= b.skip or ends[1] <= a.skip:
            return []
        what = "The calibration and evaluation sets share samples of one source."
        return [(("evaluation",), what, "Part it: take = 200 in one of the two, skip = 200 in the other.")]

    def _preprocess_fits(self) -> list[Problem]:
        given = [one for one in (self.calibration, self.evaluation) if one is not None]
        arrays = [isinstance(one, NpzSection | NpySection) for one in given]
        images = any(isinstance(one, ImageFolderSection | CsvSection) for one in given)
        if images and self.preprocess is None:
            step = "Add [data.preprocess] with mode, layout, resize, scale, mean and std."
            return [(("preprocess",), "Images are given, but not how they become tensors.", step)]
        if self.preprocess is not None and given and all(arrays):
            step = "Remove [data.preprocess]."
            return [(("preprocess",), "Arrays go into the model as they are; nothing is preprocessed.", step)]
        return []


def _place(one: AnySet) -> tuple[str, str]:
    if isinstance(one, EntryPointSection):
        return (one.kind, f"{normpath(one.folder)}:{one.function}")
    return (one.kind, normpath(one.path))


def _reading(one: AnySet) -> dict[str, Any]:
    return one.model_dump(exclude={"skip", "take", "path", "folder"})


__all__ = [
    "AnySet",
    "CsvSection",
    "DataSection",
    "DataSet",
    "DeclaredSet",
    "EntryPointSection",
    "ImageFolderSection",
    "NpySection",
    "NpzSection",
    "Role",
    "SetSection",
    "set_key",
]
