"""What a .tflite build with float16 weights must compute: the float32 conversion with those weights rounded.

LiteRT widens float16 weights to float32 when it loads a file, and computes in float32. So on one machine the
build equals the float32 conversion of the same source whose weights went through float16, to the last bit:
MobileNetV2, of Keras, and basic-pitch do. Against the source a network that takes logarithms of a spectrum
keeps 25 dB of what float32 gives, and a limit that passes it passes wrong builds of others.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from phoneproof.errors import ToolchainError

_FLOAT32, _FLOAT16 = "FLOAT32", "FLOAT16"
_MOST: Final = 65504.0


def with_rounded_weights(plain: bytes, build: bytes, place: str) -> bytes:
    """The float32 file `plain` with each constant rounded to float16 that `build` holds in float16.

    ToolchainError where `build` holds something in float16 that is no constant of `plain`, or that float16
    cannot hold.
    """
    content = bytearray(plain)
    wanted = {values.tobytes() for values in _constants(build, _FLOAT16)}
    found = set()
    for values in _constants(content, _FLOAT32):
        wide: NDArray[np.float32] = values.view(np.float32)
        with np.errstate(over="ignore"):
            narrow = wide.astype(np.float16)
        key = narrow.tobytes()
        if key not in wanted:
            continue
        found.add(key)
        if not np.isfinite(narrow).all() and np.isfinite(wide).all():
            raise ToolchainError(
                f"A weight of {float(np.abs(wide).max()):g} is beyond float16, which ends at {_MOST:g}.",
                where=place,
                next_step="Use a float32 or int8 recipe, or train with weight decay.",
            )
        wide[:] = narrow
    if wanted - found:
        raise ToolchainError(
            f"{len(wanted - found)} of the build's {len(wanted)} float16 constants are not what rounding the "
            "float32 conversion's gives.",
            where=place,
            next_step="This is a fault of the converter: try another version of it, or use a float32 recipe.",
        )
    return bytes(content)


def _constants(content: bytes | bytearray, dtype: str) -> Iterator[NDArray[np.uint8]]:
    """The bytes of each constant of a dtype, once; those of a bytearray can be written."""
    from ai_edge_litert import schema_py_generated as schema

    model: Any = schema.Model.GetRootAs(content, 0)
    graphs = (model.Subgraphs(index) for index in range(model.SubgraphsLength()))
    tensors = [graph.Tensors(index) for graph in graphs for index in range(graph.TensorsLength())]
    kind = getattr(schema.TensorType, dtype)
    for number in sorted({tensor.Buffer() for tensor in tensors if tensor.Type() == kind}):
        buffer = model.Buffers(number)
        if buffer.DataLength():
            yield buffer.DataAsNumpy()
