"""A user with a folder of its own, and a registry in a workspace."""

import pytest

from tests.promotion.conftest import make
from tests.promotion.signed.people import become


@pytest.fixture(autouse=True)
def user(tmp_path, monkeypatch):
    """A user's folder of its own."""
    return become("user", tmp_path, monkeypatch)


@pytest.fixture
def registry(tmp_path, empty):
    return make(tmp_path / "cell", empty)
