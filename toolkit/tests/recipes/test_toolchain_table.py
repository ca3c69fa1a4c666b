"""Versions of toolchains: absent, too old, untested, tested."""

import importlib.util

import pytest

from phoneproof.errors import ToolchainError
from phoneproof.recipes.rows import RECIPES
from phoneproof.recipes.runtime_table import ONNX_EXPORTERS
from phoneproof.recipes.toolchain_table import TOOLCHAINS, installed_versions, release, version_findings

ONNXRUNTIME = TOOLCHAINS["onnxruntime"]


def test_every_recipe_has_its_toolchain_and_every_toolchain_its_module() -> None:
    makers = {route.toolchain for recipe in RECIPES.values() for route in recipe.routes.values()}
    assert makers | set(ONNX_EXPORTERS.values()) == set(TOOLCHAINS)
    assert all(importlib.util.find_spec(toolchain.module) for toolchain in TOOLCHAINS.values())


def test_the_pinned_versions_raise_no_finding() -> None:
    assert version_findings(ONNXRUNTIME, ONNXRUNTIME.tested_versions) == ()


def test_this_environment_has_the_toolchain() -> None:
    assert all(installed_versions(ONNXRUNTIME).values())


def test_an_untested_version_is_a_finding() -> None:
    installed = {**ONNXRUNTIME.tested_versions, "onnxruntime": "99.1"}
    (finding,) = version_findings(ONNXRUNTIME, installed)
    assert finding.id == "TOOL-UNTESTED-VERSION"
    tested = ONNXRUNTIME.tested_versions["onnxruntime"]
    assert finding.facts == {"package": "onnxruntime", "version": "99.1", "tested": tested}


@pytest.mark.parametrize("version", [None, "1.2.3", "1.27.9"])
def test_an_absent_or_old_version_is_an_error_with_the_command(version: str | None) -> None:
    installed = {**ONNXRUNTIME.tested_versions, "onnxruntime": version}
    with pytest.raises(ToolchainError) as caught:
        version_findings(ONNXRUNTIME, installed)
    assert "phoneproof toolchain install onnxruntime" in (caught.value.next_step or "")


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("1.32.0", (1, 32)), ("1.32.0+cpu", (1, 32)), ("2.10.3rc1", (2, 10, 3)), ("x", ())],
)
def test_a_version_is_compared_by_its_release_numbers(version: str, numbers: tuple[int, ...]) -> None:
    assert release(version) == numbers
