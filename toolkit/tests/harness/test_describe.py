"""What the harness says of this machine."""

from pathlib import Path

import onnxruntime as ort

from phoneproof.devices.host import HostDevice
from phoneproof.devices.supervisor import HarnessCommand

SIMULATED = Path(__file__).parents[1] / "simulated"


def test_a_runtime_that_dies_or_is_absent_does_not_hide_the_others(tmp_path: Path) -> None:
    command = HarnessCommand(
        python_path=(SIMULATED,),
        runtimes={
            "faulty": "faulty_runtime:runtime",
            "dying": "faulty_runtime:dies_at_import",
            "absent": "no_such_module:runtime",
        },
        needed=("onnxruntime", "faulty", "dying", "absent"),
    )
    description = HostDevice(tmp_path / "root", command).describe()
    assert description.runtimes == {
        "onnxruntime": ort.__version__,
        "faulty": "1.0",
        "dying": None,
        "absent": None,
    }
    assert description.kind == "host"
    assert description.environment["int8_saturates"] in (True, False, None)
