"""Write the generated reference pages: `make docs`. A test fails when one of them is out of date."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from inspect import cleandoc
from pathlib import Path
from typing import Any

import typer

from docs import api_page, engines_page, studio_operations

PAGE = Path(__file__).parent / "reference/commands.md"

HEAD = """# Commands

Made from the commands by `make docs`. Every command has `-h`. Exit codes: 0 done, 1 refused by the data (with the
reason), 2 wrong use, 130 interrupted. `--debug` shows the traceback of an error.
"""


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with its full name."""
    from twinloop.cli import app

    def walk(prefix: str, command: Any) -> Iterator[tuple[str, Any]]:
        if getattr(command, "invoke_without_command", False):
            yield prefix, command
        if hasattr(command, "commands"):
            for name in sorted(command.commands):
                yield from walk(f"{prefix} {name}", command.commands[name])
        else:
            yield prefix, command

    yield from walk("twinloop", typer.main.get_command(app))


def page() -> str:
    """The text of docs/reference/commands.md."""
    return "\n".join([HEAD, *(_section(name, command) for name, command in commands()), _training_fields()])


def _section(name: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and "--help" not in p.opts]
    usage = " ".join([name, *(_argument_name(a) for a in arguments), *(["[OPTIONS]"] if options else [])])
    lines = [f"## {name}", "", " ".join((command.help or "").split()), "", f"    {usage}", ""]
    rows = [(f"`{_argument_name(a)}`", _text(a.help)) for a in arguments if a.help]
    rows += [(f"`{', '.join(o.opts)}`", _text(o.help) + _default(o)) for o in options]
    if rows:
        lines += ["| | |", "|---|---|", *(f"| {left} | {right} |" for left, right in rows), ""]
    return "\n".join(lines)


def _training_fields() -> str:
    """What `twinloop train --set` takes, in the words of the config itself."""
    from twinloop.learning.config import TrainConfig

    rows = [f"| `{part.name}` | `{part.default}` |" for part in fields(TrainConfig)]
    head = ["## Fields of `twinloop train --set`", "", cleandoc(TrainConfig.__doc__ or ""), ""]
    return "\n".join([*head, "| field | default |", "|---|---|", *rows, ""])


def _argument_name(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required else f"[{name}]"


def _text(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _default(option: Any) -> str:
    if option.required:
        return " Required."
    if option.default in (None, False, "", ()) or callable(option.default):
        return ""
    return f" Default: `{option.default}`."


if __name__ == "__main__":
    written = (
        (PAGE, page()),
        (api_page.PAGE, api_page.page()),
        (engines_page.PAGE, engines_page.page()),
        (studio_operations.FILE, studio_operations.text()),
    )
    for path, text in written:
        path.write_text(text)
        print(f"wrote {path}")
