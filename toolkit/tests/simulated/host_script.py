"""A process that runs a job on the host, to be killed: `host_script.py ROOT JOB.json FILES.json`."""

import json
import sys
import time
from pathlib import Path

from phoneproof.devices.host import HostDevice
from phoneproof.devices.supervisor import HarnessCommand
from phoneproof.protocol.job import read_job


def main() -> None:
    root, job_file, files_file = map(Path, sys.argv[1:4])
    job = read_job(job_file.read_bytes())
    files = {digest: Path(path) for digest, path in json.loads(files_file.read_text("utf-8")).items()}
    command = HarnessCommand(
        python_path=(Path(__file__).parent,), runtimes={"faulty": "faulty_runtime:runtime"}
    )
    device = HostDevice(root, command)
    device.submit(job, files)
    while not device.events(job.job_id, 0).finished:
        time.sleep(0.02)


if __name__ == "__main__":
    main()
