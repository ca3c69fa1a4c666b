"""Doing one thing to each item of a stream on some threads, in order and in little memory."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


def ordered_map(function: Callable[[Given], Made], items: Iterable[Given], threads: int) -> Iterator[Made]:
    """`function` of each item, in order, on some threads, with few items alive at a time."""
    if threads <= 1:
        yield from map(function, items)
        return
    waiting: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
