"""A studio that listens on this machine, in a thread of the test's process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twinloop.studio.server import make_server
from twinloop.studio.settings import StudioSettings

TOKEN = "a-token-for-the-tests-of-the-studio"


@contextmanager
def serving(workspace: Path, **settings: Any) -> Iterator[str]:
    """A studio of this workspace; yields its address without the token."""
    ready = threading.Event()
    found: list[str] = []

    def on_ready(address: str) -> None:
        found.append(address)
        ready.set()

    server, listener = make_server(StudioSettings(workspace, TOKEN, port=0, **settings), on_ready)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    assert ready.wait(60), "the studio does not start"
    try:
        yield found[0].partition("/?")[0]
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()
