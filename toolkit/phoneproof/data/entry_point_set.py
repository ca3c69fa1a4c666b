"""Sets that a function of the user's gives, sample by sample."""

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from phoneproof.data.declared import suggestion
from phoneproof.data.samples import UNNAMED, Content, Entry, Label, content_digest, plain_label
from phoneproof.data.set_specs import EntryPoint
from phoneproof.errors import DataError, said


@dataclass(frozen=True)
class EntryPointSet:
    """Listed by calling the function once; each later call has to give the same samples again."""

    spec: EntryPoint
    entries: tuple[Entry, ...]
    digests: tuple[str, ...]
    class_names: tuple[str, ...] | None
    ignored_files: int = 0

    def contents(self, indices: Sequence[int]) -> Iterator[Content]:
        """DataError for a sample that differs from the one listed: a set that changes proves nothing."""
        wanted = iter(indices)
        index = next(wanted, None)
        for position, (content, _) in enumerate(_called(self.spec)):
            if index is None:
                return
            if position < index:
                continue
            if position >= len(self.digests) or content_digest(content) != self.digests[position]:
                raise self._changed(position)
            yield content
            index = next(wanted, None)
        if index is not None:
            raise self._changed(index)

    def _changed(self, position: int) -> DataError:
        return DataError(
            f"The function gave another sample {position} when it was called again.",
            where=self.spec.function,
            next_step="Make it give the same samples in the same order each time (fix its random seed).",
        )


def open_entry_point(spec: EntryPoint) -> EntryPointSet:
    """Call the function once and list what it gives. DataError for whatever goes wrong in it."""
    entries, digests = [], []
    for position, (content, label) in enumerate(_called(spec)):
        entries.append(Entry(str(position), _class_index(label, spec, position)))
        digests.append(content_digest(content))
    if not entries:
        raise DataError("The function gave no samples.", where=spec.function)
    if len({entry.label is None for entry in entries}) > 1:
        raise DataError("Some samples have a label and some have none.", where=spec.function)
    return EntryPointSet(spec, tuple(entries), tuple(digests), spec.classes)


def _class_index(label: Label, spec: EntryPoint, position: int) -> Label:
    """The label as it is without `classes`; with them the index it has or names."""
    if spec.classes is None:
        return label
    if isinstance(label, str) and label in spec.classes:
        return spec.classes.index(label)
    if isinstance(label, int) and not isinstance(label, bool) and 0 <= label < len(spec.classes):
        return label
    raise DataError(
        f"The label {label!r:.80} of sample {position} is not a class index or name.",
        where=spec.function,
        next_step=suggestion(str(label), spec.classes),
    )


def _called(spec: EntryPoint) -> Iterator[tuple[Content, Label]]:
    with _folder_on_path(spec.folder):
        function = _function(spec)
        try:
            for position, sample in enumerate(function()):
                yield _content_and_label(sample, f"{spec.function}: sample {position}")
        except DataError:
            raise
        except Exception as error:
            raise _failure(spec, error) from error


def _failure(spec: EntryPoint, error: Exception) -> DataError:
    place, trace = "", error.__traceback__
    while trace is not None:
        place = f"{Path(trace.tb_frame.f_code.co_filename).name} line {trace.tb_lineno}"
        trace = trace.tb_next
    return DataError(
        f"The function failed with {type(error).__name__}: {said(error)}.",
        where=f"{spec.function} ({place})",
        next_step="Run it in Python by itself and mend it.",
    )


@contextmanager
def _folder_on_path(folder: str) -> Iterator[None]:
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def _function(spec: EntryPoint) -> Callable[[], Any]:
    module_name, colon, name = spec.function.partition(":")
    if not colon or not name or not module_name:
        step = "Write it as module:function."
        raise DataError("It is not the name of a function.", where=spec.function, next_step=step)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        step = f"Modules are looked for in {spec.folder} first."
        raise DataError(f"There is no module {error.name!r}.", where=spec.function, next_step=step) from None
    except Exception as error:
        raise _failure(spec, error) from error
    function = getattr(module, name, None)
    if not callable(function):
        step = suggestion(name, [known for known in vars(module) if not known.startswith("_")])
        raise DataError(f"{module_name} has no function {name!r}.", where=spec.function, next_step=step)
    return function  # type: ignore[no-any-return]


def _content_and_label(sample: Any, where: str) -> tuple[Content, Label]:
    label = None
    if isinstance(sample, tuple):
        if len(sample) != 2:
            raise DataError(f"A tuple is (inputs, label), not {len(sample)} things.", where=where)
        sample, label = sample[0], plain_label(sample[1], where)
    if isinstance(sample, Image.Image):
        return sample, label
    if isinstance(sample, Mapping):
        return {str(name): _array(value, where) for name, value in sample.items()}, label
    return {UNNAMED: _array(sample, where)}, label


def _array(value: Any, where: str) -> np.ndarray[Any, Any]:
    """A copy, since a generator may fill one buffer again and again."""
    try:
        array = np.array(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"It is no array: {said(error)}.", where=where) from None
    if array.dtype.kind not in "biuf":
        raise DataError(f"{type(value).__name__} is not an array of numbers.", where=where)
    return array
