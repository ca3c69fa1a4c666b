"""Make the demo's data and model: `python -m phoneproof.demo.train --out DIR`.

DIR/calibration/<class>/*.png, DIR/evaluation/<class>/*.png   image folders, no image in both, none trained on
DIR/digits_net.py                                             the network as a Python module
DIR/digits.safetensors                                        its trained weights, a state dict, float32
DIR/digits.onnx                                               the same as ONNX
DIR/digits-logits.npy                                         its logits on the evaluation set, by class
DIR/digits.json                                               what was made, and how; written last

A folder that already holds exactly this is left as it is.
"""

import hashlib
import json
import os
import shutil
import sys
import tempfile
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import numpy as np
import numpy.typing as npt

from phoneproof.demo import digits
from phoneproof.errors import DataError, PhoneproofError, ToolchainError

if TYPE_CHECKING:
    from phoneproof.demo.digits_net import DigitsNet
    from phoneproof.demo.training import EpochEnded

MODULE_FILE: Final = "digits_net.py"
WEIGHTS_FILE: Final = "digits.safetensors"
ONNX_FILE: Final = "digits.onnx"
LOGITS_FILE: Final = "digits-logits.npy"
FILES: Final = (MODULE_FILE, WEIGHTS_FILE, ONNX_FILE, LOGITS_FILE)
FACTS_FILE: Final = "digits.json"
SETS: Final = ("calibration", "evaluation")
DEFAULT_EPOCHS: Final = 8
DEFAULT_SEED: Final = 0

_MADE_BY: Final = "phoneproof.demo.train"
_SOURCES: Final = ("digits.py", "digits_net.py", "export.py", "train.py", "training.py")
"""Modules that decide what is made here; the twin's and the worker's are not among them."""
_NEEDED: Final = {
    "torch": "torch",
    "safetensors": "safetensors",
    "sklearn": "scikit-learn",
    "onnx": "onnx",
    "onnxruntime": "onnxruntime",
    "onnxscript": "onnxscript",
}


def request_of(epochs: int, seed: int) -> dict[str, Any]:
    """What decides the result, apart from the machine's arithmetic."""
    images, labels = digits.load()
    parts = digits.split(images, labels)
    data = hashlib.sha256(digits.model_inputs(images[parts.training]).tobytes())
    data.update(labels[parts.training].tobytes())
    source = hashlib.sha256()
    for name in _SOURCES:
        source.update(Path(__file__).with_name(name).read_bytes())
    return {
        "epochs": epochs,
        "seed": seed,
        "training_data_sha256": data.hexdigest(),
        "source_sha256": source.hexdigest(),
        "versions": {name: metadata.version(name) for name in (*_NEEDED.values(), "numpy", "pillow")},
    }


def is_complete(out: Path, request: dict[str, Any]) -> bool:
    """Whether `out` holds what `request` makes, by the hashes in its facts."""
    facts = _facts_in(out)
    if facts is None or facts.get("request") != request:
        return False
    return all(
        (out / name).is_file() and _sha256(out / name) == facts["files"].get(name) for name in FILES
    ) and all(digits.folder_sha256(out / name) == facts["sets"][name]["sha256"] for name in SETS)


def make(out: Path, epochs: int, seed: int, epoch_ended: "EpochEnded") -> dict[str, Any]:
    """Make everything in `out` and return the facts, which are also in digits.json.

    Where all is there already nothing is trained, and `epoch_ended` is never called.

    Raises DataError if `out` holds other things under the same names, ToolchainError if a package is missing
    or the exported model is not the trained one.
    """
    _check_packages()
    _check_free(out)
    request = request_of(epochs, seed)
    if is_complete(out, request):
        click.echo(f"{out} is up to date.")
        return json.loads((out / FACTS_FILE).read_text(encoding="utf-8"))  # type: ignore[no-any-return]
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=out) as folder:
        facts = {"made_by": _MADE_BY, "request": request, **_make_in(Path(folder), epochs, seed, epoch_ended)}
        Path(folder, FACTS_FILE).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        # The facts come last: until then those of an earlier run do not fit, and the next run makes all anew.
        for name in (*SETS, *FILES, FACTS_FILE):
            if (out / name).is_dir():
                shutil.rmtree(out / name)
            Path(folder, name).replace(out / name)
    return facts


def _make_in(folder: Path, epochs: int, seed: int, epoch_ended: "EpochEnded") -> dict[str, Any]:
    # Read when torch is loaded. Threads that spin take the core from the one they wait for: with both
    # cores busy, an epoch took 60 s and 21 s of CPU so, and 35 s and 11 s without.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from phoneproof.demo import training

    images, labels = digits.load()
    parts = digits.split(images, labels)
    positions = {"calibration": parts.calibration, "evaluation": parts.evaluation}
    sets = {
        name: {"n": len(of_set), "sha256": digits.write_set(folder / name, images, labels, of_set)}
        for name, of_set in positions.items()
    }
    inputs, targets = digits.model_inputs(images[parts.training]), labels[parts.training]
    click.echo(f"Training on {len(inputs)} images.")
    network = training.train(inputs, targets, epochs=epochs, seed=seed, epoch_ended=epoch_ended)
    trained = training.logits_of(network, inputs)
    click.echo("Exporting to ONNX, and comparing with the trained network.")
    model = _write_model(folder, network)
    return {
        "classes": [str(label) for label in range(digits.CLASSES)],
        "preprocess": digits.PREPROCESS.to_dict(),
        "model": {**model, "train_accuracy": _accuracy(trained, targets)},
        "files": {name: _sha256(folder / name) for name in FILES},
        "sets": {"training": {"n": len(inputs)}, **sets},
    }


def _write_model(folder: Path, network: "DigitsNet") -> dict[str, Any]:
    """The network's module, weights, ONNX form and logits on the evaluation set, which is in `folder`."""
    from safetensors.torch import save

    from phoneproof.demo import digits_net, export, training
    from phoneproof.demo.agreement import check_equal

    shutil.copyfile(digits_net.__file__, folder / MODULE_FILE)
    (folder / WEIGHTS_FILE).write_bytes(save(network.state_dict()))
    files = digits.set_files(folder / "evaluation")
    inputs = digits.model_inputs(digits.read_images(files))
    exported = export.export(network, (1, *inputs.shape[1:]), folder / ONNX_FILE)
    logits = training.logits_of(network, inputs)
    np.save(folder / LOGITS_FILE, logits)
    by_onnx = export.onnx_logits(folder / ONNX_FILE, inputs)
    return {
        "opset": exported.opset,
        "ir_version": exported.ir_version,
        "parameters": exported.parameters,
        "input": {"name": export.INPUT_NAME, "dtype": "float32", "shape": [1, *inputs.shape[1:]]},
        "output": {"name": export.OUTPUT_NAME, "dtype": "float32", "shape": [1, digits.CLASSES]},
        "evaluation_accuracy": _accuracy(by_onnx, np.array([int(file.parent.name) for file in files])),
        "onnx_difference": check_equal(logits, by_onnx, ONNX_FILE),
    }


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _accuracy(logits: npt.NDArray[np.float32], labels: digits.Labels) -> float:
    return float((logits.argmax(axis=1) == labels).mean())


def _check_packages() -> None:
    missing = sorted(package for module, package in _NEEDED.items() if util.find_spec(module) is None)
    if missing:
        raise ToolchainError(
            f"The demo trains a network, and needs {', '.join(missing)} for that.",
            next_step="Run `make demo` in a checkout of phoneproof, or install the packages named.",
        )


def _check_free(out: Path) -> None:
    taken = [name for name in (*SETS, *FILES, FACTS_FILE) if (out / name).exists()]
    if taken and _facts_in(out) is None:
        raise DataError(
            f"The folder holds {', '.join(taken)}, which the demo did not make.",
            where=str(out),
            next_step="Choose another folder with --out.",
        )


def _facts_in(out: Path) -> dict[str, Any] | None:
    """The facts of an earlier run; None if there is no file of the demo's making."""
    try:
        facts = json.loads((out / FACTS_FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return facts if isinstance(facts, dict) and facts.get("made_by") == _MADE_BY else None


@click.command(help="Make the demo's image folders and train its network.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder to fill."
)
@click.option("--epochs", type=click.IntRange(min=1), default=DEFAULT_EPOCHS, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=DEFAULT_SEED, show_default=True)
def main(out: Path, epochs: int, seed: int) -> None:
    """Command line of this module; exit codes are those of the errors."""

    def say(epoch: int, loss: float) -> None:
        click.echo(f"  epoch {epoch}/{epochs}: loss {loss:.3f}")

    try:
        model = make(out, epochs, seed, say)["model"]
    except PhoneproofError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    click.echo(
        f"{out / ONNX_FILE}: {model['parameters']} parameters, "
        f"{model['evaluation_accuracy']:.1%} of the evaluation set right."
    )


if __name__ == "__main__":
    main()
