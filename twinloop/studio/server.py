"""Run a studio: uvicorn on one address, with limits for clients that send nothing."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from twinloop.errors import TwinloopError
from twinloop.jobs.queue import ensure_runner
from twinloop.studio.app import make_app
from twinloop.studio.settings import StudioSettings
from twinloop.supervision.desk import Desk
from twinloop.workspace import find_workspace

MOST_CONNECTIONS = 200
IDLE_S = 10
"""Seconds that a connection may idle between two requests."""
HEADERS_S = 10.0
"""Seconds in which a request's headers have to arrive."""
GOODBYE_S = 2
"""Seconds that open answers, such as streams of events, have to end when the server stops."""


def serve(settings: StudioSettings, on_ready: Callable[[str], None] = lambda address: None) -> None:
    """Serve a workspace until Ctrl-C.

    Args:
        settings: What is served, where, and to whom.
        on_ready: Called with the address, which carries the token, as soon as the studio answers.

    Raises:
        TwinloopError: If nothing can listen at the address.
        WorkspaceError: If there is no workspace.
    """
    server, listener = make_server(settings, on_ready)
    with (
        listener,
        suppress(KeyboardInterrupt),
    ):  # how a studio is stopped; uvicorn raises it after it has ended
        server.run(sockets=[listener])


def make_server(
    settings: StudioSettings, on_ready: Callable[[str], None], desk: Desk | None = None
) -> tuple[uvicorn.Server, socket.socket]:
    """A server that has yet to run, and the socket that it is to run on."""
    app = make_app(settings, desk)
    listener = _listen(settings)
    _continue_jobs(settings)
    config = uvicorn.Config(
        app,
        http=_TimedProtocol,
        ws="none",
        loop="asyncio",
        log_level="critical",  # errors of requests are our own to say; a stream that is cut when the server ends is none
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=GOODBYE_S,
        h11_max_incomplete_event_size=32_768,
    )
    return _Server(config, lambda: on_ready(address_of(settings, listener))), listener


def address_of(settings: StudioSettings, listener: socket.socket) -> str:
    """The address to open, with the token."""
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    shown = f"[{shown}]" if ":" in shown else shown
    return f"http://{shown}:{port}/?token={settings.token}"


def _listen(settings: StudioSettings) -> socket.socket:
    """A socket at the address, before anything else starts, so that a port in use is known at once."""
    listener = None
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        if listener is not None:
            listener.close()
        taken = error.errno == errno.EADDRINUSE
        raise TwinloopError(
            f"cannot listen at {settings.host}:{settings.port}",
            got=os.strerror(error.errno) if error.errno and error.errno > 0 else error,
            remedy="--port 0 picks a free port" if taken else "choose another --host or --port",
        ) from error
    return listener


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self._on_ready()


def _continue_jobs(settings: StudioSettings) -> None:
    """Jobs that waited when a machine went down go on with the next studio."""
    if not settings.read_only:
        ensure_runner(find_workspace(settings.workspace).root)


class _TimedProtocol(H11Protocol):
    """HTTP that closes a connection whose next request's headers do not arrive in time; bodies have a limit of their own."""

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Start to count when a request begins to arrive, and stop when its headers are there."""
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._limit is None:
            self._limit = self.loop.call_later(HEADERS_S, self._give_up)

    def _stop(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _give_up(self) -> None:
        self._limit = None
        if self.conn.their_state is h11.IDLE:
            self.transport.close()
