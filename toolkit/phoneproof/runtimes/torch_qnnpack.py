"""TorchScript builds on torch's own quantized kernels, engine QNNPACK, on this machine.

The file says what it takes in a record of its own (INPUTS_RECORD), since a trace forgets shapes and dtypes.
"""

import json
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from phoneproof.errors import RuntimeUnavailableError, said
from phoneproof.runtimes.runtime import Invocation, LoadRequest, Runtime, Session

ENGINE: Final = "qnnpack"
INPUTS_RECORD: Final = "phoneproof.inputs"
"""Extra file of the archive: a JSON list of {name, dtype, shape}, in the order of the network's inputs."""

_MOVED: Final = frozenset({"aten::quantize_per_tensor", "aten::dequantize"})


def runtime() -> Runtime:
    """torch as installed."""
    return Runtime("torch_qnnpack", metadata.version("torch"), load)


def load(request: LoadRequest) -> Session:
    """A session of a TorchScript build.

    RuntimeUnavailableError for another accelerator than the CPU, and a file that is no such build.
    """
    if request.accelerator != "cpu":
        raise RuntimeUnavailableError(
            f"QNNPACK runs on the CPU, not on {request.accelerator!r}.", known=("cpu",)
        )
    if request.options:
        raise ValueError(f"torch_qnnpack has no options, so no {next(iter(request.options))!r}")
    import torch

    torch.set_num_threads(request.threads)
    use_engine()
    return ScriptSession(request.model)


def use_engine() -> None:
    """Choose QNNPACK, which packs weights when they are loaded: before that, and for as long as they run.

    RuntimeUnavailableError where this torch was built without it.
    """
    import torch

    if ENGINE not in torch.backends.quantized.supported_engines:
        raise RuntimeUnavailableError(
            "This torch has no engine QNNPACK.",
            known=tuple(torch.backends.quantized.supported_engines),
            next_step="Use a build of torch for x86-64 or arm64 out of PyPI.",
        )
    torch.backends.quantized.engine = ENGINE


class ScriptSession:
    """A loaded build. Inputs are bound by order: TorchScript has no names for them."""

    def __init__(self, path: Path) -> None:
        import torch

        from phoneproof.runtimes.torch_session import Run, Taken

        records = {INPUTS_RECORD: ""}
        try:
            module = torch.jit.load(  # type: ignore[no-untyped-call]
                str(path), map_location="cpu", _extra_files=records
            )
            taken = json.loads(records[INPUTS_RECORD])
        except (RuntimeError, ValueError) as error:
            raise RuntimeUnavailableError(
                f"The file is damaged, or no TorchScript build of phoneproof: {said(error)}.",
                where=path.name,
                next_step="Build it again.",
            ) from error
        self._taken: Sequence[Taken] = [
            Taken(one["name"], one["dtype"], tuple(one["shape"])) for one in taken
        ]
        self._run: Run | None = lambda tensors: module(*tensors)
        self.operators: Mapping[str, int] | None = {"cpu": _count(module)}
        self.accelerator_actual: str | None = "cpu"

    def prepare(self, inputs: Mapping[str, NDArray[Any]]) -> Invocation:
        """See Session."""
        from phoneproof.runtimes.torch_session import bound

        if self._run is None:
            raise ValueError("the session is closed")
        use_engine()  # another session of this process may have chosen another
        return bound(self._run, inputs, self._taken)

    def close(self) -> None:
        """See Session."""
        self._run = None


def _count(module: Any) -> int:
    """Operators of the trace that compute: all of aten and quantized but the changes of representation."""
    kinds = [node.kind() for node in module.inlined_graph.nodes()]
    return sum(kind.startswith(("aten::", "quantized::")) and kind not in _MOVED for kind in kinds)
