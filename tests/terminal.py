"""`twinloop` commands inside the test's own process: a new process spends most of its time on imports."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import typer.main

from twinloop.cli import app, main

WIDTH = {"COLUMNS": "80"}
"""Width of the terminal unless the environment sets another, so that output does not depend on the window."""


COMMANDS = typer.main.get_command(app)
"""Built once: a user's process builds it once too."""


def run_command(*arguments: object, cwd: str | Path = ".") -> tuple[int, str, str]:
    """Run one command in `cwd`; returns its exit code, standard output and standard error."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        patch.dict(os.environ, WIDTH | os.environ),
        patch.object(sys, "argv", ["twinloop", *map(str, arguments)]),
        patch.object(typer.main, "get_command", lambda _: COMMANDS),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


def twinloop(*arguments: object, cwd: str | Path, code: int = 0) -> str:
    """Output of a command that must end with `code`; with another code than 0, its errors as well."""
    got, out, err = run_command(*arguments, cwd=cwd)
    assert got == code, f"exit {got}\n{out}\n{err}"
    assert "Traceback" not in out + err
    return out if code == 0 else out + err


def twinloop_json(*arguments: object, cwd: str | Path, code: int = 0) -> Any:
    """The JSON document that a command prints."""
    return json.loads(twinloop(*arguments, "--json", cwd=cwd, code=code))


def run_script(lines: Iterable[str], cwd: str | Path) -> Path:
    """Run the commands of a page one after the other, as a shell would; all must succeed.

    Returns the folder that the shell is in at the end. Other programs than `twinloop` and `cd` run in a shell of their own.
    """
    folder = Path(cwd)
    for line in lines:
        for command in re.sub(r"\s#\s.*$", "", line).split(" && "):
            program, *arguments = shlex.split(command)
            if program == "cd":
                folder = (folder / arguments[0]).resolve()
            elif program == "twinloop":
                assert not re.search(r"[|<>$]", command), f"not a plain command: {command}"
                code, out, err = run_command(*arguments, cwd=folder)
                assert code == 0, f"{command}\n{out}\n{err}"
            else:
                done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True)
                assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return folder
