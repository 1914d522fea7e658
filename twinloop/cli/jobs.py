"""`twinloop jobs`: commands that run one after the other in processes of their own; the studio shows the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from twinloop.cli import console
from twinloop.cli.options import Json, WorkspaceFolder
from twinloop.cli.places import require_workspace

if TYPE_CHECKING:
    from twinloop.jobs.job import Job

app = typer.Typer(no_args_is_help=True, help="Commands that run in the background, one after the other.")

Id = Annotated[str, Argument(metavar="ID", help="The job; `twinloop jobs ls` lists them.")]
By = Annotated[str, Option(help="Your name; recorded.")]


@app.command(name="ls")
def list_(workspace: WorkspaceFolder = Path(), json: Json = False) -> None:
    """List the jobs of a workspace, newest first."""
    from twinloop.jobs.queue import list_jobs

    found = list_jobs(require_workspace(workspace).root)
    columns = ("job", "state", "by", "progress", "command")
    console.print_list(json, found, columns, _row, "no jobs")


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def start(
    command: Annotated[
        list[str], Argument(metavar="COMMAND...", help="The command, without `twinloop`, and its options.")
    ],
    workspace: WorkspaceFolder = Path(),
    by: By = "",
    json: Json = False,
) -> None:
    """Put a command into the queue; options of this command come before it."""
    from twinloop.jobs.queue import start_job

    _print(start_job(require_workspace(workspace).root, command, by), json)


@app.command()
def show(job: Id, workspace: WorkspaceFolder = Path(), json: Json = False) -> None:
    """Show where a job stands."""
    from twinloop.jobs.queue import load_job

    _print(load_job(require_workspace(workspace).root, job), json)


@app.command()
def log(job: Id, workspace: WorkspaceFolder = Path(), json: Json = False) -> None:
    """Print what a job has printed so far."""
    from twinloop.jobs.queue import read_log

    root, texts, offset = require_workspace(workspace).root, [], 0
    while (part := read_log(root, job, offset)).next_offset > offset:
        texts.append(part.text)
        offset = part.next_offset
    console.print_result(json, {"text": "".join(texts)}, "".join(texts).rstrip("\n"))


@app.command()
def cancel(job: Id, workspace: WorkspaceFolder = Path(), by: By = "", json: Json = False) -> None:
    """Take a job out of the queue, or interrupt it as Ctrl-C would; the second time, end it at once."""
    from twinloop.jobs.queue import cancel_job

    _print(cancel_job(require_workspace(workspace).root, job, by), json)


@app.command()
def resume(job: Id, workspace: WorkspaceFolder = Path(), json: Json = False) -> None:
    """Put a job that failed, was cancelled or was killed into the queue again; finished work is kept."""
    from twinloop.jobs.queue import resume_job

    _print(resume_job(require_workspace(workspace).root, job), json)


def _print(job: Job, json: bool) -> None:
    lines = [f"{job.id}  {job.state}", f"twinloop {' '.join(job.command)}"]
    lines += [f"error: {job.error}"] if job.error else []
    console.print_result(json, asdict(job), "\n".join(lines))


def _row(job: Job) -> Sequence[Any]:
    progress = "" if job.state != "running" or job.done is None else f"{job.what or ''} {job.done:g}"
    total = f"/{job.total:g}" if progress and job.total else ""
    return (job.id, job.state, job.by, progress + total, " ".join(job.command))
