"""A toolchain worker that crashes or hangs for some recipes and is the real one for the others."""

import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phoneproof.protocol.work import Progress, run_worker
from phoneproof.toolchains.onnxruntime import build


def work(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    if request["recipe"] == "onnx-int8-dynamic":
        sys.stderr.write("converting\nterminate called after throwing an instance of 'vendor'\n")
        os.kill(os.getpid(), signal.SIGSEGV)
    if request["recipe"] == "onnx-int8" and request["options"]["method"] == "entropy":
        time.sleep(600)
    return build(request, folder, progress)


if __name__ == "__main__":
    sys.exit(run_worker(work))
