"""Where the JSON schemas of the protocol are.

They live in /protocol/schema of the repository, because the programs on the phones read them too. An
installed phoneproof carries a copy beside this module.
"""

from pathlib import Path

from phoneproof.errors import StorageError

_INSTALLED = Path(__file__).with_name("schema")
_CHECKOUT = Path(__file__).parents[3] / "protocol" / "schema"


def schema_folder() -> Path:
    """Return the folder of the schemas.

    Raises StorageError if this phoneproof was installed without them.
    """
    for folder in (_INSTALLED, _CHECKOUT):
        if folder.is_dir():
            return folder
    raise StorageError(
        "The JSON schemas of the protocol are missing from this phoneproof.",
        where=str(_INSTALLED),
        next_step="Install phoneproof again.",
    )


def schema_path(name: str) -> Path:
    """Return the path of one schema, `<name>.schema.json`.

    name: job, event, build, run, journal or report.
    Raises StorageError if there is no such file.
    """
    path = schema_folder() / f"{name}.schema.json"
    if not path.is_file():
        raise StorageError(
            f"The JSON schema {name!r} is missing from this phoneproof.",
            where=str(path),
            next_step="Install phoneproof again.",
        )
    return path


def schema_text(name: str) -> str:
    """Return one schema as JSON text. Raises StorageError as `schema_path` does."""
    return schema_path(name).read_text(encoding="utf-8")
