"""A source model that is not the planned one is refused; one that no run has planned is not."""

import pytest

from phoneproof.errors import SourceModelError
from phoneproof.sources.planned_model import refuse_changed


def test_another_content_than_planned_is_refused_with_both_hashes() -> None:
    with pytest.raises(SourceModelError) as refused:
        refuse_changed("b" * 64, "a" * 64, "models/net.onnx")
    assert refused.value.where == "models/net.onnx"
    assert dict(refused.value.facts) == {"planned_sha256": "a" * 64, "found_sha256": "b" * 64}


@pytest.mark.parametrize("planned", [None, "b" * 64])
def test_the_planned_content_is_taken_and_so_is_any_that_nothing_planned(planned: str | None) -> None:
    refuse_changed("b" * 64, planned, "models/net.onnx")
