"""Jobs: commands that run in the background, one after the other, whoever asked for them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from twinloop.jobs.commands import COMMANDS
from twinloop.jobs.job import ENDED, Job
from twinloop.jobs.queue import (
    LogPart,
    cancel_job,
    ensure_runner,
    list_jobs,
    load_job,
    read_log,
    resume_job,
    start_job,
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


@router.get("", operation_id="jobs")
def jobs(
    workspace: CurrentWorkspace, settings: CurrentSettings, offset: Offset = 0, limit: Limit = 50
) -> Page[Job]:
    """Every job, newest first. A queue whose runner was killed goes on."""
    found = list_jobs(workspace.root)
    if not settings.read_only and any(job.state not in ENDED for job in found):
        ensure_runner(workspace.root)
    return page_of(found, offset, limit)


@router.get("/commands", operation_id="job_commands")
def job_commands() -> JobCommands:
    """Commands that can be jobs; the others act at once, or are for a terminal."""
    return JobCommands(commands=list(COMMANDS))


@router.get("/{job}", operation_id="job")
def job(workspace: CurrentWorkspace, job: str) -> Job:
    """One job as it is now."""
    return load_job(workspace.root, job)


@router.get("/{job}/log", operation_id="job_log")
def job_log(
    workspace: CurrentWorkspace, job: str, offset: Annotated[int, Query(ge=0, lt=2**62)] = 0
) -> LogPart:
    """A part of what a job printed, from `offset` (in bytes) on; ask again from `next_offset`."""
    return read_log(workspace.root, job, offset)


@router.post("", operation_id="start_job", status_code=201)
def start(workspace: CurrentWorkspace, request: JobRequest) -> Job:
    """Put a command into the queue."""
    return start_job(workspace.root, request.command, request.by)


@router.post("/{job}/cancel", operation_id="cancel_job")
def cancel(workspace: CurrentWorkspace, job: str, who: Who | None = None) -> Job:
    """Take a job out of the queue, or interrupt it as Ctrl-C would; asked for again, end it at once."""
    return cancel_job(workspace.root, job, who.by if who else "")


@router.post("/{job}/resume", operation_id="resume_job")
def resume(workspace: CurrentWorkspace, job: str) -> Job:
    """Put a job that failed, was cancelled or was killed into the queue again."""
    return resume_job(workspace.root, job)
