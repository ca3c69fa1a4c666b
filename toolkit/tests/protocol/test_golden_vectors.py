"""The golden vectors that are written by hand: canonical form, names, refused jobs, what is kept, inputs."""

import copy
import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from phoneproof.errors import ProtocolError
from phoneproof.protocol.codec import dumps_canonical, from_dict, parse_json
from phoneproof.protocol.job import (
    FileRef,
    Keep,
    SampleSet,
    Shard,
    TableInput,
    is_inner_path,
    is_plain_id,
    job_digest,
    read_job,
    stored_path,
)
from phoneproof.protocol.outputs import apply_keep
from phoneproof.protocol.sample_files import SampleReader
from tests.protocol.golden_files import GOLDEN


def vectors(name: str, key: str) -> list[dict[str, Any]]:
    content: dict[str, list[dict[str, Any]]] = json.loads((GOLDEN / name).read_text(encoding="utf-8"))
    return content[key]


NAMES: dict[str, list[str]] = json.loads((GOLDEN / "names.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("vector", vectors("canonical.json", "vectors"), ids=lambda v: v["text"][:40])
def test_canonical_form(vector: dict[str, Any]) -> None:
    if vector["canonical"] is None:
        with pytest.raises(ProtocolError):
            dumps_canonical(parse_json(vector["text"], "vector"))
    else:
        text = dumps_canonical(parse_json(vector["text"].encode(), "vector"))
        assert text == vector["canonical"]
        assert hashlib.sha256(text.encode()).hexdigest() == vector["sha256"]


def test_names() -> None:
    assert [n for n in NAMES["plain_ids"] if not is_plain_id(n)] == []
    assert [n for n in NAMES["no_plain_ids"] if is_plain_id(n)] == []
    assert [n for n in NAMES["inner_paths"] if not is_inner_path(n)] == []
    assert [n for n in NAMES["no_inner_paths"] if is_inner_path(n)] == []
    assert not is_inner_path("a" * 256)
    assert not is_inner_path("\u00e9" * 128)
    assert not is_inner_path("a/" * 500 + "a")
    assert not is_inner_path("\ud800")


@pytest.mark.parametrize("refused", vectors("refused_jobs.json", "jobs"), ids=lambda r: r["about"])
def test_refused_job(refused: dict[str, Any]) -> None:
    content = json.loads((GOLDEN / "attempts" / "job.json").read_text(encoding="utf-8"))
    read_job(json.dumps(content))
    place = content
    for step in refused["place"][:-1]:
        place = place[step]
    place[refused["place"][-1]] = copy.deepcopy(refused["value"])
    if refused["place"] != ["job_id"]:
        content["job_id"] = job_digest(content)
    with pytest.raises(ProtocolError) as caught:
        read_job(json.dumps(content))
    assert "digest that it names" not in caught.value.what or refused["place"] == ["job_id"]


@pytest.mark.parametrize("missing", ["limits", "job_id", "protocol", "samples"])
def test_a_job_without_a_key_is_refused(missing: str) -> None:
    content = json.loads((GOLDEN / "attempts" / "job.json").read_text(encoding="utf-8"))
    del content[missing]
    with pytest.raises(ProtocolError):
        read_job(json.dumps(content))


def test_a_default_that_is_left_out_is_refused() -> None:
    content = json.loads((GOLDEN / "attempts" / "job.json").read_text(encoding="utf-8"))
    del content["limits"]["heartbeat_ms"]
    content["job_id"] = job_digest(content)
    with pytest.raises(ProtocolError, match="left out"):
        read_job(json.dumps(content))


def array_of(tensor: dict[str, Any]) -> NDArray[Any]:
    values = [float(v) if isinstance(v, str) else v for v in tensor["values"]]
    return np.array(values, tensor["dtype"]).reshape(tensor["shape"])


@pytest.mark.parametrize("vector", vectors("keep.json", "vectors"), ids=lambda v: v["about"])
def test_what_is_kept(vector: dict[str, Any]) -> None:
    keep = from_dict(Keep, vector["keep"])
    outputs = [array_of(one) for one in vector["outputs"]]
    if vector["kept"] is None:
        with pytest.raises(ProtocolError):
            apply_keep(keep, outputs)
        return
    kept = apply_keep(keep, outputs)
    expected = [array_of(one) for one in vector["kept"]]
    assert [(k.dtype, k.shape) for k in kept] == [(e.dtype, e.shape) for e in expected]
    for one, other in zip(kept, expected, strict=True):
        np.testing.assert_array_equal(one, other)
        if one.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(one), np.signbit(other))


@pytest.mark.parametrize("vector", vectors("samples.json", "vectors"), ids=lambda v: v["about"])
def test_u8_and_table_to_tensor(vector: dict[str, Any], tmp_path: Path) -> None:
    def put(name: str, content: bytes) -> FileRef:
        ref = FileRef(name, hashlib.sha256(content).hexdigest(), len(content))
        path = tmp_path / stored_path(ref)
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        return ref

    pixels = bytes(vector["pixels"])
    other = bytes(reversed(pixels))
    height, width, channels = vector["pixels_shape"]
    one = TableInput(
        "u8+table",
        "image",
        vector["dtype"],
        tuple(vector["shape"]),
        vector["layout"],
        (height, width, channels),
        (Shard(put("first.bin", other), 1), Shard(put("second.bin", pixels + other), 2)),
        put("table.bin", bytes.fromhex(vector["table_hex"])),
    )
    tensor = SampleReader(SampleSet("set", 3, (one,)), tmp_path).read(1)["image"]
    assert tensor.shape == tuple(vector["shape"])
    assert tensor.dtype.name == vector["dtype"]
    assert tensor.size == math.prod(vector["pixels_shape"])
    assert tensor.tobytes() == bytes.fromhex(vector["tensor_hex"])
