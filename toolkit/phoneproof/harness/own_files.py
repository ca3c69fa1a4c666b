"""What the harness does when the disk refuses its own files: it leaves at once and blames no case."""

import contextlib
import os
import sys
from typing import NoReturn

from phoneproof.protocol.exit_codes import EXIT_STORAGE


def leave_for_storage(error: Exception) -> NoReturn:
    """End the process with EXIT_STORAGE.

    Not an exception: what could not be written leaves a torn line, and nothing may be written after it, by
    no thread and by no `finally` on the way out.
    """
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
    os._exit(EXIT_STORAGE)
