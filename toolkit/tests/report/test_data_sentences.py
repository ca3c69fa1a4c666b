from phoneproof.data.checks.normalisation import STEPS
from phoneproof.report.data_sentences import DATA_WHYS


def test_every_step_of_scaling_has_a_clause() -> None:
    assert set(STEPS) | {"pixels_not_normalised"} == set(DATA_WHYS)
