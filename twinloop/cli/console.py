"""Shared by every command: output, error handling, progress bars."""

from __future__ import annotations

import contextlib
import errno
import json
import sys
import textwrap
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from twinloop.errors import TwinloopError
from twinloop.jobs.progress import report_end, report_progress

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from twinloop import Dataset

INTERRUPTED = 130
"""The shell's code for Ctrl-C."""

LAST_COLUMN_WIDTH = 28
"""The last column of a table may be wrapped, but not narrower than this."""

out = Console(soft_wrap=True, highlight=False, markup=False, emoji=False)
err = Console(stderr=True, soft_wrap=True, highlight=False, markup=False, emoji=False)


def print_json(value: Any) -> None:
    """Print one JSON document to standard output; dates become text."""
    sys.stdout.write(json.dumps(value, default=str, indent=1) + "\n")


def print_result(json: bool, value: Any, text: str | Callable[[], None]) -> None:
    """Print the result of a command: as JSON, or as text, which may be a function that prints it."""
    if json:
        print_json(value)
    elif isinstance(text, str):
        out.print(text)
    else:
        text()


def print_list(
    json: bool,
    items: Collection[DataclassInstance],
    columns: Sequence[str],
    row: Callable[[Any], Sequence[Any]],
    empty: str = "none",
) -> None:
    """Print dataclasses: as JSON, or as a table with a row for each, or `empty`."""
    if json:
        print_json([asdict(item) for item in items])
    elif not items:
        out.print(empty)
    else:
        print_table(columns, [row(item) for item in items])


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table; only the last column is wrapped, and wider tables are printed as records."""
    cells = [[_plain(value) for value in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
    before_last = sum(widths[:-1]) + 2 * (len(widths) - 1)
    if before_last + min(widths[-1], LAST_COLUMN_WIDTH) > out.width:
        _print_records(columns, cells)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.padding = (0, 2, 0, 0)
    for position, name in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[position], int | float) for row in rows)
        justify: Literal["left", "right"] = "right" if numeric else "left"
        last = position == len(columns) - 1
        table.add_column(name, justify=justify, overflow="fold", no_wrap=not last)
    for row in cells:
        table.add_row(*row)
    out.print(table)


def _print_records(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print one record per row: the first column as a heading, short values on shared lines, long ones on their own."""
    for row in cells:
        out.print(row[0], style="bold")
        line = ""
        for name, value in zip(columns[1:], row[1:], strict=True):
            if value in ("", "-"):
                continue
            pair = f"{name}: {value}"
            if line and len(line) + len(pair) + 5 > out.width:
                out.print(f"  {line}")
                line = ""
            if len(pair) + 2 > out.width:
                for part in textwrap.wrap(pair, max(out.width - 4, 20), subsequent_indent="  "):
                    out.print(f"  {part}")
                continue
            line = f"{line}   {pair}" if line else pair
        if line:
            out.print(f"  {line}")


def print_lines(lines: Iterable[str]) -> None:
    """Print lines to standard output."""
    for line in lines:
        out.print(line)


def log(line: str) -> None:
    """One plain line on standard error."""
    err.print(line)


def count(number: int, noun: str) -> str:
    """Format a count: `1 episode`, `2 episodes`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def print_written(path: Path, dataset: Dataset) -> None:
    """Print the path and size of a dataset that was written."""
    episodes, frames = count(len(dataset), "episode"), count(dataset.num_frames, "frame")
    out.print(f"wrote {path}: {episodes}, {frames}")


def make_bar(*columns: ProgressColumn) -> Progress:
    """Make a progress bar with these columns on standard error, if that is a terminal."""
    shown = (TextColumn("{task.description}"), BarColumn(), *columns)
    return _ReportedProgress(*shown, console=err, transient=True, disable=not err.is_terminal)


@contextlib.contextmanager
def without_bars() -> Iterator[None]:
    """No progress bar is drawn in the `with` block, in which a person types."""
    hidden = list(_shown)
    for bar in hidden:
        bar.stop()
    try:
        yield
    finally:
        for bar in hidden:
            bar.start()


_shown: list[Progress] = []
"""The bars that are drawn now."""


class _ReportedProgress(Progress):
    """A bar that also tells whoever started this command as a job."""

    def start(self) -> None:
        super().start()
        _shown.append(self)

    def stop(self) -> None:
        if self in _shown:
            _shown.remove(self)
        super().stop()

    def update(self, task_id: TaskID, **values: Any) -> None:
        super().update(task_id, **values)
        task = self._tasks.get(task_id)
        if task is not None and task.visible:
            report_progress(task.description, task.completed, task.total)


@contextlib.contextmanager
def progress_bar(
    what: str, *, size: bool = False, describe: Callable[[float], str] = lambda seconds: ""
) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on standard error if it is a terminal; call it with (done, total), in bytes if `size`.

    `describe`, called with the seconds so far, says what is added to `what`.
    """
    counts = DownloadColumn() if size else MofNCompleteColumn()
    bar = make_bar(counts, TimeElapsedColumn(), TimeRemainingColumn())
    with bar:
        task = bar.add_task(what, total=None)
        began = time.monotonic()

        def update(done: int, total: int) -> None:
            text = f"{what}{describe(time.monotonic() - began)}"
            bar.update(task, completed=done, total=total, description=text)

        yield update


def run(app: typer.Typer) -> None:
    """Run the command line; an error prints one or two lines and exits, with `--debug` it raises."""
    _said.clear()
    try:
        _run(app)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        report_end(code, None if code in (0, INTERRUPTED) else _said[-1] if _said else None)
        raise
    report_end(0)


_said: list[str] = []
"""The error that ends this command."""


def _run(app: typer.Typer) -> None:
    debug = "--debug" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--debug"]
    try:
        app()
    except TwinloopError as error:
        if debug:
            raise
        _end(str(error), error.exit_code)
    except (KeyboardInterrupt, SystemExit) as error:
        # Typer turns Ctrl-C into a silent exit with 130.
        if debug or (isinstance(error, SystemExit) and error.code != INTERRUPTED):
            raise
        _end(
            "interrupted; committed data is kept and no file is half written; run the command again, with --resume if it has it",
            INTERRUPTED,
        )
    except OSError as error:
        if debug:
            raise
        remedy = "\n  -> free some space and run the command again" if error.errno == errno.ENOSPC else ""
        _end(f"{error.strerror or error}: {error.filename or 'no file named'}{remedy}", 1)
    except Exception as error:  # a user never sees a traceback
        if debug:
            raise
        _end(
            f"unexpected {type(error).__name__}: {error}\n  -> this is a bug in Twinloop; run the command with --debug and report it",
            70,
        )


def _end(message: str, code: int) -> None:
    _said.append(message)
    if "--json" in sys.argv:
        what, _, remedy = message.partition("\n  -> ")
        print_json({"error": what, "remedy": remedy or None, "exit_code": code})
    else:
        err.print("error: ", end="", style="bold red")
        err.print(message)
    sys.exit(code)


def _plain(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
