"""The line of a key, in every way TOML has to write one."""

import pytest

from phoneproof.plan.positions import LARGEST_TEXT, Lines

TEXT = """\
# a comment
title = "x"

[data]
samples = 3 # why
calibration = { kind = "npz", take = 2 }
classes = [
  "a",
  "b",
]
preprocess.mode = "RGB"

[[builds]]
recipe = "a"

[[builds]]
recipe = \"\"\"
b\"\"\"
io = "int8"

[data.evaluation]
kind = "csv"
"""


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("title",), 2),
        (("data",), 4),
        (("data", "samples"), 5),
        (("data", "calibration"), 6),
        (("data", "calibration", "take"), 6),
        (("data", "classes"), 7),
        (("data", "preprocess", "mode"), 11),
        (("builds", 0), 13),
        (("builds", 1, "recipe"), 17),
        (("builds", 1, "io"), 19),
        (("builds", 1, "missing"), 16),
        (("data", "evaluation", "kind"), 22),
        (("nothing", "here"), None),
    ],
)
def test_a_key_is_found_on_its_line(place: tuple[str | int, ...], line: int | None) -> None:
    assert Lines(TEXT).line_of(place) == line


def test_what_is_not_toml_has_no_lines() -> None:
    assert Lines("[[").line_of(("a",)) is None
    assert Lines(None).line_of(("a",)) is None


def test_a_long_text_has_no_lines_rather_than_late_ones() -> None:
    assert Lines("a = 1\n" + "#" * LARGEST_TEXT).line_of(("a",)) is None
