"""The chain of legs: which cause its first difference names."""

import itertools

import pytest

from phoneproof.verify.diagnosis import LEGS, Leg, LegName, LegState, diagnose

STATES: dict[str, LegState] = {"a": "agrees", "d": "disagrees", "-": "missing"}


def chain(states: str) -> list[Leg]:
    return [Leg(name, STATES[state]) for name, state in zip(LEGS, states, strict=True)]


@pytest.mark.parametrize(
    ("states", "last", "cause", "unmeasured"),
    [
        ("aa---", "float_host", "none", ()),
        ("ad---", "float_host", "conversion", ()),
        ("aaa--", "quantized_host", "none", ()),
        ("aad--", "quantized_host", "quantization", ()),
        ("ada--", "quantized_host", "conversion", ()),
        ("add--", "quantized_host", "conversion", ()),
        ("a-d--", "quantized_host", "not_separable", ("float_host",)),
        ("a-a--", "quantized_host", "none", ()),
        ("aa---", "quantized_host", "not_separable", ("quantized_host",)),
        ("-----", "float_host", "not_separable", ("source_host", "float_host")),
        ("aaaad", "device_accelerator", "accelerator", ()),
        ("aaadd", "device_accelerator", "runtime_or_device", ()),
        ("aaada", "device_cpu", "runtime_or_device", ()),
        ("aaa-d", "device_accelerator", "not_separable", ("device_cpu",)),
        ("a---d", "device_accelerator", "not_separable", ("float_host", "quantized_host", "device_cpu")),
        ("aa-ad", "device_accelerator", "accelerator", ()),
        ("aaaad", "device_cpu", "none", ()),
        ("aaaaa", "device_accelerator", "none", ()),
        ("aaaa-", "device_accelerator", "not_separable", ("device_accelerator",)),
    ],
)
def test_the_first_difference_names_the_cause(
    states: str, last: LegName, cause: str, unmeasured: tuple[str, ...]
) -> None:
    found = diagnose(chain(states), last)
    assert (found.cause, found.unmeasured) == (cause, unmeasured)
    assert found.legs == tuple(chain(states))


def test_a_cause_is_named_only_where_its_two_neighbours_were_measured() -> None:
    for states in itertools.product("a-", *["ad-"] * 4):
        text = "".join(states)
        found = diagnose(chain(text), "device_accelerator")
        first = text.find("d")
        if found.cause == "none":
            assert "d" not in text
            assert text[-1] == "a"
        elif found.cause != "not_separable":
            assert first > 0
            assert text[first - 1] == "a"


@pytest.mark.parametrize("names", [("float_host", "source_host"), ("source_host", "quantized_host"), ()])
def test_legs_out_of_order_or_left_out_are_refused(names: tuple[LegName, ...]) -> None:
    with pytest.raises(ValueError, match="legs"):
        diagnose([Leg(name, "agrees") for name in names], "quantized_host")


def test_a_source_that_disagrees_with_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="legs"):
        diagnose(chain("dadad"), "quantized_host")
