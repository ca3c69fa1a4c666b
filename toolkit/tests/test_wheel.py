"""What an installed phoneproof carries with it."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Written by Python and by tools into the source tree; never part of it.
GENERATED = ("__pycache__", ".mypy_cache", ".ruff_cache")


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_a_wheel_holds_every_file_of_the_package(wheel_names: set[str]) -> None:
    package = ROOT / "toolkit" / "phoneproof"
    sources = {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.is_file() and not any(part in GENERATED for part in path.parts)
    }
    assert sources - wheel_names == set()


def test_a_wheel_holds_every_schema_of_the_protocol(wheel_names: set[str]) -> None:
    schemas = {f"phoneproof/protocol/schema/{path.name}" for path in Path(ROOT, "protocol/schema").iterdir()}
    assert schemas
    assert schemas - wheel_names == set()


def test_a_wheel_holds_no_tests(wheel_names: set[str]) -> None:
    tops = {name.partition("/")[0] for name in wheel_names}
    assert sorted(top for top in tops if not top.endswith(".dist-info")) == ["phoneproof"]
