"""Puts stand-ins in the place of toolchains' modules, in every process that has this folder on its path.

Python imports `sitecustomize` before anything else. Settings are a JSON file, named by SETTINGS_VARIABLE:
`modules`: names of the modules that stand_in.py plays when they are started with -m; the rest is its own.
`strikes`: a list of {module, recipe, step, number}: a real worker of that module and recipe gets the signal
of that number once it has said that it is at that step.
"""

import importlib.util
import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

SETTINGS_VARIABLE = "PHONEPROOF_TEST_STAND_INS"


class StandIns:
    """Finds stand_in.py under the names of toolchains' modules."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = frozenset(modules)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._modules:
            return None
        return importlib.util.spec_from_file_location(name, Path(__file__).with_name("stand_in.py"))


def strike(module: str, recipe: str, step: str, number: int) -> None:
    """Kill this process when its progress says that step: the vendor's code is at work then."""
    request_file = Path(sys.orig_argv[-1])
    request = json.loads(request_file.read_text(encoding="utf-8"))
    if sys.orig_argv[-2] != module or request.get("recipe", "") != recipe:
        return
    said = request_file.with_name("progress.jsonl")
    while not (said.exists() and f'"step": "{step}"' in said.read_text(encoding="utf-8")):
        time.sleep(0.001)
    os.kill(os.getpid(), number)


def install(settings: Mapping[str, Any]) -> None:
    started = sys.orig_argv[-2] if len(sys.orig_argv) > 2 and sys.orig_argv[-3] == "-m" else None
    if started is not None and started in settings.get("modules", ()):
        sys.meta_path.insert(0, StandIns([started]))
    for struck in settings.get("strikes", ()):
        if started == struck["module"]:
            threading.Thread(target=strike, kwargs=struck, daemon=True).start()


if SETTINGS_VARIABLE in os.environ:
    install(json.loads(Path(os.environ[SETTINGS_VARIABLE]).read_text(encoding="utf-8")))
