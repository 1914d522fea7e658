"""Jobs: real commands in processes of their own, that outlive whoever asked for them."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.datasets.examples import toy_episode
from tests.terminal import twinloop
from twinloop.datasets.writer import make_dataset
from twinloop.errors import UnknownName, WorkspaceError, WrongUse
from twinloop.jobs.commands import check_command, continued
from twinloop.jobs.job import ENDED, FOLDER, LOG, PROGRESS, load_job_record
from twinloop.jobs.progress import Progress, read_progress
from twinloop.jobs.queue import (
    cancel_job,
    ensure_runner,
    list_jobs,
    load_job,
    read_log,
    resume_job,
    start_job,
)
from twinloop.workspace import init_workspace

FOREVER = ("monitor", "data/few", "--every", "0.05")
"""Waits for more episodes than there will be."""
RUN = "import sys, pathlib; from twinloop.jobs.runner import run_jobs; run_jobs(pathlib.Path(sys.argv[1]))"
QUICK = ("data", "verify", "data/few")


@pytest.fixture
def cell(tmp_path):
    root = init_workspace(tmp_path / "cell").root
    with make_dataset(root / "data/few", toy_episode(1).schema) as writer:
        for seed in range(3):
            writer.add(toy_episode(seed))
    yield root
    for job in list_jobs(root):
        if job.state not in ENDED:
            end(root, job.id)


def until(condition, tries=600):
    for _ in range(tries):
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError("never true")


def ended(root, job):
    return until(lambda: (found := load_job(root, job.id)).state in ENDED and found)


def at_work(root, job):
    """Until it has printed what it waits for."""
    until(lambda: "episodes" in read_log(root, job.id).text.partition("\n")[2])
    return load_job_record(root / FOLDER / job.id)


def end(root, job):
    for _ in range(2):
        if load_job(root, job).state not in ENDED:
            cancel_job(root, job, "the test")
    until(lambda: load_job(root, job).state in ENDED)


def runner_of(root):
    """The process that runs the jobs of this workspace."""
    for process in psutil.process_iter(["cmdline"]):
        if process.info["cmdline"] and process.info["cmdline"][-3:] == [
            "-m",
            "twinloop.jobs",
            str(root.resolve()),
        ]:
            return process
    return None


def test_a_job_runs_in_the_workspace_and_says_how_it_ended(cell):
    good, bad = start_job(cell, QUICK, "ann"), start_job(cell, ("data", "verify", "data/none"))
    done, failed = ended(cell, good), ended(cell, bad)
    assert (done.state, done.exit_code, done.by, done.error) == ("done", 0, "ann", None)
    assert "$ twinloop data verify data/few" in read_log(cell, good.id).text
    assert failed.state == "failed" and "does not exist" in failed.error and failed.can_resume
    assert "Traceback" not in read_log(cell, bad.id).text
    assert [job.id for job in list_jobs(cell)] == [bad.id, good.id], "newest first"
    until(lambda: runner_of(cell) is None)


def test_a_job_is_interrupted_as_by_a_person_and_resumed(cell):
    job = start_job(cell, FOREVER)
    at_work(cell, job)
    waiting = start_job(cell, QUICK)
    assert load_job(cell, waiting.id).state == "queued", "one at a time"
    assert cancel_job(cell, waiting.id).state == "cancelled"
    cancel_job(cell, job.id, "ann")
    found = ended(cell, job)
    assert (found.state, found.exit_code) == ("cancelled", 130)
    assert "interrupted; committed data is kept" in read_log(cell, job.id).text
    again = resume_job(cell, job.id)
    assert again.attempts == 2
    until(lambda: load_job(cell, job.id).state == "running")
    with pytest.raises(WorkspaceError, match="it is running"):
        resume_job(cell, job.id)
    end(cell, job.id)
    with pytest.raises(WorkspaceError, match="has ended"):
        cancel_job(cell, job.id)


def test_a_job_outlives_the_process_that_runs_the_queue_and_none_is_started_twice(cell):
    job = start_job(cell, FOREVER)
    pid = at_work(cell, job).pid
    waiting = start_job(cell, QUICK)
    killed = until(lambda: runner_of(cell))
    killed.kill()
    until(lambda: not killed.is_running() or killed.status() == psutil.STATUS_ZOMBIE)
    assert load_job(cell, job.id).state == "running", "it goes on alone"
    others = [subprocess.Popen([sys.executable, "-c", RUN, str(cell)]) for _ in range(3)]
    until(lambda: sum(one.poll() is not None for one in others) == 2)
    assert load_job_record(cell / FOLDER / job.id).pid == pid and load_job(cell, waiting.id).state == "queued"
    cancel_job(cell, job.id)
    assert ended(cell, job).state == "cancelled", "by what it wrote itself"
    assert ended(cell, waiting).state == "done"
    assert (cell / FOLDER / waiting.id / LOG).read_text().count("$ twinloop") == 1
    assert [one.wait(60) for one in others] == [0, 0, 0]


def test_a_killed_job_is_interrupted_and_can_be_resumed(cell):
    job = start_job(cell, FOREVER)
    pid = at_work(cell, job).pid
    os.killpg(pid, signal.SIGKILL)
    found = ended(cell, job)
    assert (found.state, found.exit_code, found.can_resume) == ("interrupted", None, True)
    until(lambda: runner_of(cell) is None)
    resume_job(cell, job.id)
    second = at_work(cell, job)
    until(lambda: load_job(cell, job.id).state == "running")
    both = [until(lambda: runner_of(cell)), psutil.Process(load_job_record(cell / FOLDER / job.id).pid)]
    for process in both:
        process.kill()
    until(lambda: load_job(cell, job.id).state == "interrupted")
    assert second.attempts == 2 and ensure_runner(cell), "whoever comes next cleans up"
    until(lambda: load_job_record(cell / FOLDER / job.id).state == "interrupted")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("studio",), "no command that can be a job"),
        (("data", "consent", "withdraw", "x"), "no command that can be a job"),
        (("identify", "--real", "../other/data"), "out of the workspace"),
        (("identify", "--real=/etc"), "out of the workspace"),
        (("train", "--sim", "data/link"), "out of the workspace"),
        (("train", "--set", "a=../../b"), "out of the workspace"),
        (("gap", "--real", "~/data"), "out of the workspace"),
        (("loop", "--robot", "python:driver.py"), "reaches nothing at python:"),
        (("loop", "--robot", "standin:../x.yaml"), "out of the workspace"),
        (("evaluate", "openpi:ws://10.0.0.1"), "reaches nothing at openpi:"),
        (("evaluate", "gym:os:x"), "reaches nothing at gym:"),
        (("monitor", "data/few", "--webhook", "http://10.0.0.1"), "not for jobs"),
        (("--debug", "identify"), "no command that can be a job"),
        (("identify", "a\0b"), "control characters"),
        (("identify", *["x"] * 300), "too long"),
    ],
)
def test_commands_that_reach_out_of_the_workspace_are_refused(cell, command, says):
    (cell / "data/link").symlink_to("/etc")
    with pytest.raises(WrongUse, match=says):
        start_job(cell, command)
    assert list_jobs(cell) == []


def test_what_a_job_may_name(tmp_path):
    words = (
        "identify",
        "--real",
        "data/runs",
        "--parameters",
        "*_friction_nm,action_delay_s",
        "--force",
        "see: a, b",
    )
    assert check_command(tmp_path, words) == words
    assert check_command(tmp_path, ("loop", "--robot", "standin:remote", "--set", "gate_trials=3"))
    (tmp_path / "data/new").mkdir(parents=True)
    assert continued(tmp_path, ("generate", "--out", "data/new"))[-1] == "--resume"
    assert continued(tmp_path, ("generate", "--out", "data/other"))[-1] == "data/other", "nothing was begun"


def test_unknown_jobs_are_refused_also_where_they_look_like_paths(cell):
    for name in ("../cell", "..", "20260101-000000000-x-0000", "a/b", ""):
        with pytest.raises(UnknownName):
            load_job(cell, name)


def test_progress_is_read_whatever_is_in_the_file(tmp_path):
    file = tmp_path / PROGRESS
    assert read_progress(file) == Progress()
    file.write_text('{"what": "fitting", "done": 3, "total": 8}\n{"what": "fit')
    assert read_progress(file) == Progress("fitting", 3, 8)
    for content in (b"\xff\xfe", b"[1]\n", b'{"done": "x", "what": 5, "exit_code": true}\n', b"[" * 5000):
        file.write_bytes(content)
        assert read_progress(file).done is None


def test_a_log_is_read_in_parts_that_end_between_characters(cell):
    job = start_job(cell, QUICK)
    ended(cell, job)
    text = "é" * 40_000 + "€"
    (cell / FOLDER / job.id / LOG).write_text(text)
    first = read_log(cell, job.id)
    second = read_log(cell, job.id, first.next_offset)
    assert first.text + second.text == text and 0 < first.next_offset <= 65536
    assert read_log(cell, job.id, second.next_offset).text == ""


def test_jobs_from_the_command_line(cell):
    assert twinloop("jobs", "ls", cwd=cell).strip() == "no jobs"
    started = json.loads(twinloop("jobs", "start", "--json", "--by", "ann", *QUICK, cwd=cell))
    found = ended(cell, load_job(cell, started["id"]))
    assert found.state == "done"
    assert "data verify data/few" in twinloop("jobs", "ls", cwd=cell)
    assert "3 episodes" in twinloop("jobs", "log", found.id, cwd=cell)
    assert "no job is called" in twinloop("jobs", "cancel", "nothing", cwd=cell, code=2)
