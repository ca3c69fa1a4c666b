import pytest

from phoneproof.report import units

X, MINUS = "\N{MULTIPLICATION SIGN}", "\N{MINUS SIGN}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0000123, "12.3 ns"), (0.000999, "999 ns"), (0.0123, "12.3 µs"), (0.4999, "500 µs"),
        (1.0, "1.00 ms"),
        (12.345, "12.3 ms"), (999.4, "999 ms"), (1000.0, "1.00 s"), (123456.0, "123 s"), (0.0, "0 ns"),
    ],
)  # fmt: skip
def test_times_are_shown_in_the_unit_that_suits_them(value: float, text: str) -> None:
    assert units.milliseconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (291_000, "291 kB"),
        (1_122_000, "1.12 MB"),
        (2.5e9, "2.50 GB"),
    ],
)
def test_sizes_are_decimal(value: int, text: str) -> None:
    assert units.bytes_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (9.996, "10.0"),
        (0.00181, "0.00181"),
        (1.5e-9, f"1.50e{MINUS}09"),
        (-2.345, f"{MINUS}2.35"),
        (123456.0, "123,000"),
    ],
)
def test_three_digits_are_significant(value: float, text: str) -> None:
    assert units.significant(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0123, "+1.23"), (-0.0123, f"{MINUS}1.23"), (0.00001, "0.00"), (-0.00001, "0.00")]
)
def test_points_have_a_sign_unless_they_are_nought(value: float, text: str) -> None:
    assert units.points(value) == text


def test_ratios_shares_and_decibels() -> None:
    assert units.times(2.314) == f"2.31{X}"
    assert units.times(1234.5) == f"1,234{X}"
    assert units.percent(0.9775) == "97.75 %"
    assert units.decibel(-3.14) == f"{MINUS}3.1 dB"


def test_a_metric_that_is_no_share_is_shown_as_it_is() -> None:
    assert units.metric_value("top-1", 0.9775) == "97.75 %"
    assert units.metric_value("mean error", 12.3456) == "12.35"
    assert units.metric_difference("top-5", -0.01) == f"{MINUS}1.00 points"
    assert units.metric_difference("mean error", 0.5) == "+0.500"


@pytest.mark.parametrize(
    ("iso", "text"),
    [
        ("2026-11-30T13:44:59+00:00", "30 Nov 2026, 13:44 UTC"),
        ("2026-01-01T01:05:00.123456+02:00", "31 Dec 2025, 23:05 UTC"),
        ("2026-05-03T00:00:00Z", "3 May 2026, 00:00 UTC"),
        ("yesterday", "yesterday"),
        ("2026-05-03T00:00:00", "2026-05-03T00:00:00"),
        ("0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00+14:00"),
    ],
)
def test_a_point_in_time_is_shown_in_utc_to_the_minute(iso: str, text: str) -> None:
    assert units.point_in_time(iso) == text


@pytest.mark.parametrize(("number", "text"), [(0, "0 entries"), (1, "1 entry"), (1200, "1,200 entries")])
def test_what_is_counted_is_in_the_right_number(number: int, text: str) -> None:
    assert units.counted(number, "entry", "entries") == text
    assert units.counted(number, "run") == text.replace("entries", "runs").replace("entry", "run")
