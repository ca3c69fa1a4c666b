"""job.json: work for one device. Prose and rules stand in protocol/PROTOCOL.md."""

import hashlib
from collections.abc import Mapping

from phoneproof.errors import ProtocolError
from phoneproof.protocol.codec import dumps_canonical, from_dict, parse_json, to_dict
from phoneproof.protocol.job_checks import check_job, is_inner_path, is_plain_id
from phoneproof.protocol.job_types import (
    FILES_FOLDER,
    PROTOCOL_MAJOR,
    PROTOCOL_MINOR,
    BenchmarkCase,
    Case,
    Configuration,
    FileRef,
    InferCase,
    Interleaving,
    Job,
    Keep,
    Limits,
    LoadCase,
    ModelFiles,
    ProtocolVersion,
    RawInput,
    SampleSet,
    Shard,
    TableInput,
    configurations_of,
    samples_of,
    stored_path,
)


def new_job(
    configurations: tuple[Configuration, ...],
    samples: tuple[SampleSet, ...],
    cases: tuple[Case, ...],
    limits: Limits,
) -> Job:
    """A job with its id: sha256 of the canonical form without `job_id`. ProtocolError if it is not sound."""
    draft = Job(ProtocolVersion(), "", configurations, samples, cases, limits)
    job = Job(draft.protocol, job_digest(to_dict(draft)), configurations, samples, cases, limits)
    check_job(job)
    return job


def job_digest(content: Mapping[str, object]) -> str:
    """The job_id of job.json's content: sha256 over the canonical form of all but `job_id`."""
    rest = {key: value for key, value in content.items() if key != "job_id"}
    return hashlib.sha256(dumps_canonical(rest).encode()).hexdigest()


def read_job(text: str | bytes) -> Job:
    """Parse job.json. Versions are compared before anything else is looked at.

    ProtocolError for a text that is no job, that does not have the digest it names, or that leaves keys out:
    the digest is over what stands in the file, so no reader may need to know defaults.
    """
    content = parse_json(text, "job.json")
    check_version(content, "job.json")
    job: Job = from_dict(Job, content)
    if to_dict(job) != content:
        raise ProtocolError("A key is left out: job.json holds every key, null or not.", where="job.json")
    if job.job_id != job_digest(to_dict(job)):
        raise ProtocolError("The job does not have the digest that it names.", where="job.json: job_id")
    check_job(job)
    return job


def check_version(content: object, where: str) -> None:
    """Refuse what a program of another protocol version wrote."""
    version = content.get("protocol") if isinstance(content, dict) else None
    if not isinstance(version, dict):
        raise ProtocolError("No protocol version.", where=where)
    major, minor = version.get("major"), version.get("minor")
    if type(major) is not int or type(minor) is not int or minor < 0:
        raise ProtocolError("The protocol version is no pair of whole numbers.", where=where)
    if major != PROTOCOL_MAJOR or minor > PROTOCOL_MINOR:
        raise ProtocolError(
            f"Protocol {major}.{minor}, but this program speaks {PROTOCOL_MAJOR}.{PROTOCOL_MINOR}.",
            where=where,
            next_step="Install the same version of phoneproof and of its harness.",
        )


__all__ = [
    "FILES_FOLDER",
    "PROTOCOL_MAJOR",
    "PROTOCOL_MINOR",
    "BenchmarkCase",
    "Case",
    "Configuration",
    "FileRef",
    "InferCase",
    "Interleaving",
    "Job",
    "Keep",
    "Limits",
    "LoadCase",
    "ModelFiles",
    "ProtocolVersion",
    "RawInput",
    "SampleSet",
    "Shard",
    "TableInput",
    "check_job",
    "check_version",
    "configurations_of",
    "is_inner_path",
    "is_plain_id",
    "job_digest",
    "new_job",
    "read_job",
    "samples_of",
    "stored_path",
]
