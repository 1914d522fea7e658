"""`twinloop operate`: a command on a robot with its operator page, for a tablet beside it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from twinloop.cli import attend, console
from twinloop.cli.attend import RATER, Rater
from twinloop.cli.options import Json, RobotUrl
from twinloop.cli.places import require_workspace
from twinloop.cli.studio import Host, Names, Token
from twinloop.errors import MissingExtra

if TYPE_CHECKING:
    from twinloop.studio.settings import StudioSettings
    from twinloop.supervision.desk import Desk

GOODBYE_S = 1.0
"""The page hears of the end before the server goes."""
DRIVE = ("record", "--out", "data/driven", "--episodes", "1000", "--seconds", "60")
"""What runs where no command is named: demonstrations, driven from the page, with more time than a policy has."""


def operate(
    context: typer.Context,
    robot: RobotUrl,
    host: Host = "127.0.0.1",
    port: Annotated[int, Option(help="Port to listen at; 0 picks one.", min=0, max=65535)] = 8766,
    token: Token = None,
    names: Names = None,
    rater: Rater = RATER,
    no_browser: Annotated[bool, Option("--no-browser", help="Only print the address.")] = False,
    json: Json = False,
) -> None:
    """Serve the operator page, and run a command on the robot: `twinloop operate --robot ADDRESS -- gate adapted --champion nominal`.

    Without a command the robot is driven by the keys of the page, and the episodes are kept in data/driven. On another address than
    this machine's own the page needs a token. A command that was interrupted resumes when it is given again.
    """
    try:
        from twinloop.studio.settings import TOKEN, make_settings
        from twinloop.supervision.desk import Desk
    except ModuleNotFoundError as error:
        raise MissingExtra("the operator page", error.name or "fastapi", "studio") from error
    workspace = require_workspace()
    given = token or os.environ.get(TOKEN) or None
    settings = make_settings(workspace.root, host, port, given, False, tuple(names or ()))
    words = [*context.args] or [*DRIVE, "--operator", rater]
    desk = Desk()
    with _served(settings, desk, no_browser, json), attend.at_page(desk, rater):
        try:
            _run([words[0], "--robot", robot, *words[1:]])
        finally:
            time.sleep(GOODBYE_S)


@contextmanager
def _served(settings: StudioSettings, desk: Desk, no_browser: bool, json: bool) -> Iterator[None]:
    """The page, from a thread of its own, for the length of a `with` block."""
    from twinloop.cli.studio import open_browser
    from twinloop.studio.server import make_server

    def on_ready(address: str) -> None:
        page = address.replace("/?", "/operate?")
        if json:
            console.print_json({"page": page, "process": os.getpid()})
        else:
            console.err.print(f"operator page: {page}", soft_wrap=True)
        if not no_browser:
            open_browser(page)

    server, listener = make_server(settings, on_ready, desk)
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name="operator-page", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(5.0)
        listener.close()


def _run(words: list[str]) -> None:
    """Run a command in this process; its errors and its exit code are those of this one."""
    from twinloop.cli import app

    sys.argv = ["twinloop", *words]
    code = typer.main.get_command(app).main(words, prog_name="twinloop", standalone_mode=False)
    if isinstance(code, int) and code:
        raise typer.Exit(code)
