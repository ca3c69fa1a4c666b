"""The specification of an ML program's package, for its interpreter and for whoever inspects it."""

from pathlib import Path
from typing import Any, Final

from phoneproof.errors import PhoneproofError, said
from phoneproof.recipes.mlpackage_folder import COPY_AGAIN, specification_file
from phoneproof.runtimes.mil.vendor import ArrayFeatureType, ModelSpec

_NUMPY_DTYPES: Final = {
    "FLOAT32": "float32",
    "DOUBLE": "float64",
    "INT32": "int32",
    "FLOAT16": "float16",
    "INT8": "int8",
}


def read_specification(
    package: Path, damaged: type[PhoneproofError], refused: type[PhoneproofError]
) -> tuple[Path, Any]:
    """The specification's file and its content, coremltools' Model message, which is an ML program.

    Raises `damaged` for a package that is not whole, `refused` for one that holds another kind of model.
    """
    path = specification_file(package, damaged)
    spec = ModelSpec()
    try:
        spec.ParseFromString(path.read_bytes())
    except Exception as error:  # protobuf's DecodeError has no stable place across its implementations
        raise damaged(
            f"The model specification cannot be decoded: {said(error)}.",
            where=str(path),
            next_step=COPY_AGAIN,
        ) from error
    kind = spec.WhichOneof("Type")
    if kind != "mlProgram":
        raise refused(
            f"The package holds a {kind or 'model of no kind'}, not an ML program.",
            where=str(package),
            next_step="Convert it with convert_to='mlprogram' (iOS 15 and later).",
        )
    return path, spec


def feature_dtype(feature: Any, role: str, package: Path, refused: type[PhoneproofError]) -> str:
    """numpy's name of the dtype of an input or output, a FeatureDescription. Raises `refused` for one that is
    no multi-array, or of a data type that no build has. role: `input` or `output`.
    """
    kind = feature.type.WhichOneof("Type")
    if kind != "multiArrayType":
        raise refused(
            f"The {role} {feature.name!r} is of {kind}, not a multi-array.",
            where=str(package),
            next_step=f"Convert with a TensorType for this {role}, and without a ClassifierConfig.",
        )
    name = ArrayFeatureType.ArrayDataType.Name(feature.type.multiArrayType.dataType)
    if name not in _NUMPY_DTYPES:
        raise refused(
            f"The {role} {feature.name!r} has the data type {name}, which no build has.",
            where=str(package),
            next_step="Convert again with float32, float16 or int32.",
        )
    return _NUMPY_DTYPES[name]
