"""Work that several builds need and that is done once, by whichever thread asks first."""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

from phoneproof.errors import PhoneproofError

Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")


class OnceEach(Generic[Key, Made]):
    """What was made for each key. Safe for several threads; what failed once fails for all who ask."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._locks: dict[Key, Lock] = {}
        self._made: dict[Key, Made | PhoneproofError] = {}

    def get(self, key: Key, make: Callable[[], Made]) -> Made:
        """What `make` gave for this key, now or before. Raises the PhoneproofError that it raised."""
        with self._lock:
            lock = self._locks.setdefault(key, Lock())
        with lock:
            if key not in self._made:
                try:
                    self._made[key] = make()
                except PhoneproofError as error:
                    self._made[key] = error
            found = self._made[key]
        if isinstance(found, PhoneproofError):
            raise found
        return found
