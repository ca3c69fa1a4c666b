"""What the exit code of the host harness means. Any other code is the end of the case under way."""

from typing import Final

EXIT_OK: Final = 0
EXIT_UNREADABLE: Final = 1
"""The job or its earlier events cannot be read."""
EXIT_FORKED: Final = 70
"""A copy of the runner, forked by a runtime, came back into the runner's code. EX_SOFTWARE of sysexits.h."""
EXIT_STORAGE: Final = 74
"""The disk refused the runner's own files: no case is to blame. EX_IOERR of sysexits.h."""
