"""A worker that misbehaves as its request says."""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phoneproof.errors import RecipeError
from phoneproof.protocol.work import ERROR_FILE, RESULT_FILE, Progress, run_worker
from tests.simulated import faulty_runtime


def work(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    fault = str(request["fault"])
    if fault == "none":
        for done in range(3):
            progress.say("count", done + 1, 3)
        return {"sum": sum(request["numbers"]), "text": "Ünïcode 溢出"}
    if fault == "refuse":
        raise RecipeError(
            "No such option.", where="recipe", next_step="Remove it.", option="x", seen=("a", "b")
        )
    if fault == "raise":
        raise faulty_runtime.VendorError("the graph has no kernel for Ünïcode")
    if fault == "half-a-result":
        (folder / RESULT_FILE).write_text('{"sum": 3', encoding="utf-8")
        os._exit(0)
    if fault == "result-then-crash":
        (folder / RESULT_FILE).write_text('{"sum": 3}', encoding="utf-8")
        faulty_runtime.segfault()
    if fault == "list-as-result":
        return [1, 2]  # type: ignore[return-value]
    if fault == "nan-as-result":
        return {"sum": float("nan")}
    if fault == "unknown-class":
        (folder / ERROR_FILE).write_text('{"class": "os.system", "what": 3, "facts": [1]}', encoding="utf-8")
        os._exit(1)
    if fault == "clashing-facts":
        error = '{"class": "ToolchainError", "what": "w", "facts": {"where": 1, "code": 5, "deep": {"a": 1}}}'
        (folder / ERROR_FILE).write_text(error, encoding="utf-8")
        os._exit(1)
    if fault == "garbage-progress":
        (folder / "progress.jsonl").write_bytes(
            b'\xff\x00\n{"step": 1}\n[]\n{"step":"s","done":null,"total":2}\n{"st'
        )
        time.sleep(0.3)
        return {}
    faulty_runtime.FAULTS[fault]()
    return {}


if __name__ == "__main__":
    sys.exit(run_worker(work))
