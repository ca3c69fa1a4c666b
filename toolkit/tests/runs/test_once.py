"""What several threads need is made once, and what failed once fails for all."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from phoneproof.errors import ToolchainError
from phoneproof.runs.once import OnceEach


def test_each_key_is_made_once_whoever_asks() -> None:
    once: OnceEach[int, int] = OnceEach()
    made: list[int] = []

    def make(key: int) -> int:
        made.append(key)
        time.sleep(0.01)  # long enough for the others to ask meanwhile
        return key * 10

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: once.get(n % 2, lambda: make(n % 2)), range(8)))
    assert found == [0, 10] * 4
    assert sorted(made) == [0, 1]


def test_an_error_is_raised_again_and_nothing_is_tried_twice() -> None:
    once: OnceEach[str, int] = OnceEach()
    tried: list[str] = []

    def fail() -> int:
        tried.append("a")
        raise ToolchainError("It broke.")

    for _ in range(2):
        with pytest.raises(ToolchainError, match="It broke"):
            once.get("a", fail)
    assert once.get("b", lambda: 1) == 1
    assert tried == ["a"]
