"""What every test may rely on, and in which order they come."""

import signal

import pytest

LONGEST = ("test_loop.py", "test_docs.py")
"""Files of several minutes. They are begun first: one that begins last keeps a single worker busy while the others idle."""


def pytest_configure() -> None:
    """Ctrl-C works, also where the tests run as a background job, which starts with it switched off."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, everything else in its usual order."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))
