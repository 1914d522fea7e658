"""Jobs: commands that run in the background, one after the other, whoever asked for them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from twinloop.jobs import queue
from twinloop.jobs.commands import COMMANDS
from twinloop.jobs.job import ENDED, Job
from twinloop.jobs.queue import (
    LogPart,
    ensure_runner,
    load_job,
    read_log,
)
from twinloop.studio.context import CurrentSettings, CurrentWorkspace, Limit, Offset, Page, page_of

router = APIRouter(prefix="/api/jobs", tags=["jobs"])


class JobRequest(BaseModel):
    """A command to run.

    Attributes:
        command: Its words, without `twinloop`.
        by: Who asks for it.
    """

    command: list[str] = Field(min_length=1, max_length=200)
    by: str = Field("", max_length=100)


class Who(BaseModel):
    """Who asks for a change."""

    by: str = Field("", max_length=100)


class JobCommands(BaseModel):
    """Commands that can be jobs."""

    commands: list[str]


@router.get("", operation_id="list_jobs")
def list_jobs(
    workspace: CurrentWorkspace, settings: CurrentSettings, offset: Offset = 0, limit: Limit = 50
) -> Page[Job]:
    """Every job, newest first. A queue whose runner was killed goes on."""
    found = queue.list_jobs(workspace.root)
    if not settings.read_only and any(job.state not in ENDED for job in found):
        ensure_runner(workspace.root)
    return page_of(found, offset, limit)


@router.get("/commands", operation_id="list_job_commands")
def list_job_commands() -> JobCommands:
    """Commands that can be jobs; the others act at once, or are for a terminal."""
    return JobCommands(commands=list(COMMANDS))


@router.get("/{job}", operation_id="read_job")
def read_job(workspace: CurrentWorkspace, job: str) -> Job:
    """One job as it is now."""
    return load_job(workspace.root, job)


@router.get("/{job}/log", operation_id="read_job_log")
def read_job_log(
    workspace: CurrentWorkspace, job: str, offset: Annotated[int, Query(ge=0, lt=2**62)] = 0
) -> LogPart:
    """A part of what a job printed, from `offset` (in bytes) on; ask again from `next_offset`."""
    return read_log(workspace.root, job, offset)


@router.post("", operation_id="start_job", status_code=201)
def start_job(workspace: CurrentWorkspace, request: JobRequest) -> Job:
    """Put a command into the queue."""
    return queue.start_job(workspace.root, request.command, request.by)


@router.post("/{job}/cancel", operation_id="cancel_job")
def cancel_job(workspace: CurrentWorkspace, job: str, who: Who | None = None) -> Job:
    """Take a job out of the queue, or interrupt it as Ctrl-C would; asked for again, end it at once."""
    return queue.cancel_job(workspace.root, job, who.by if who else "")


@router.post("/{job}/resume", operation_id="resume_job")
def resume_job(workspace: CurrentWorkspace, job: str) -> Job:
    """Put a job that failed, was cancelled or was killed into the queue again."""
    return queue.resume_job(workspace.root, job)
