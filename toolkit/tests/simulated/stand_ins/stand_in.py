"""Plays every toolchain, its exports, calibrations and inspections, with faults as the settings say.

No vendor's package is loaded. What it writes has the form of a real answer and no meaning: a build's model is
the least that its format's header allows. Settings (a JSON file, see sitecustomize.py): `faults`: fault by
`MODULE` or `MODULE RECIPE`; `events`: a file that gets a line `begin ...` and `end ...` for each piece of
work; `meet`: how many builds must be under way at once before any of them goes on; `onnx`: an ONNX model.
"""

import hashlib
import json
import os
import shutil
import struct
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from phoneproof.builds.manifest import MANIFEST_FILE, MANIFEST_VERSION, BuildManifest
from phoneproof.builds.model_files import model_files, model_sha256
from phoneproof.builds.source_facts import EXPORTED_FILE, SourceFacts
from phoneproof.protocol.codec import from_dict, to_dict
from phoneproof.protocol.job import FileRef
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import Progress, run_worker
from phoneproof.recipes.rows import FILE_RECIPES, RECIPES
from phoneproof.recipes.table import Format, RecipeOptions
from tests.simulated import faulty_runtime

MODULE = sys.orig_argv[-2]
SETTINGS: Mapping[str, Any] = json.loads(Path(os.environ["PHONEPROOF_TEST_STAND_INS"]).read_text("utf-8"))
SIDE = 12


def work(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    progress.say("convert")
    what = f"{MODULE} {request.get('recipe', '')}".rstrip()
    fault = SETTINGS["faults"].get(what) or SETTINGS["faults"].get(MODULE)
    note(f"begin {what}")
    if "recipe" in request:
        meet(int(SETTINGS.get("meet", 0)))
    if fault in faulty_runtime.FAULTS:
        sys.stderr.write(f"vendor: converting {what}\n")
        sys.stderr.flush()
        faulty_runtime.FAULTS[fault]()
    answer = play(request, folder)
    if fault in SPOILS:
        sys.stderr.write(f"vendor: wrote {what}\n")
        answer = SPOILS[fault](folder, answer)
    note(f"end {what}")
    return answer


def note(line: str) -> None:
    with Path(SETTINGS["events"]).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def meet(count: int) -> None:
    """Wait until that many builds were begun; without end if they never are."""
    begun = "begin phoneproof.toolchains"
    while Path(SETTINGS["events"]).read_text(encoding="utf-8").count(begun) < count:
        time.sleep(0.01)


def play(request: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    if MODULE == "phoneproof.sources.inspect":
        return inspected(request, folder)
    if MODULE.startswith("phoneproof.sources.export_onnx"):
        shutil.copyfile(SETTINGS["onnx"], folder / "model.onnx")
        return {"file": "model.onnx", "sha256": digest(folder / "model.onnx"), "size_bytes": 1}
    if MODULE.startswith("phoneproof.quantize."):
        return calibrated(request, folder)
    return built(request, folder)


def inspected(request: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    exported = None
    if request["format"] == "pytorch":
        (folder / EXPORTED_FILE).write_bytes(b"PK\x03\x04 a program")
        exported = FileRef(EXPORTED_FILE, digest(folder / EXPORTED_FILE), 14)
    facts = SourceFacts(
        sha256=hashlib.sha256(str(request["format"]).encode()).hexdigest(),
        size_bytes=100_000,
        files=(),
        inputs=(TensorSpec("image", "float32", (1, 3, SIDE, SIDE)),),
        outputs=(TensorSpec("scores", "float32", (1, 2)),),
        operators={"conv": 2},
        parameters=1_000,
        exported=exported,
    )
    return to_dict(facts)  # type: ignore[no-any-return]


def calibrated(request: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    entries = []
    for number, asked in enumerate(request["methods"]):
        content = {"version": 1, **asked, "samples": 20, "tensors": {"image": [0.0, 1.0]}}
        content["calibration_sha256"] = request["calibration_sha256"]
        (folder / f"ranges-{number}.json").write_text(json.dumps(content), encoding="utf-8")
        entries.append({**asked, "file": f"ranges-{number}.json"})
    return {"ranges": entries, "samples": 20, "tensors": 1}


def built(request: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    if request.get("ranges") is not None:
        json.loads(Path(request["ranges"]).read_text(encoding="utf-8"))
    name = request.get("recipe")
    recipe = RECIPES[name] if name else FILE_RECIPES[Format(request["format"])]
    out = folder / request["out"]
    out.mkdir(parents=True, exist_ok=True)
    model = write_model(out, recipe.format)
    files = model_files(model)
    manifest = BuildManifest(
        version=MANIFEST_VERSION,
        recipe=recipe.name,
        options=from_dict(RecipeOptions, request.get("options", {})),
        format=recipe.format.value,
        model_file=model.name,
        sha256=model_sha256(model),
        size_bytes=sum(file.size_bytes for file in files),
        source_sha256=request["source_sha256"],
        calibration_sha256=request.get("calibration_sha256"),
        inputs=tuple(from_dict(TensorSpec, one) for one in request["source_inputs"]),
        outputs=tuple(from_dict(TensorSpec, one) for one in request["source_outputs"]),
        operators={recipe.precision.value: 3},
        float_operators=(),
        floor=recipe.floor,
        tool_versions={},
        toolchain=MODULE,
        toolchain_revision=1,
        precision=recipe.precision,
        files=files if model.is_dir() else (),
    )
    (out / MANIFEST_FILE).write_text(json.dumps(to_dict(manifest)), encoding="utf-8")
    return {"manifest": MANIFEST_FILE, "findings": []}


def write_model(out: Path, format_: Format) -> Path:
    if format_ is Format.ONNX:
        return Path(shutil.copyfile(SETTINGS["onnx"], out / "model.onnx"))
    if format_ is Format.COREML:
        package = out / "model.mlpackage"
        (package / "Data").mkdir(parents=True)
        (package / "Data" / "model.mlmodel").write_bytes(b"specification")
        entries = {"rootModelIdentifier": "0", "itemInfoEntries": {"0": {"path": "model.mlmodel"}}}
        (package / "Manifest.json").write_text(json.dumps(entries), encoding="utf-8")
        return package
    names = {Format.TFLITE: ("model.tflite", b"TFL3"), Format.EXECUTORCH: ("model.pte", b"ET12")}
    name, magic = names.get(format_, ("model.pt", b"    "))
    (out / name).write_bytes(struct.pack("<I", 16) + magic + bytes(60))
    return out / name


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


Spoil = Callable[[Path, Mapping[str, Any]], Mapping[str, Any]]


def model_in(folder: Path) -> Path:
    """The file of the model, in a package its specification."""
    return next(p for p in sorted((folder / "out").rglob("model.*")) if p.is_file())


def and_say_so(folder: Path) -> None:
    """Make build.json true of the spoilt model: the toolchain did not notice."""
    manifest = json.loads((folder / "out" / MANIFEST_FILE).read_text(encoding="utf-8"))
    model = folder / "out" / manifest["model_file"]
    manifest["sha256"] = model_sha256(model)
    (folder / "out" / MANIFEST_FILE).write_text(json.dumps(manifest), encoding="utf-8")


def no_folder(folder: Path, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    shutil.rmtree(folder / "out")
    return answer


def no_manifest(folder: Path, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    (folder / "out" / MANIFEST_FILE).unlink()
    return answer


def half_a_manifest(folder: Path, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    path = folder / "out" / MANIFEST_FILE
    path.write_bytes(path.read_bytes()[:100])
    return answer


def another_build(folder: Path, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    path = folder / "out" / MANIFEST_FILE
    manifest = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**manifest, "source_sha256": "0" * 64}), encoding="utf-8")
    return answer


def manifest_of_elsewhere(folder: Path, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    path = folder / "out" / MANIFEST_FILE
    manifest = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**manifest, "model_file": "../request.json"}), encoding="utf-8")
    return answer


def no_model(folder: Path, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    model_in(folder).unlink()
    return answer


def truncated_after_all(folder: Path, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Cut behind the toolchain's back: build.json has the digest of the whole file."""
    path = model_in(folder)
    path.write_bytes(path.read_bytes()[:-7])
    return answer


def empty(folder: Path, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    path = model_in(folder)
    if path.parent.name == "Data":  # a package without its specification
        path.unlink()
    else:
        path.write_bytes(b"")
    and_say_so(folder)
    return answer


def noise(folder: Path, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    path = model_in(folder)
    if path.parent.name == "Data":
        (path.parents[1] / "Manifest.json").write_bytes(bytes(range(256)))
    else:
        path.write_bytes(bytes(range(256)) * 4)
    and_say_so(folder)
    return answer


def no_findings(_: Path, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"manifest": answer["manifest"]}


def no_export(folder: Path, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    (folder / answer["file"]).unlink()
    return answer


def half_an_export(folder: Path, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    path = folder / answer["file"]
    path.write_bytes(path.read_bytes()[:-50])
    return {**answer, "sha256": digest(path)}


def another_export(folder: Path, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**answer, "sha256": "0" * 64}


def no_ranges(folder: Path, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    (folder / answer["ranges"][0]["file"]).unlink()
    return answer


def half_the_ranges(folder: Path, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    path = folder / answer["ranges"][0]["file"]
    path.write_bytes(path.read_bytes()[:20])
    return answer


def ranges_of_another_set(folder: Path, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    path = folder / answer["ranges"][0]["file"]
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, "calibration_sha256": "0" * 64}), encoding="utf-8")
    return answer


def ranges_not_asked_for(_: Path, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**answer, "ranges": answer["ranges"][:-1]}


def no_program(folder: Path, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    (folder / EXPORTED_FILE).unlink(missing_ok=True)
    return answer


SPOILS: Mapping[str, Spoil] = {
    "no-folder": no_folder,
    "no-manifest": no_manifest,
    "half-a-manifest": half_a_manifest,
    "another-build": another_build,
    "manifest-of-elsewhere": manifest_of_elsewhere,
    "no-model": no_model,
    "truncated-after-all": truncated_after_all,
    "empty": empty,
    "noise": noise,
    "no-findings": no_findings,
    "no-export": no_export,
    "half-an-export": half_an_export,
    "another-export": another_export,
    "no-ranges": no_ranges,
    "half-the-ranges": half_the_ranges,
    "ranges-of-another-set": ranges_of_another_set,
    "ranges-not-asked-for": ranges_not_asked_for,
    "no-program": no_program,
}

if __name__ == "__main__":
    sys.exit(run_worker(work))
