"""Which interpreter a toolchain's worker runs on, and managed environments that are really installed."""

import json
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import phoneproof
from phoneproof.errors import StorageError, ToolchainError
from phoneproof.recipes.toolchain_table import TOOLCHAINS, Toolchain
from phoneproof.workers.environments import (
    MARKER,
    environment_of,
    install_toolchain,
    managed_environment,
)

PACKAGE = "tiny-tool"
VERSION = "1.2"


def wheel(folder: Path, name: str, version: str) -> None:
    """A wheel of one module that holds its version."""
    module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    files = {
        f"{module}.py": f"__version__ = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{module}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of small wheels that uv and pip take packages from, and from nowhere else."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheel(folder, PACKAGE, VERSION)
    wheel(folder, "numpy", "99.0")
    wheel(folder, "pillow", metadata.version("pillow"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    settings = tmp_path / "uv.toml"
    settings.write_text(f"no-index = true\nfind-links = [{str(folder)!r}]\n", encoding="utf-8")
    monkeypatch.setenv("UV_CONFIG_FILE", str(settings))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    return folder


def tiny(folder: Path, package: str = PACKAGE, version: str = VERSION) -> Toolchain:
    """A toolchain of one small package; its pin file's absolute path is taken as it is."""
    pins = folder / f"{package}-{version}.txt"
    pins.write_text(f"# tiny\n{package}=={version}\n", encoding="utf-8")
    return Toolchain("tiny", "tests.tiny", str(pins), {package: version}, 1)


def installed(folder: Path) -> str:
    """What the environment's own interpreter imports, without this one's packages."""
    code = "import tiny_tool, numpy, pillow, sys; print(tiny_tool.__version__, sys.prefix)"
    command = [str(folder / "bin" / "python"), "-I", "-c", code]
    version, prefix = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert Path(prefix).resolve() == folder.resolve()
    return version


def without_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")


@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not on the path")
def test_uv_installs_the_pins_once(wheels: Path, tmp_path: Path) -> None:
    toolchain = tiny(tmp_path)
    said: list[str] = []
    folder = install_toolchain(toolchain, tmp_path / "store", said.append)
    assert installed(folder) == VERSION
    assert [line.split()[1] for line in said] == ["venv", "pip"]
    assert json.loads((folder / MARKER).read_text()) == {"toolchain": "tiny", "pins": {PACKAGE: VERSION}}
    before = folder.stat().st_mtime_ns
    assert install_toolchain(toolchain, tmp_path / "store", said.append) == folder
    assert len(said) == 2
    assert folder.stat().st_mtime_ns == before


@pytest.mark.slow
def test_venv_and_pip_install_the_pins_where_there_is_no_uv(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_uv(monkeypatch)
    said: list[str] = []
    folder = install_toolchain(tiny(tmp_path), tmp_path / "store", said.append)
    assert installed(folder) == VERSION
    assert "-m venv" in said[0]
    assert "-m pip install" in said[1]


def test_an_installation_that_was_killed_is_no_environment_and_is_made_again(
    wheels: Path, tmp_path: Path
) -> None:
    toolchain, store = tiny(tmp_path), tmp_path / "store"
    folder = install_toolchain(toolchain, store, lambda _: None)
    (folder / MARKER).unlink()
    shutil.rmtree(next(folder.glob("lib/python*/site-packages")))
    assert managed_environment(toolchain, store) is None
    assert install_toolchain(toolchain, store, lambda _: None) == folder
    assert installed(folder) == VERSION


def test_an_environment_whose_python_is_gone_is_made_again(wheels: Path, tmp_path: Path) -> None:
    """As after an upgrade of the system's Python: the link is left, and points nowhere."""
    toolchain, store = tiny(tmp_path), tmp_path / "store"
    folder = install_toolchain(toolchain, store, lambda _: None)
    python = folder / "bin" / "python"
    python.unlink()
    python.symlink_to("/nonexistent/python3")
    assert managed_environment(toolchain, store) is None
    install_toolchain(toolchain, store, lambda _: None)
    assert installed(folder) == VERSION


def test_other_pins_are_another_environment(wheels: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    folder = install_toolchain(tiny(tmp_path), store, lambda _: None)
    assert managed_environment(tiny(tmp_path), store) is not None
    assert managed_environment(tiny(tmp_path, version="1.16.0"), store) is None
    assert folder.name.startswith("tiny-")


def test_this_interpreter_comes_first(tmp_path: Path) -> None:
    toolchain = TOOLCHAINS["onnxruntime"]
    found = environment_of(toolchain, tmp_path)
    assert (found.interpreter, found.managed, found.python_path) == (Path(sys.executable), False, ())
    assert set(found.versions) == set(toolchain.least_versions)


def test_the_managed_environment_is_used_where_this_interpreter_does_not_do(
    wheels: Path, tmp_path: Path
) -> None:
    toolchain, store = tiny(tmp_path), tmp_path / "store"
    folder = install_toolchain(toolchain, store, lambda _: None)
    found = environment_of(toolchain, store)
    assert found.managed
    assert found.interpreter == folder / "bin" / "python"
    assert found.versions == {PACKAGE: VERSION}


def test_without_either_the_error_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError) as raised:
        environment_of(tiny(tmp_path), tmp_path / "store")
    assert raised.value.next_step == "Run `phoneproof toolchain install tiny`."
    assert raised.value.facts["package"] == PACKAGE


def test_a_failed_installation_names_the_command_and_its_last_lines(wheels: Path, tmp_path: Path) -> None:
    toolchain, store = tiny(tmp_path, "phoneproof-no-such-package", "1.0"), tmp_path / "store"
    with pytest.raises(ToolchainError) as raised:
        install_toolchain(toolchain, store, lambda _: None)
    error = raised.value
    assert "pip install" in str(error.facts["command"])
    assert error.facts["exit_code"] not in (0, None)
    assert "phoneproof-no-such-package" in "\n".join(error.facts["log_tail"])  # type: ignore[arg-type]
    assert managed_environment(toolchain, store) is None


def test_a_python_that_cannot_be_started_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_uv(monkeypatch)
    monkeypatch.setattr(sys, "base_prefix", "/nonexistent")
    monkeypatch.setattr(sys, "executable", "/nonexistent/python3")
    with pytest.raises(ToolchainError) as raised:
        install_toolchain(tiny(tmp_path), tmp_path / "store", lambda _: None)
    assert raised.value.where == "/nonexistent/python3"


def test_a_store_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file, not a folder", encoding="utf-8")
    with pytest.raises(StorageError) as raised:
        install_toolchain(tiny(tmp_path), tmp_path / "store", lambda _: None)
    assert str(tmp_path / "store") in str(raised.value.where)


@pytest.mark.slow
@pytest.mark.parametrize("name", TOOLCHAINS)
def test_a_managed_environment_has_all_that_its_worker_imports(name: str, tmp_path: Path) -> None:
    """The package lies alone on the path: nothing of this interpreter's packages is there."""
    toolchain = TOOLCHAINS[name]
    folder = install_toolchain(toolchain, tmp_path / "store", lambda _: None)
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "phoneproof").symlink_to(Path(phoneproof.__file__).parent)
    code = f"import {', '.join(sorted({toolchain.module, *toolchain.calibration.values()}))}"
    command = [str(folder / "bin" / "python"), "-c", code]
    environment = {"PYTHONPATH": str(tmp_path / "path")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
