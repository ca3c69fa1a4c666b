"""Our ranges for torch's FX graph mode: an observer that collects statistics and gives qparams."""

from typing import Any, Final

import torch
from torch.ao.quantization.observer import ObserverBase

from phoneproof.errors import ToolchainError
from phoneproof.quantize.ranges import LEVELS, range_of
from phoneproof.quantize.statistics import Scratch, TensorStatistics
from phoneproof.recipes.table import Method

_SCRATCH: Final = Scratch()


class RangeObserver(ObserverBase):
    """Feeds what passes to quantize/statistics, and takes quantize/ranges.range_of for its range.

    Activations are quint8 over all 256 levels: QNNPACK adds in 32 bits, so it needs no reduced range, which
    fbgemm's 16-bit sums do (torch/ao/quantization/qconfig.py: reduce_range False for qnnpack).
    """

    quant_min: Final = 0
    quant_max: Final = LEVELS - 1
    qscheme = torch.per_tensor_affine

    def __init__(self, method: Method, percentile: float, **_: Any) -> None:
        super().__init__(dtype=torch.quint8, is_dynamic=False)
        self.method = method
        self.percentile = percentile
        self.statistics = TensorStatistics("activation")
        self.sample = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Count the values of one sample. DataError for one that is not finite."""
        if x.is_floating_point():
            self.statistics.add(x.detach().numpy(), self.sample, _SCRATCH)
            self.sample += 1
        return x

    def calculate_qparams(self, **_: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """(scale float32, zero_point int64), each of one element. ToolchainError if nothing was seen."""
        if not self.statistics.total:
            raise ToolchainError(
                f"No value of the tensor {self.statistics.name!r} was seen in the calibration set.",
                next_step="Keep the operator that makes it in float with keep_float_names.",
            )
        low, high = range_of(self.statistics.histogram(), self.method, self.percentile)
        # A tensor that is always zero: any scale holds it, and one is far from the limits of the kernels.
        scale = (high - low) / (LEVELS - 1) or 1.0
        zero_point = min(max(round(-low / scale), 0), LEVELS - 1)
        return torch.tensor([scale], dtype=torch.float32), torch.tensor([zero_point], dtype=torch.int64)
