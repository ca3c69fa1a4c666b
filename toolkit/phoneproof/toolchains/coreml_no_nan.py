"""TensorFlow's division that gives zero where the divisor is zero, for Core ML.

coremltools 9 registers DivNoNan as another name of RealDiv (converters/mil/frontend/tensorflow/ops.py), so
that 0 / 0 becomes NaN without a word. A network that scales its input by its maximum meets that on silence or
a black frame: basic-pitch 0.4.0 gives NaN there in the Core ML file that its package carries.

Importing this module registers what TensorFlow computes; coremltools is loaded.
"""

from typing import Any

from coremltools.converters.mil import Builder
from coremltools.converters.mil.frontend.tensorflow.tf_op_registry import register_tf_op


def DivNoNan(context: Any, node: Any) -> None:  # noqa: N802  (coremltools goes by TensorFlow's name)
    """Divides by 1 where the divisor is 0, and takes the result out again."""
    x, y = (context[name] for name in node.inputs)
    is_zero = Builder.cast(x=Builder.equal(x=y, y=0.0), dtype="fp32")
    quotient = Builder.real_div(x=x, y=Builder.add(x=y, y=is_zero))
    context.add(node.name, Builder.mul(x=quotient, y=Builder.sub(x=1.0, y=is_zero), name=node.name))


register_tf_op(DivNoNan, override=True)
