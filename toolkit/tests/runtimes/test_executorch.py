"""The ExecuTorch runtime without a build; tests/toolchains/test_executorch.py runs builds in it."""

from importlib import metadata
from pathlib import Path

import pytest

from phoneproof.errors import RuntimeUnavailableError
from phoneproof.runtimes.registry import open_runtime
from phoneproof.runtimes.runtime import LoadRequest

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own


def test_it_has_its_packages_version() -> None:
    assert open_runtime("executorch").version == metadata.version("executorch")


@pytest.mark.parametrize("content", [b"", b"no program" * 50, b"\0\0\0\0ET12" + b"\0" * 100])
def test_what_is_no_program_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.pte").write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.pte is not an ExecuTorch program, or is damaged"):
        open_runtime("executorch").load(LoadRequest(tmp_path / "x.pte", "cpu", False, 1, {}))


def test_other_accelerators_and_options_are_refused(tmp_path: Path) -> None:
    load = open_runtime("executorch").load
    with pytest.raises(RuntimeUnavailableError, match="no accelerator 'gpu'"):
        load(LoadRequest(tmp_path / "x.pte", "gpu", False, 1, {}))
    with pytest.raises(ValueError, match="no option 'xnnpack'"):
        load(LoadRequest(tmp_path / "x.pte", "cpu", False, 1, {"xnnpack": "0"}))
