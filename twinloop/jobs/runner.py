"""The runner of a workspace's jobs: starts them one after the other and writes how they ended.

There is one at a time. If it is killed, the job goes on: it holds a lock of its own, and the next runner waits for that one before it
starts another.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

from twinloop.datasets.commit import wait_for_lock
from twinloop.errors import TwinloopError
from twinloop.jobs.job import (
    ALIVE,
    FOLDER,
    LOG,
    PROGRESS,
    QUEUE,
    RUNNER,
    JobRecord,
    State,
    is_locked,
    load_job_record,
    now,
    save_job_record,
    when_began,
)
from twinloop.jobs.progress import VARIABLE, read_progress
from twinloop.jobs.queue import next_record

INTERRUPTED = 130
OUTPUT = {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
"""What a job prints goes to a file, line by line."""


def run_jobs(root: Path) -> None:
    """Run every job that waits in a workspace; returns at once where another process does so.

    Args:
        root: The workspace.
    """
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # started in the background: jobs would ignore Ctrl-C
    jobs = root / FOLDER
    jobs.mkdir(exist_ok=True)
    with (jobs / RUNNER).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        while True:
            with wait_for_lock(jobs / QUEUE):
                record = next_record(root)
                if record is None:
                    fcntl.flock(lock, fcntl.LOCK_UN)  # before anybody else may add one
                    return
                started = _start(root, record) if record.state == "queued" else None
            _finish(jobs, record.id, _wait(jobs / record.id, started))


def _start(root: Path, record: JobRecord) -> subprocess.Popen[bytes] | None:
    """Start a job's process, which holds the job's lock as long as it, or anything it started, lives."""
    folder = root / FOLDER / record.id
    environment = os.environ | OUTPUT | {VARIABLE: str(folder / PROGRESS)}
    with (folder / ALIVE).open("a") as alive, (folder / LOG).open("ab") as log:
        fcntl.flock(alive, fcntl.LOCK_EX)
        running = replace(
            record, state="running", started_at=now(), ended_at=None, exit_code=None, error=None
        )
        _write_heading(log, record)
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "twinloop", *record.command],
                cwd=root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                pass_fds=(alive.fileno(),),
            )
        except OSError as error:
            save_job_record(replace(running, state="failed", ended_at=now(), error=str(error)), folder)
            return None
        save_job_record(replace(running, pid=process.pid, pid_began=when_began(process.pid)), folder)
    return process


def _write_heading(log: IO[bytes], record: JobRecord) -> None:
    again = f" (attempt {record.attempts})" if record.attempts > 1 else ""
    log.write(f"$ twinloop {' '.join(record.command)}{again}\n".encode())
    log.flush()


def _wait(folder: Path, process: subprocess.Popen[bytes] | None) -> int | None:
    """Wait for a job's process, or for one that an earlier runner started; its exit code, where that is known."""
    if process is not None:
        return process.wait()
    if is_locked(folder / ALIVE):
        with (folder / ALIVE).open("rb") as alive:
            fcntl.flock(alive, fcntl.LOCK_SH)
    return None


def _finish(jobs: Path, job: str, code: int | None) -> None:
    """Write how a job ended: by its exit code, or by what it wrote last where another runner started it."""
    folder = jobs / job
    with wait_for_lock(jobs / QUEUE), suppress(TwinloopError):
        record = load_job_record(folder)
        if record.state != "running":
            return
        said = read_progress(folder / PROGRESS)
        code = said.exit_code if code is None or code < 0 else code
        save_job_record(
            replace(
                record,
                state=_state(record, code, said.error),
                exit_code=code,
                error=said.error,
                ended_at=now(),
            ),
            folder,
        )


def _state(record: JobRecord, code: int | None, error: str | None) -> State:
    """A command that ends with 1 and no error has done its work: the answer is no."""
    if code == 0 or (code == 1 and error is None):
        return "done"
    if record.cancelled_by is not None:
        return "cancelled"
    return "interrupted" if code in (None, INTERRUPTED) else "failed"
