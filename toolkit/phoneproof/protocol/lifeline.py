"""A child process that ends with its parent, however the parent ends."""

import ctypes
import os
import signal
import sys
import threading
import time
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_POLL_S: Final = 1.0


def die_with_parent(parent: int) -> None:
    """End this process when process `parent` is gone.

    Linux tells at once (prctl). A thread that looks once a second covers the other systems, and the moment
    between fork and this call.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    if sys.platform != "linux":
        threading.Thread(target=_watch, args=(parent,), daemon=True, name="lifeline").start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    os._exit(1)
