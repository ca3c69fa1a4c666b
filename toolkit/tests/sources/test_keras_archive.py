"""What is refused before Keras is even imported: files that are no .keras models, and code in them."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from phoneproof.errors import SourceModelError
from phoneproof.sources.keras_model import open_keras
from phoneproof.sources.savedmodel import open_savedmodel


def layer(name: str, module: str | None = "keras.layers", **more: Any) -> dict[str, Any]:
    return {"module": module, "class_name": name, "config": {"name": "one"}, **more}


def archive(path: Path, *layers: dict[str, Any]) -> Path:
    config = {"module": "keras", "class_name": "Sequential", "config": {"layers": list(layers)}}
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("config.json", json.dumps(config))
        file.writestr("metadata.json", "{}")
        file.writestr("model.weights.h5", bytes(range(256)) * 8)
    return path


def refusal(path: Path, trust: bool = False) -> SourceModelError:
    with pytest.raises(SourceModelError) as caught:
        open_keras(path, trust)
    return caught.value


def test_a_missing_file(tmp_path: Path) -> None:
    assert "no such file" in str(refusal(tmp_path / "model.keras"))


@pytest.mark.parametrize("name", ["old.h5", "old.keras"])
def test_an_hdf5_model_is_refused_with_the_way_to_mend_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(64))
    assert '.save("model.keras")' in str(refusal(path).next_step)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"no archive at all"])
def test_a_file_that_is_no_archive(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.keras"
    path.write_bytes(content)
    assert "damaged" in refusal(path).what


@pytest.mark.parametrize("share", [0.3, 0.7, 0.99])
def test_a_truncated_archive(share: float, tmp_path: Path) -> None:
    path = archive(tmp_path / "model.keras", layer("Dense"))
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    assert "damaged" in refusal(path).what


def test_a_changed_byte_of_the_weights(tmp_path: Path) -> None:
    path = archive(tmp_path / "model.keras", layer("Dense"))
    content = bytearray(path.read_bytes())
    content[content.index(bytes(range(256))) + 100] ^= 1
    path.write_bytes(content)
    assert "damaged" in refusal(path).what


@pytest.mark.parametrize("name", ["Lambda", "__lambda__"])
def test_code_is_refused_with_the_key_that_allows_it(name: str, tmp_path: Path) -> None:
    error = refusal(archive(tmp_path / "model.keras", layer("Dense"), layer(name)))
    assert "holds code" in error.what
    assert "trust_pickle = true" in str(error.next_step)


@pytest.mark.parametrize(
    "foreign",
    [
        layer("system", module="os"),
        layer("Doubled", module="ours.layers"),
        layer("Doubled", module=None, registered_name="ours>Doubled"),
        layer("Dense", activation=layer("own", module="keras_hub.layers")),
    ],
)
def test_classes_that_are_not_kerass_own_are_named(foreign: dict[str, Any], tmp_path: Path) -> None:
    path = archive(tmp_path / "model.keras", layer("Dense"), foreign)
    error = refusal(path, trust=True)
    assert "not Keras's own" in error.what
    assert "model.export(FOLDER)" in str(error.next_step)


def test_a_folder_without_a_savedmodel(tmp_path: Path) -> None:
    with pytest.raises(SourceModelError, match=r"no saved_model\.pb"):
        open_savedmodel(tmp_path)
