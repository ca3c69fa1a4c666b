"""Opening a declared set."""

from collections.abc import Sequence

from phoneproof.data.array_sets import open_npy, open_npz
from phoneproof.data.entry_point_set import open_entry_point
from phoneproof.data.file_sets import open_csv, open_image_folder
from phoneproof.data.samples import SampleSet
from phoneproof.data.set_specs import CsvManifest, EntryPoint, ImageFolder, NpyArray, NpzArchive, SetSpec


def open_set(spec: SetSpec, input_names: Sequence[str]) -> SampleSet:
    """List the samples of a set in its one order, for a model with these inputs.

    Raises DataError, with place and next step, for a set that is missing, empty, damaged or inconsistent.
    """
    match spec:
        case ImageFolder():
            return open_image_folder(spec)
        case CsvManifest():
            return open_csv(spec)
        case NpzArchive():
            return open_npz(spec, input_names)
        case NpyArray():
            return open_npy(spec)
        case EntryPoint():
            return open_entry_point(spec)
