"""Each network is made and run once, by the tests of its module."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.networks.facts import Facts
from tests.networks.project import NETWORKS, NotFetchedError, prepare, run


@pytest.fixture(scope="module")
def run_network(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Facts]:
    """Makes a network, runs its plan in a store of its own, and gives what came out."""

    def made(module: str) -> Facts:
        (network,) = (one for one in NETWORKS if one.module == module)
        folder: Path = tmp_path_factory.mktemp(module)
        try:
            project = prepare(network, folder / "project")
        except NotFetchedError as error:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(f"the wheels of wheels.txt cannot be fetched: {error}")
        return Facts(run(project, folder / "store"))

    return made
