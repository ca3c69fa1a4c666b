"""The host with a runtime that misbehaves on request (tests/simulated/faulty_runtime.py)."""

from pathlib import Path

from phoneproof.devices.device import JobResults
from phoneproof.devices.supervisor import HarnessCommand
from phoneproof.protocol.job import Limits
from phoneproof.protocol.outputs import read_outputs

SIMULATED = Path(__file__).parents[1] / "simulated"
FAULTY = HarnessCommand(
    python_path=(SIMULATED,),
    runtimes={"faulty": "faulty_runtime:runtime", "dying": "faulty_runtime:dies_at_import"},
)
LIMITS = Limits(sample_timeout_ms=1_000, load_timeout_ms=20_000, memory_bytes=300 * 2**20)


def kept(results: JobResults, case_id: str) -> dict[int, float]:
    """The one number that each sample's output holds."""
    return {sample: float(tensors[0][0]) for sample, tensors in read_outputs(results.outputs[case_id])}


def all_but(count: int, *bad: int) -> dict[int, float]:
    """What `kept` must give for `count` samples of which some are bad."""
    return {sample: 2.0 * sample for sample in range(count) if sample not in bad}
