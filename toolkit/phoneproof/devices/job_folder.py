"""A job's folder on this machine: laid out before it runs, checked after."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from phoneproof.devices.device import JobResults
from phoneproof.errors import ProtocolError, StorageError
from phoneproof.protocol.attempts import case_ends
from phoneproof.protocol.codec import to_dict
from phoneproof.protocol.event_files import read_events
from phoneproof.protocol.job import FILES_FOLDER, FileRef, Job, read_job
from phoneproof.protocol.work import write_atomically

JOB_FILE = "job.json"


def checked_text(job: Job) -> str:
    """job.json of a job that a device may act on.

    ProtocolError for one of another protocol version, with names that leave their folder, or with a job_id
    that is not its digest: the id becomes the name of a folder.
    """
    text = json.dumps(to_dict(job), ensure_ascii=False, indent=1) + "\n"
    read_job(text)
    return text


def lay_out(folder: Path, job: Job, files: Mapping[str, Path]) -> None:
    """Make the job's folder: files by hard link where the disk allows it, and job.json last.

    files: a local path for each sha256. Done again, it mends what was damaged since. ProtocolError as
    `checked_text`; StorageError for a file that is missing or has another digest, or if the disk refuses.
    """
    text = checked_text(job)
    for ref in job.files().values():
        if ref.sha256 not in files:
            raise StorageError(
                f"The job needs the file {ref.name!r}, which was not given.", where=str(folder)
            )
    try:
        for path, ref in job.files().items():
            place_file(files[ref.sha256], folder / FILES_FOLDER / path, ref)
        if not is_laid_out(folder, job):
            write_atomically(folder / JOB_FILE, text)
    except OSError as error:
        raise StorageError(
            f"The job's folder cannot be made: {error.strerror or error}.",
            where=str(error.filename or folder),
            next_step="Look at the free space and the permissions of this folder.",
        ) from error


def is_laid_out(folder: Path, job: Job) -> bool:
    """Whether the folder's job.json is this job's."""
    try:
        return read_job((folder / JOB_FILE).read_bytes()).job_id == job.job_id
    except (FileNotFoundError, ProtocolError):
        return False


def place_file(source: Path, target: Path, ref: FileRef) -> None:
    """Link or copy a file and check its digest. StorageError if it has another; OSError goes through."""
    if target.exists() and target.stat().st_size == ref.size_bytes and sha256_of(target) == ref.sha256:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name[:100]}.tmp")
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


def read_results(folder: Path, job: Job) -> JobResults:
    """Events and checked output files of a job's folder.

    ProtocolError for events that do not fit the job; StorageError for an output that is missing or has
    another digest.
    """
    events = read_events(folder)
    outputs: dict[str, Path] = {}
    for case_id, end in case_ends(job, events).items():
        if end.finished is None or end.finished.output is None:
            continue
        path = folder / end.finished.output.name
        if not path.is_file() or sha256_of(path) != end.finished.output.sha256:
            raise StorageError(
                "An output file is missing or was changed after it was written.",
                where=str(path),
                next_step=f"Remove the folder {folder} and run again.",
            )
        outputs[case_id] = path
    return JobResults(folder, events, outputs)
