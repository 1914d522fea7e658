"""`Job`: a command that waits, runs or has ended, as its folder says."""

from __future__ import annotations

import fcntl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from twinloop.jobs.progress import read_progress
from twinloop.records import Record, SavedRecord, load_record, save_record

FOLDER = "jobs"
"""In the workspace; one folder below it for each job."""
LOG, PROGRESS, ALIVE = "log.txt", "progress.jsonl", "alive"
"""What a job printed, how far it is, and a lock that its process holds as long as it lives."""
RUNNER = "runner.lock"
QUEUE = "queue.lock"
"""Held by the process that runs the jobs, and for a moment by whoever changes one."""

State = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]
ENDED: tuple[State, ...] = ("done", "failed", "cancelled", "interrupted")


@dataclass(frozen=True)
class JobRecord(SavedRecord):
    """What is kept of a job.

    Attributes:
        id: Its folder's name; jobs in the order of their ids are in the order in which they were asked for.
        command: The words of the command, without `twinloop`.
        by: Who asked for it.
        state: Where it stands, as far as the process that runs the jobs has written.
        created_at: When it was asked for; ISO 8601, like the other times.
        queued_at: When it was put into the queue last.
        started_at: When it started last.
        ended_at: When it ended last.
        exit_code: How it ended; None where it was killed.
        error: Why it could not do what was asked.
        attempts: How often it was put into the queue.
        pid: Its process, and `pid_began` when that began, so that no other process is taken for it.
        cancelled_by: Who cancelled it.
    """

    FILE, COMMAND = "job.json", "twinloop jobs start"

    id: str
    command: tuple[str, ...]
    by: str
    state: State
    created_at: str
    queued_at: str
    started_at: str | None = None
    ended_at: str | None = None
    exit_code: int | None = None
    error: str | None = None
    attempts: int = 1
    pid: int | None = None
    pid_began: str | None = None
    cancelled_by: str | None = None


@dataclass(frozen=True)
class Job(Record):
    """A job as it is now.

    Attributes:
        id: Its id.
        command: The words of the command, without `twinloop`.
        by: Who asked for it.
        state: queued, running, done, failed, cancelled, or interrupted: its process was killed.
        created_at: When it was asked for; ISO 8601, like the other times.
        started_at: When it started last.
        ended_at: When it ended.
        exit_code: 0: done; 1: done, and the answer is no, where `error` is empty; None where it has not ended by itself.
        error: Why it could not do what was asked.
        attempts: How often it was started or resumed.
        can_resume: Whether it can be put into the queue again.
        what: What it does at the moment.
        done: How much of that is done.
        total: Of how much; None where that is not known.
    """

    id: str
    command: tuple[str, ...]
    by: str
    state: State
    created_at: str
    started_at: str | None
    ended_at: str | None
    exit_code: int | None
    error: str | None
    attempts: int
    can_resume: bool
    what: str | None
    done: float | None
    total: float | None


def read_job(folder: Path) -> Job:
    """A job as it is now: a process that has gone without a word is an interrupted one."""
    record = load_record(JobRecord, folder)
    state = record.state
    progress = read_progress(folder / PROGRESS)
    if state == "running" and not is_locked(folder / ALIVE) and not is_locked(folder.parent / RUNNER):
        state = "interrupted"
    return Job(
        record.id,
        record.command,
        record.by,
        state,
        record.created_at,
        record.started_at,
        record.ended_at,
        record.exit_code,
        record.error,
        record.attempts,
        state in ("failed", "cancelled", "interrupted"),
        progress.what,
        progress.done,
        progress.total,
    )


def load_job_record(folder: Path) -> JobRecord:
    """What is kept of a job."""
    return load_record(JobRecord, folder)


def save_job_record(record: JobRecord, folder: Path) -> None:
    """Write what is kept of a job; a reader sees the old or the new."""
    save_record(record, folder / JobRecord.FILE)


def is_locked(file: Path) -> bool:
    """Whether a process holds the lock of this file; changes nothing."""
    try:
        with file.open("rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def when_began(pid: int) -> str | None:
    """When a process began, as its system says; None where it has gone, or the system does not say."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def now() -> str:
    """The time as ISO 8601, in ms: jobs are put in order by it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
