"""The schemas are found, and are schemas."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from phoneproof.errors import StorageError
from phoneproof.protocol import schema_files

NAMES = sorted(path.name.removesuffix(".schema.json") for path in schema_files.schema_folder().iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_each_schema_is_a_valid_json_schema(name: str) -> None:
    schema = json.loads(schema_files.schema_text(name))
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(schema)


def test_the_schema_of_the_report_is_among_them() -> None:
    assert "report" in NAMES


def test_an_installed_copy_comes_before_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / "job.schema.json").write_text("{}")
    monkeypatch.setattr(schema_files, "_INSTALLED", tmp_path / "schema")
    assert schema_files.schema_path("job") == tmp_path / "schema" / "job.schema.json"


def test_a_missing_schema_is_an_incomplete_installation() -> None:
    with pytest.raises(StorageError, match="Install phoneproof again"):
        schema_files.schema_path("no-such-schema")


def test_no_schemas_at_all_is_an_incomplete_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("_INSTALLED", "_CHECKOUT"):
        monkeypatch.setattr(schema_files, place, tmp_path / "nowhere")
    with pytest.raises(StorageError, match="Install phoneproof again"):
        schema_files.schema_text("report")
