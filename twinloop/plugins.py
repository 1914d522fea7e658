"""Registries: built-ins and plug-ins register in the same way.

Another package adds an entry with an entry point in the group `twinloop.<registry name>`. Entry points are imported on
the first lookup of an unknown name, or when all names are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from twinloop.errors import UnknownName, WrongUse

T = TypeVar("T")


class Registry(Generic[T]):
    """A dictionary of named entries of one kind, for example log readers or tasks."""

    def __init__(self, kind: str, group: str) -> None:
        self.kind = kind
        self.group = f"twinloop.{group}"
        self._entries: dict[str, T] = {}
        self._plugins_loaded = False

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers its argument as `name`; a name can be registered once."""

        def add(entry: T) -> T:
            if name in self._entries:
                raise WrongUse(
                    f"a {self.kind} called {name!r} is already registered",
                    got=repr(entry),
                    expected=f"a new name; {name!r} is {self._entries[name]!r}",
                )
            self._entries[name] = entry
            return entry

        return add

    def get(self, name: str) -> T:
        """Return the entry called `name`.

        Raises:
            UnknownName: No entry has this name; the message suggests the nearest one.
        """
        if name not in self._entries:
            self._load_plugins()
        if name not in self._entries:
            raise UnknownName(self.kind, name, self._entries)
        return self._entries[name]

    def names(self) -> list[str]:
        """Return every registered name, in alphabetical order."""
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
