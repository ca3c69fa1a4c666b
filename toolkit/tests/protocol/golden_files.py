"""Where the golden files are, and the three modes of keeping them.

PHONEPROOF_GOLDEN=never (default, and in CI): a missing or different file fails the test. missing: files that
are not there are written. all: every file is written anew; read the difference before committing it.
"""

import os
from pathlib import Path

GOLDEN = Path(__file__).parents[3] / "protocol" / "golden"


def keep(path: Path, content: bytes) -> bytes:
    """The content of a golden file after the mode was applied."""
    mode = os.environ.get("PHONEPROOF_GOLDEN", "never")
    if mode not in ("never", "missing", "all"):
        raise ValueError(f"PHONEPROOF_GOLDEN={mode}")
    if mode == "all" or (mode == "missing" and not path.exists()):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return path.read_bytes() if path.exists() else b""
