"""What a toolchain's worker handed over, checked before it is kept.

A vendor's converter may write half a file and say that all is well, and what is once in the store serves
every later run. So no answer is taken at its word: files are there, have their digests, and are what they
are called.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phoneproof.builds.manifest import MANIFEST_FILE, BuildManifest
from phoneproof.builds.model_files import model_sha256
from phoneproof.errors import BuildFileError, ProtocolError, ToolchainError
from phoneproof.findings import Finding
from phoneproof.protocol.codec import from_dict
from phoneproof.recipes.build_headers import SUFFIXES, read_build_header
from phoneproof.recipes.table import Recipe
from phoneproof.workers.watched import log_tail
from phoneproof.workers.worker import LOG_FILE


@dataclass(frozen=True)
class HandedOver:
    """A worker's answer. module: what ran. work: its work folder. result: what it said at its end."""

    module: str
    work: Path
    result: Mapping[str, Any]

    def refused(self, what: str) -> ToolchainError:
        """The error for an answer that cannot be used, with the log."""
        return ToolchainError(
            f"The toolchain ended without an error, but {what}.",
            where=self.module,
            next_step="Look into the log, and run the same command again.",
            log=str(self.work / LOG_FILE),
            log_tail=log_tail(self.work / LOG_FILE),
        )

    def file(self, name: str, sha256: object) -> Path:
        """A file of the work folder that has this digest. ToolchainError for any other."""
        path = self.work / name
        if not path.is_file():
            raise self.refused(f"{name} is missing")
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            raise self.refused(f"{name} is not the file that it wrote: its sha256 is another")
        return path


def check_build(answer: HandedOver, recipe: Recipe, request: Mapping[str, Any]) -> tuple[Finding, ...]:
    """The findings of a build that is whole, in the folder `out` of the request.

    ToolchainError where build.json or the model is missing, empty, truncated or not what was asked for.
    """
    out = answer.work / str(request["out"])
    findings = _findings(answer)
    try:
        manifest = read_manifest(out)
    except FileNotFoundError:
        raise answer.refused(f"{MANIFEST_FILE} is missing") from None
    except (OSError, ValueError, TypeError, ProtocolError) as error:
        raise answer.refused(f"{MANIFEST_FILE} cannot be read: {str(error)[:200]}") from error
    asked = (recipe.name, recipe.format.value, request["source_sha256"])
    if (manifest.recipe, manifest.format, manifest.source_sha256) != asked:
        raise answer.refused(f"{MANIFEST_FILE} tells of another build")
    _check_model(answer, out, manifest, recipe)
    return findings


def _findings(answer: HandedOver) -> tuple[Finding, ...]:
    try:
        return tuple(from_dict(Finding, item) for item in answer.result["findings"])
    except (KeyError, TypeError, ProtocolError) as error:
        raise answer.refused(f"its result has no findings: {str(error)[:200]}") from error


def _check_model(answer: HandedOver, out: Path, manifest: BuildManifest, recipe: Recipe) -> None:
    name = manifest.model_file
    model = out / name
    if Path(name).name != name or not model.exists():
        raise answer.refused(f"the model {name[:80]!r} is missing")
    if model.is_file() and model.stat().st_size == 0:
        raise answer.refused(f"the model {name} is empty")
    if model_sha256(model) != manifest.sha256:
        raise answer.refused(f"the model {name} is not the one that {MANIFEST_FILE} tells of")
    if recipe.format in SUFFIXES.values():
        try:
            read_build_header(model)
        except BuildFileError as error:
            raise answer.refused(f"{name} is no whole model: {error.what}") from error


def read_manifest(folder: Path) -> BuildManifest:
    """build.json of a build's folder."""
    return from_dict(BuildManifest, json.loads((folder / MANIFEST_FILE).read_text(encoding="utf-8")))


def check_ranges(
    answer: HandedOver, methods: Sequence[tuple[str, float | None]], calibration_sha256: str
) -> tuple[Path, ...]:
    """The files with the ranges of each (method, percentile), in the worker's order.

    ToolchainError where one is missing, unreadable, or of another method or calibration set.
    """
    try:
        entries = [(e["method"], e["percentile"], str(e["file"])) for e in answer.result["ranges"]]
    except (KeyError, TypeError) as error:
        raise answer.refused("its result names no ranges") from error
    if sorted((m, p or 0.0) for m, p, _ in entries) != sorted((m, p or 0.0) for m, p in methods):
        raise answer.refused("the ranges are not of the methods that were asked for")
    for method, percentile, name in entries:
        if Path(name).name != name or not (answer.work / name).is_file():
            raise answer.refused(f"the ranges {name[:80]!r} are missing")
        try:
            content = json.loads((answer.work / name).read_text(encoding="utf-8"))
            told = (content["method"], content["percentile"], content["calibration_sha256"])
        except (ValueError, KeyError, TypeError) as error:
            raise answer.refused(f"the ranges {name} cannot be read") from error
        if told != (method, percentile, calibration_sha256):
            raise answer.refused(f"the ranges {name} are of another method or calibration set")
    return tuple(answer.work / name for _, _, name in entries)


def check_onnx_export(answer: HandedOver, name: str) -> Path:
    """The exported ONNX model. ToolchainError where it is missing, damaged or truncated."""
    path = answer.file(name, answer.result.get("sha256"))
    try:
        read_build_header(path)
    except BuildFileError as error:
        raise answer.refused(f"{name} is no whole model: {error.what}") from error
    return path
