"""`twinloop studio`: the workspace in a browser."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from twinloop.cli import console
from twinloop.cli.options import Json
from twinloop.cli.places import require_workspace
from twinloop.errors import MissingExtra

Host = Annotated[
    str, Option(help="Address to listen at; another than this machine's own needs a token of yours.")
]
Token = Annotated[
    str | None,
    Option(
        help="What a browser has to show, 16 characters or more; default: TWINLOOP_STUDIO_TOKEN, or a new one each time."
    ),
]
Names = Annotated[
    list[str] | None,
    Option("--name", metavar="NAME", help="Another host name of this machine that browsers may use; may be repeated."),
]  # fmt: skip


def studio(
    folder: Annotated[
        Path, Argument(metavar="[WORKSPACE]", help="The workspace, or any folder inside it.")
    ] = Path(),
    host: Host = "127.0.0.1",
    port: Annotated[int, Option(help="Port to listen at; 0 picks one.", min=0, max=65535)] = 8765,
    token: Token = None,
    names: Names = None,
    read_only: Annotated[bool, Option("--read-only", help="Show everything, change nothing.")] = False,
    no_browser: Annotated[bool, Option("--no-browser", help="Only print the address.")] = False,
    json: Json = False,
) -> None:
    """Open the workspace in a browser: everything the commands know, and the same verbs."""
    try:
        from twinloop.studio.server import serve
        from twinloop.studio.settings import TOKEN, make_settings
    except ModuleNotFoundError as error:
        raise MissingExtra("the studio", error.name or "fastapi", "studio") from error

    def on_ready(address: str) -> None:
        value = {"address": address, "workspace": workspace.root, "process": os.getpid()}
        console.print_result(json, value, f"{workspace.name}: {address}\n(Ctrl-C to stop)")
        sys.stdout.flush()
        if not no_browser:
            open_browser(address)

    workspace = require_workspace(folder)
    given = token or os.environ.get(TOKEN) or None
    serve(make_settings(workspace.root, host, port, given, read_only, tuple(names or ())), on_ready)


def open_browser(address: str) -> None:
    """Open the address in a browser if there is one; the terminal goes on either way."""
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
