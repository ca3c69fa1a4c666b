"""Where the model stands in a .mlpackage folder. Read without coremltools, by all who look into packages."""

import json
from pathlib import Path
from typing import Final

from phoneproof.errors import PhoneproofError

COPY_AGAIN: Final = "Copy or convert the package again; it is a folder, and all of it is needed."


def specification_file(package: Path, damaged: type[PhoneproofError]) -> Path:
    """The file of the package's model specification.

    Raises `damaged` if the folder is no whole package: whoever asks knows whose fault that is.
    """
    manifest = package / "Manifest.json"
    if not manifest.is_file():
        raise damaged(
            "This is no whole .mlpackage: Manifest.json is missing.", where=str(package), next_step=COPY_AGAIN
        )
    try:
        content = json.loads(manifest.read_bytes())
        relative = str(content["itemInfoEntries"][content["rootModelIdentifier"]]["path"])
    except OSError as error:
        raise damaged(
            f"Manifest.json cannot be read: {error.strerror}.", where=str(package), next_step=COPY_AGAIN
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(
            "Manifest.json does not name a model.", where=str(manifest), next_step=COPY_AGAIN
        ) from error
    path = package / "Data" / relative
    if not path.resolve().is_relative_to(package.resolve()):
        raise damaged(
            "Manifest.json names a file outside the package.", where=str(manifest), next_step=COPY_AGAIN
        )
    if not path.is_file():
        what = f"The model specification {relative[:200]!r} is missing."
        raise damaged(what, where=str(package), next_step=COPY_AGAIN)
    return path
