"""The demo's worker: `python -m phoneproof.demo.worker REQUEST.json` (see protocol/work.py).

Request: {out}. Result: the facts that `make` gives.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phoneproof.demo.train import DEFAULT_EPOCHS, DEFAULT_SEED, make
from phoneproof.protocol.work import Progress, run_worker


def prepare(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Make the demo's data and network. Raises what `make` raises."""
    progress.say("train")
    return make(Path(request["out"]), DEFAULT_EPOCHS, DEFAULT_SEED)


if __name__ == "__main__":
    sys.exit(run_worker(prepare))
