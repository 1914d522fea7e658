"""The queue of a workspace: ask for a job, look at it, cancel it, go on with it. One runs at a time, in the order in which they were asked for.

A process of its own, the runner, starts the jobs; it is started by whoever needs it, and goes when nothing is left to run. Nothing
here waits for a job, and none needs the process that asked for it.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from twinloop.datasets.commit import disk_errors, wait_for_lock
from twinloop.errors import TwinloopError, UnknownName, WorkspaceError
from twinloop.jobs.commands import check_command, continued, name_of
from twinloop.jobs.job import (
    ALIVE,
    FOLDER,
    LOG,
    PROGRESS,
    QUEUE,
    RUNNER,
    Job,
    JobRecord,
    is_locked,
    load_job_record,
    now,
    read_job,
    save_job_record,
    when_began,
)

MOST_WAITING = 50
"""Jobs in the queue: nobody asks for more on purpose."""
LOG_PART = 64 * 1024
LONGEST_NAME = 100
_ID = re.compile(r"[0-9]{8}-[0-9]{9}-[a-z-]{1,30}-[0-9a-f]{4}")


@dataclass(frozen=True)
class LogPart:
    """A part of what a job printed; the next one begins at `next_offset`, in bytes."""

    text: str
    offset: int
    next_offset: int


def start_job(root: str | Path, command: Sequence[str], by: str = "") -> Job:
    """Put a command into the queue of a workspace.

    Args:
        root: The workspace, in which the command runs.
        command: Its words, without `twinloop`, such as `["identify", "--real", "data/runs"]`.
        by: Who asks for it; recorded.

    Returns:
        The job, which waits for those before it.

    Raises:
        UnknownName: If the command cannot be a job.
        WrongUse: If it reaches out of the workspace.
        WorkspaceError: If too many wait already.
    """
    place = Path(root)
    words = check_command(place, command)
    with _changing(place):
        if sum(job.state == "queued" for job in _records(place)) >= MOST_WAITING:
            raise WorkspaceError(
                "too many jobs wait", expected=f"at most {MOST_WAITING}", remedy="cancel some of them"
            )
        moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S%f")[:-3]
        name = f"{moment}-{name_of(words).replace(' ', '-')}-{secrets.token_hex(2)}"
        at = now()
        save_job_record(JobRecord(name, words, by[:LONGEST_NAME], "queued", at, at), place / FOLDER / name)
    ensure_runner(place)
    return read_job(place / FOLDER / name)


def list_jobs(root: str | Path) -> list[Job]:
    """Every job of a workspace, newest first; one whose folder cannot be read is left out."""
    found = []
    for folder in reversed(_folders(Path(root))):
        with suppress(TwinloopError):
            found.append(read_job(folder))
    return found


def load_job(root: str | Path, job: str) -> Job:
    """One job as it is now.

    Args:
        root: The workspace.
        job: The job's id.

    Returns:
        The job.

    Raises:
        UnknownName: If there is no such job.
    """
    return read_job(_folder(Path(root), job))


def read_log(root: str | Path, job: str, offset: int = 0) -> LogPart:
    """A part of what a job printed: at most 64 KiB from `offset` on, in bytes.

    Args:
        root: The workspace.
        job: The job's id.
        offset: Bytes to skip; beyond the end, there is nothing yet.

    Returns:
        The part; characters that are not whole yet are left for the next one.

    Raises:
        UnknownName: If there is no such job.
    """
    file = _folder(Path(root), job) / LOG
    try:
        with file.open("rb") as opened:
            opened.seek(offset)
            content = opened.read(LOG_PART)
    except OSError:
        return LogPart("", offset, offset)
    cut = max((content.rfind(bytes([lead])) for lead in content[-3:] if lead >= 0xC0), default=-1)
    if cut >= 0 and len(content) - cut < _length(content[cut]):
        content = content[:cut]
    return LogPart(content.decode(errors="replace"), offset, offset + len(content))


def cancel_job(root: str | Path, job: str, by: str = "") -> Job:
    """Take a job out of the queue, or interrupt it as Ctrl-C would; asked for again, end it at once.

    Args:
        root: The workspace.
        job: The job's id.
        by: Who cancels it; recorded.

    Returns:
        The job; a running one ends a moment later.

    Raises:
        UnknownName: If there is no such job.
        WorkspaceError: If it has ended.
    """
    place, folder = Path(root), _folder(Path(root), job)
    with _changing(place):
        record, state = load_job_record(folder), read_job(folder).state
        who = by[:LONGEST_NAME] or "somebody"
        if state == "queued":
            save_job_record(replace(record, state="cancelled", cancelled_by=who, ended_at=now()), folder)
        elif state == "running":
            _signal(record, folder, signal.SIGKILL if record.cancelled_by else signal.SIGINT)
            save_job_record(replace(record, cancelled_by=who), folder)
        else:
            raise WorkspaceError(f"the job has ended: {state}", got=job)
    return read_job(folder)


def resume_job(root: str | Path, job: str) -> Job:
    """Put a job that failed, was cancelled or was killed into the queue again.

    Args:
        root: The workspace.
        job: The job's id.

    Returns:
        The job; what it printed before stays in its log.

    Raises:
        UnknownName: If there is no such job.
        WorkspaceError: If it waits, runs, or is done.
    """
    place, folder = Path(root), _folder(Path(root), job)
    with _changing(place):
        record, found = load_job_record(folder), read_job(folder)
        if not found.can_resume:
            raise WorkspaceError(f"the job cannot be resumed: it is {found.state}", got=job)
        words = check_command(place, continued(place, record.command))
        (folder / PROGRESS).unlink(missing_ok=True)
        save_job_record(
            JobRecord(
                record.id, words, record.by, "queued", record.created_at, now(), attempts=record.attempts + 1
            ),
            folder,
        )
    ensure_runner(place)
    return read_job(folder)


def ensure_runner(root: str | Path) -> bool:
    """Start the process that runs the jobs where some wait and it has gone; returns whether it was started."""
    place = Path(root)
    waiting = any(record.state in ("queued", "running") for record in _records(place))
    if not waiting or is_locked(place / FOLDER / RUNNER):
        return False
    environment = {name: value for name, value in os.environ.items() if name != "TWINLOOP_STUDIO_TOKEN"}
    subprocess.run(
        [sys.executable, "-m", "twinloop.jobs", str(place.resolve())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
        check=True,
    )
    return True


def next_record(root: Path) -> JobRecord | None:
    """The job that runs, or else the one that has waited longest."""
    waiting = [record for record in _records(root) if record.state in ("queued", "running")]
    return min(
        waiting, key=lambda record: (record.state == "queued", record.queued_at, record.id), default=None
    )


def _changing(root: Path) -> AbstractContextManager[None]:
    return wait_for_lock(root / FOLDER / QUEUE)


def _records(root: Path) -> list[JobRecord]:
    found = []
    for folder in _folders(root):
        with suppress(TwinloopError):
            found.append(load_job_record(folder))
    return found


def _folders(root: Path) -> list[Path]:
    """Folders of jobs, oldest first."""
    with disk_errors(root):
        return sorted(path for path in (root / FOLDER).glob("*-*") if _ID.fullmatch(path.name))


def _folder(root: Path, job: str) -> Path:
    folder = root / FOLDER / job
    if not _ID.fullmatch(job) or not (folder / JobRecord.FILE).is_file():
        raise UnknownName("job", job[:80], [path.name for path in _folders(root)[-20:]], "twinloop jobs ls")
    return folder


def _signal(record: JobRecord, folder: Path, number: signal.Signals) -> None:
    """Send a signal to a job and what it started, if the process is still the one that was started."""
    if record.pid is None or not is_locked(folder / ALIVE) or when_began(record.pid) != record.pid_began:
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(record.pid, number)


def _length(lead: int) -> int:
    """Bytes of a UTF-8 character that begins with this one."""
    return 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2
