"""Pins are written once, and nothing in the repository depends on one developer's machine."""

import re
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PIN_FILES = sorted(Path(ROOT, "toolkit/phoneproof/toolchains/pins").glob("*.txt"))
REQUIREMENT_FILES = sorted(Path(ROOT, "requirements").glob("*.txt"))
PIN = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*==[0-9]+(?:\.[0-9]+)*(?:\.?(?:a|b|rc|post)[0-9]+)?")


def pins_of(path: Path) -> list[str]:
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


@pytest.mark.parametrize("path", PIN_FILES + REQUIREMENT_FILES, ids=lambda path: path.stem)
def test_a_pin_file_holds_only_names_with_exact_versions(path: Path) -> None:
    pins = pins_of(path)
    assert pins
    assert [pin for pin in pins if not PIN.fullmatch(pin)] == []


@pytest.mark.parametrize("path", PIN_FILES, ids=lambda path: path.stem)
def test_an_extra_is_its_pin_file(path: Path) -> None:
    extra = path.stem.replace("_", "-")
    of_extra = set()
    for text in metadata.requires("phoneproof") or []:
        requirement = Requirement(text)
        if requirement.marker is not None and requirement.marker.evaluate({"extra": extra}):
            of_extra.add(f"{requirement.name}{requirement.specifier}")
    assert of_extra == set(pins_of(path))


def test_every_extra_has_a_pin_file() -> None:
    extras = metadata.metadata("phoneproof").get_all("Provides-Extra", [])
    # An extra is written with hyphens (PEP 685), as toolchains are named; a module has underscores.
    assert sorted(extras) == sorted(path.stem.replace("_", "-") for path in PIN_FILES)


def test_the_environment_of_the_makefile_asks_for_one_version_of_each_package() -> None:
    versions: dict[str, set[str]] = {}
    setup = (ROOT / "scripts/setup-venv").read_text(encoding="utf-8")
    (extras,) = re.findall(r"^readonly TOOLCHAINS=(\S+)$", setup, re.MULTILINE)
    pin_files = [ROOT / f"toolkit/phoneproof/toolchains/pins/{extra}.txt" for extra in extras.split(",")]
    for path in [*pin_files, *REQUIREMENT_FILES]:
        for pin in pins_of(path):
            name, _, version = pin.partition("==")
            versions.setdefault(name, set()).add(version)
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


def test_the_light_package_needs_no_toolchain() -> None:
    always = {
        requirement.name
        for requirement in map(Requirement, metadata.requires("phoneproof") or [])
        if requirement.marker is None
    }
    toolchain_packages = {pin.partition("==")[0] for path in PIN_FILES for pin in pins_of(path)}
    assert always
    assert always & toolchain_packages == set()


def tracked_files() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listing.stdout.split("\0") if name]


def test_no_tracked_file_names_this_checkout_or_home() -> None:
    here = {str(ROOT).encode(), str(Path.home()).encode() + b"/"}
    named = [
        str(path.relative_to(ROOT))
        for path in tracked_files()
        if path.is_file() and any(place in path.read_bytes() for place in here)
    ]
    assert named == []


def test_no_lock_file_records_where_packages_come_from() -> None:
    locks = {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml"}
    assert [path.name for path in tracked_files() if path.name in locks] == []
