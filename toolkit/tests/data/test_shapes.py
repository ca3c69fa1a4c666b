import numpy as np
import pytest

from phoneproof.data.values import input_array
from phoneproof.errors import DataError
from phoneproof.protocol.tensors import TensorSpec


@pytest.mark.parametrize(
    ("given", "wanted", "words"),
    [
        ((224, 224, 3), (3, 224, 224), "transpose(0, 3, 1, 2)"),
        ((3, 224, 224), (224, 224, 3), "transpose(0, 2, 3, 1)"),
        ((3, 256, 256), (3, 224, 224), "resize"),
        ((224, 224, 1), (3, 224, 224), "grey"),
        ((28, 28), (1, 28, 28), "Only axes of one element"),
        ((32, 3, 8, 8), (3, 8, 8), "32 samples at once"),
        ((784,), (1, 28, 28), "how its axes are ordered"),
        ((5,), (7,), "without its batch dimension"),
    ],
)
def test_a_shape_that_does_not_fit_is_explained(
    given: tuple[int, ...], wanted: tuple[int, ...], words: str
) -> None:
    with pytest.raises(DataError) as caught:
        input_array(np.zeros(given, np.float32), TensorSpec("image", "float32", (1, *wanted)))
    assert words in str(caught.value.next_step)
    assert str(list(given)) in caught.value.what


def test_advice_on_the_order_of_axes_gives_what_the_input_takes() -> None:
    taken = input_array(
        np.arange(60, dtype=np.float32).reshape(4, 5, 3).transpose(2, 0, 1),
        TensorSpec("image", "float32", (1, 3, 4, 5)),
    )
    assert taken[1, 2, 3] == 2 * 15 + 3 * 3 + 1


@pytest.mark.parametrize(("order", "one"), [((0, 3, 1, 2), (2, 0, 1)), ((0, 2, 3, 1), (1, 2, 0))])
def test_the_order_for_all_samples_is_that_for_each(order: tuple[int, ...], one: tuple[int, ...]) -> None:
    samples = np.arange(120).reshape(2, 4, 5, 3)
    assert all((a == b.transpose(one)).all() for a, b in zip(samples.transpose(order), samples, strict=True))
