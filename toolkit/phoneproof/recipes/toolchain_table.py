"""The closed table of toolchains: what each needs and with which versions it is tested.

Light on purpose: `doctor` reads it without loading any toolchain. The tested versions are those of the
toolchain's pin file, which is also what the extra and the managed environment install.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata, resources
from typing import Final

from phoneproof.errors import ToolchainError
from phoneproof.findings import Finding
from phoneproof.recipes.table import Method


@dataclass(frozen=True)
class Toolchain:
    """One row.

    module: started as `python -m MODULE REQUEST.json`. pin_file: in the folder toolchains/pins.
    least_versions: package name to the oldest version that works. revision: part of every build's cache key;
    raised whenever our code would make another build of the same request.
    calibration: module of the worker that makes ranges, by method; a toolchain collects the ranges of the
    other methods itself, out of the samples. memory_bytes: what a build of a small model needs.
    """

    name: str
    module: str
    pin_file: str
    least_versions: Mapping[str, str]
    revision: int
    calibration: Mapping[Method, str] = field(default_factory=dict)
    memory_bytes: int = 1_000_000_000

    @property
    def pinned(self) -> Mapping[str, str]:
        """Package name to version, of every line of the pin file."""
        return read_pins(self.pin_file)

    @property
    def tested_versions(self) -> Mapping[str, str]:
        """Package name to the version that the pin file names; packages in `least_versions` only."""
        pins = read_pins(self.pin_file)
        return {package: pins[package] for package in self.least_versions}


TOOLCHAINS: Final[Mapping[str, Toolchain]] = {
    row.name: row
    for row in (
        Toolchain(
            name="onnxruntime",
            module="phoneproof.toolchains.onnxruntime",
            pin_file="onnxruntime.txt",
            # Tried from 1.21.0 on: up to 1.25.1 the QOperator form clips a large bias beside tiny weights to
            # the int32 range without an error (onnxruntime issue 11415); 1.28.0 passes all tests.
            least_versions={"onnx": "1.18.0", "onnxruntime": "1.28.0"},
            revision=2,
            calibration=dict.fromkeys(Method, "phoneproof.quantize.calibrate"),
            memory_bytes=500_000_000,
        ),
        Toolchain(
            name="tflite",
            module="phoneproof.toolchains.tflite",
            pin_file="tflite.txt",
            least_versions={
                "tensorflow": "2.21.0",
                "keras": "3.10.0",
                "ai-edge-litert": "2.3.0",
                "litert-quantizer": "0.11.0",
            },
            revision=2,
            # minmax too: TensorFlow's own calibrator takes a sum for the tensor that it overwrote in place.
            calibration=dict.fromkeys(Method, "phoneproof.quantize.calibrate_tflite"),
            memory_bytes=2_000_000_000,
        ),
        Toolchain(
            name="litert-torch",
            module="phoneproof.toolchains.litert_torch",
            pin_file="litert_torch.txt",
            least_versions={"litert-torch": "0.10.0", "torch": "2.13.0"},
            revision=1,
            memory_bytes=2_500_000_000,
        ),
        Toolchain(
            name="coreml",
            module="phoneproof.toolchains.coreml",
            pin_file="coreml.txt",
            least_versions={"coremltools": "9.0", "torch": "2.13.0", "torchao": "0.18.0"},
            revision=1,
            calibration=dict.fromkeys(Method, "phoneproof.quantize.calibrate_torch"),
            memory_bytes=1_500_000_000,
        ),
        Toolchain(
            name="tensorflow-coreml",
            module="phoneproof.toolchains.coreml_tensorflow",
            pin_file="tensorflow_coreml.txt",
            least_versions={
                "tensorflow": "2.21.0",
                "keras": "3.10.0",
                "coremltools": "9.0",
                "torch": "2.13.0",
            },
            revision=2,
            memory_bytes=2_500_000_000,
        ),
        Toolchain(
            name="executorch",
            module="phoneproof.toolchains.executorch",
            pin_file="executorch.txt",
            least_versions={"executorch": "1.5.1", "torch": "2.13.0", "torchao": "0.18.0"},
            revision=1,
            calibration=dict.fromkeys(Method, "phoneproof.quantize.calibrate_torch"),
            memory_bytes=1_500_000_000,
        ),
        Toolchain(
            name="torch-onnx",
            module="phoneproof.sources.export_onnx",
            pin_file="torch_onnx.txt",
            least_versions={
                "torch": "2.13.0",
                "onnx": "1.18.0",
                "onnxscript": "0.7.0",
                "onnxruntime": "1.28.0",
            },
            revision=1,
            memory_bytes=1_500_000_000,
        ),
        Toolchain(
            name="tensorflow-onnx",
            module="phoneproof.sources.export_onnx_tensorflow",
            pin_file="tensorflow_onnx.txt",
            least_versions={"tensorflow": "2.21.0", "keras": "3.10.0", "tf2onnx": "1.17.0"},
            revision=1,
            memory_bytes=2_000_000_000,
        ),
        Toolchain(
            name="torch-qnnpack",
            module="phoneproof.toolchains.torch_qnnpack",
            pin_file="torch_qnnpack.txt",
            least_versions={"torch": "2.13.0", "safetensors": "0.5.0"},
            revision=2,
            memory_bytes=1_000_000_000,
        ),
    )
}


@cache
def read_pins(pin_file: str) -> Mapping[str, str]:
    """Package name to version out of the `name==version` lines of a pin file."""
    text = resources.files("phoneproof").joinpath("toolchains", "pins", pin_file).read_text(encoding="utf-8")
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return dict(line.split("==", 1) for line in lines if line)


def installed_versions(toolchain: Toolchain) -> dict[str, str | None]:
    """Version of each needed package in this interpreter, None where absent. Nothing is imported."""
    found: dict[str, str | None] = {}
    for package in toolchain.least_versions:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def version_findings(toolchain: Toolchain, installed: Mapping[str, str | None]) -> tuple[Finding, ...]:
    """TOOL-UNTESTED-VERSION for each package of another version than tested.

    Raises ToolchainError for a package that is absent or older than the least version.
    """
    findings: list[Finding] = []
    for package, least in toolchain.least_versions.items():
        version = installed.get(package)
        if version is None or release(version) < release(least):
            what = "is not installed" if version is None else f"has version {version}, older than {least}"
            raise ToolchainError(
                f"The package {package} {what}.",
                where=f"toolchain {toolchain.name}",
                next_step=f"Run `phoneproof toolchain install {toolchain.name}`.",
                package=package,
                version=version,
                least=least,
            )
        tested = toolchain.tested_versions[package]
        if release(version) != release(tested):
            facts = {"package": package, "version": version, "tested": tested}
            findings.append(Finding.of("TOOL-UNTESTED-VERSION", toolchain.name, **facts))
    return tuple(findings)


def release(version: str) -> tuple[int, ...]:
    """The release part of a PEP 440 version as numbers, without trailing zeros: 1.32.0+cpu → (1, 32)."""
    match = re.match(r"v?(?:\d+!)?(\d+(?:\.\d+)*)", version)
    numbers = [int(part) for part in match.group(1).split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
