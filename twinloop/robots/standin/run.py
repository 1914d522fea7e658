"""Start a stand-in: read the reality, build the cell, and serve it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from twinloop.robots.remote import TOKEN
from twinloop.robots.standin.reality import load_reality
from twinloop.twins import load_twin


def serve_reality(
    reality: str,
    *,
    address: str | int,
    twin: str | None = None,
    lockstep: bool = False,
    on_ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve a reality at a Unix socket's path or a loopback port until interrupted; `on_ready` gets its URL."""
    hidden = load_reality(reality)
    # Imported after the file is checked, since the import takes a second.
    from twinloop.robots.standin.serve import Server, open_listener
    from twinloop.robots.standin.session import Session

    session = Session(hidden, load_twin(twin or hidden.twin), lockstep=lockstep)
    try:
        listener = open_listener(address)
        try:
            on_ready(
                f"unix:{address}"
                if isinstance(address, str)
                else f"tcp:127.0.0.1:{listener.getsockname()[1]}"
            )
            Server(session, listener, token=os.environ.get(TOKEN, ""), lockstep=lockstep).run()
        finally:
            listener.close()
            if isinstance(address, str):
                with contextlib.suppress(OSError):
                    Path(address).unlink()
    finally:
        session.close()
