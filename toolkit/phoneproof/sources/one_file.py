"""The one-file worker: `python -m phoneproof.sources.one_file REQUEST.json` puts weights into the model file.

Request: an OnnxSourceRequest; result: {sha256, size_bytes} of ONE_FILE in the work folder. Nothing else of
the model is changed. A job then needs one file, whatever the files with the weights are called.
"""

import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phoneproof.builds.source_facts import ONE_FILE
from phoneproof.protocol.codec import from_dict
from phoneproof.protocol.work import Progress, run_worker, write_bytes_atomically
from phoneproof.sources.onnx_model import read_whole
from phoneproof.sources.planned_model import refuse_changed
from phoneproof.sources.request import OnnxSourceRequest


def write_one_file(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Write the model with its weights inside. SourceModelError as `load_source` for what is in the files."""
    wanted = from_dict(OnnxSourceRequest, request)
    progress.say("write")
    model, sha256 = read_whole(Path(wanted.path))
    refuse_changed(sha256, wanted.sha256, wanted.path)
    content = model.SerializeToString()
    write_bytes_atomically(folder / ONE_FILE, content)
    return {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}


if __name__ == "__main__":
    sys.exit(run_worker(write_one_file))
