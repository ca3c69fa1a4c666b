"""The demo's worker: `python -m phoneproof.demo.worker REQUEST.json` (see protocol/work.py).

Request: {out}, and {epochs}, {seed} if they are not the usual ones. Result: the facts that `make` gives, and
whether the network was trained now. Progress: step `train`, by epochs.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phoneproof.demo.train import DEFAULT_EPOCHS, DEFAULT_SEED, make
from phoneproof.protocol.work import Progress, run_worker


def prepare(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Make the demo's data and network. Raises what `make` raises."""
    epochs = int(request.get("epochs", DEFAULT_EPOCHS))
    trained = False

    def epoch_ended(epoch: int, loss: float) -> None:
        nonlocal trained
        trained = True
        progress.say("train", epoch, epochs)

    progress.say("prepare")
    facts = make(Path(request["out"]), epochs, int(request.get("seed", DEFAULT_SEED)), epoch_ended)
    return {**facts, "made_now": trained}


if __name__ == "__main__":
    sys.exit(run_worker(prepare))
