"""A job's folder on this machine: laid out before it runs, checked after."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from phoneproof.devices.device import JobResults
from phoneproof.errors import StorageError
from phoneproof.protocol.codec import to_dict
from phoneproof.protocol.event_files import read_events
from phoneproof.protocol.events import OUTPUTS_FOLDER, CaseFinished
from phoneproof.protocol.job import FileRef, Job
from phoneproof.protocol.work import write_atomically


def lay_out(folder: Path, job: Job, files: Mapping[str, Path]) -> None:
    """Make the job's folder: files by hard link where the disk allows it, and job.json last.

    A folder that has its job.json is complete and left alone.
    """
    if (folder / "job.json").exists():
        return
    for ref in job.files().values():
        if ref.sha256 not in files:
            raise StorageError(
                f"The job needs the file {ref.name!r}, which was not given.", where=str(folder)
            )
        place_file(files[ref.sha256], folder / "files" / ref.sha256 / ref.name, ref)
    for configuration in job.configurations:
        model = configuration.model
        if len(model.files) > 1 or model.files[0].name != model.entry:
            for ref in model.files:
                place_file(files[ref.sha256], folder / "files" / model.entry / ref.name, ref)
    write_atomically(folder / "job.json", _job_text(job))


def place_file(source: Path, target: Path, ref: FileRef) -> None:
    """Link or copy a file and check its digest. StorageError if it has another, or the disk is full."""
    if target.exists() and target.stat().st_size == ref.size_bytes and sha256_of(target) == ref.sha256:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        try:
            os.link(source, temporary)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
                raise
            shutil.copyfile(source, temporary)
        found = sha256_of(temporary)
        if found != ref.sha256:
            raise StorageError(
                f"The file {ref.name!r} has the digest {found[:12]}…, not {ref.sha256[:12]}….",
                where=str(source),
                next_step="Remove it from the store (`phoneproof doctor` names the folder) and run again.",
            )
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    """Digest of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_results(folder: Path) -> JobResults:
    """Events and checked output files of a job's folder. StorageError for an output with another digest."""
    events = read_events(folder)
    outputs: dict[str, Path] = {}
    for event in events:
        if isinstance(event, CaseFinished) and event.output is not None:
            path = folder / OUTPUTS_FOLDER / f"{event.case_id}.bin"
            if not path.exists() or sha256_of(path) != event.output.sha256:
                raise StorageError(
                    "An output file is missing or was changed after it was written.",
                    where=str(path),
                    next_step=f"Remove the folder {folder} and run again.",
                )
            outputs[event.case_id] = path
    return JobResults(folder, events, outputs)


def _job_text(job: Job) -> str:
    return json.dumps(to_dict(job), ensure_ascii=False, indent=1) + "\n"
