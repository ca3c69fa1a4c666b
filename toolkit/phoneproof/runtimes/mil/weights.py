"""Constants that stand in the weight files of a package."""

from pathlib import Path
from typing import Any, Final

import numpy as np

from phoneproof.errors import RuntimeUnavailableError, StorageError
from phoneproof.runtimes.mil.types import Array, held
from phoneproof.runtimes.mil.vendor import BlobReader

_MODEL_PATH: Final = "@model_path/"
_READERS: Final = {
    "fp32": "read_float_data",
    "fp16": "read_fp16_data",
    **{
        name: f"read_{name}_data"
        for name in (
            *("int4", "int8", "int16", "int32"),
            *("uint1", "uint2", "uint3", "uint4", "uint6", "uint8", "uint16", "uint32"),
        )
    },
}


class WeightFiles:
    """The weight files of one package. model_folder: the folder of its model.mlmodel."""

    def __init__(self, package: Path, model_folder: Path) -> None:
        self.package = package
        self._model_folder = model_folder
        self._readers: dict[str, Any] = {}

    def read(self, file_name: str, offset: int, dtype: str, shape: tuple[int, ...]) -> Array:
        """The constant of MIL's `dtype` whose record begins at byte `offset` of `file_name`.

        StorageError if the file is missing, outside the package or cut off, or holds something else there.
        """
        if dtype not in _READERS:
            raise RuntimeUnavailableError(
                f"A constant of {dtype} in a weight file is not read by mil_interpreter.",
                where=str(self.package),
            )
        try:
            values = getattr(self._reader(file_name), _READERS[dtype])(offset)
        except (RuntimeError, ValueError) as error:
            # The reader's own words: "index out of bounds" where the file ends before the record does.
            raise StorageError(
                f"The weight file {file_name!r} is damaged: no {dtype} {list(shape)} at byte {offset} "
                f"({error}).",
                where=str(self.package),
                next_step="Copy or convert the package again.",
            ) from error
        flat = np.array(values)
        if flat.size != int(np.prod(shape, dtype=np.int64)):
            raise StorageError(
                f"The weight file {file_name!r} has {flat.size} elements at byte {offset}; the program "
                f"declares {list(shape)}.",
                where=str(self.package),
                next_step="Copy or convert the package again.",
            )
        if dtype == "fp16":
            flat = flat.view(np.float16)
        return held(flat, dtype).reshape(shape)

    def _reader(self, file_name: str) -> Any:
        if file_name not in self._readers:
            self._readers[file_name] = BlobReader(str(self._inside(file_name)))
        return self._readers[file_name]

    def _inside(self, file_name: str) -> Path:
        path = (self._model_folder / file_name.removeprefix(_MODEL_PATH)).resolve()
        if not path.is_relative_to(self.package.resolve()):
            raise StorageError(
                f"The program names a weight file outside its package: {file_name!r}.",
                where=str(self.package),
            )
        if not path.is_file():
            raise StorageError(
                f"The weight file {file_name!r} is missing.",
                where=str(self.package),
                next_step="Copy or convert the package again; it is a folder, and all of it is needed.",
            )
        return path
