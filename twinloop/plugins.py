"""A registry is a polite dict: built-ins and plug-ins enter through the same door.

Another package adds an entry with an entry point in the group `twinloop.<registry name>`; it is imported the first
time somebody asks for a name that is not there yet, or for the whole list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from twinloop.errors import UnknownName, WrongUse

T = TypeVar("T")


class Registry(Generic[T]):
    """Names to things of one kind, for example log readers or tasks."""

    def __init__(self, kind: str, group: str) -> None:
        self.kind = kind
        self.group = f"twinloop.{group}"
        self._entries: dict[str, T] = {}
        self._plugins_loaded = False

    def register(self, name: str) -> Callable[[T], T]:
        """Decorate the thing called `name`; a second thing under the same name is refused."""

        def enter(entry: T) -> T:
            if name in self._entries:
                raise WrongUse(
                    f"a {self.kind} called {name!r} is already registered",
                    got=repr(entry),
                    expected=f"a new name; {name!r} is {self._entries[name]!r}",
                )
            self._entries[name] = entry
            return entry

        return enter

    def get(self, name: str) -> T:
        """The entry called `name`, or an error that names the nearest one."""
        if name not in self._entries:
            self._load_plugins()
        if name not in self._entries:
            raise UnknownName(self.kind, name, self._entries)
        return self._entries[name]

    def names(self) -> list[str]:
        """Every registered name, in alphabetical order."""
        self._load_plugins()
        return sorted(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __len__(self) -> int:
        return len(self.names())

    def _load_plugins(self) -> None:
        if self._plugins_loaded:
            return
        self._plugins_loaded = True
        for point in entry_points(group=self.group):
            if point.name not in self._entries:
                self.register(point.name)(point.load())
