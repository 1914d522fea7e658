"""Faults at every step at which a command of the registry writes: files under some folders, and MLflow's database."""

import errno
import os
import sys
from contextlib import contextmanager
from pathlib import Path

from mlflow.tracking import MlflowClient

KILLED = 9
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CALLS = (
    "create_registered_model",
    "create_model_version",
    "set_registered_model_alias",
    "delete_registered_model_alias",
    "set_registered_model_tag",
    "set_model_version_tag",
)
EVENTS = ("os.rename", "os.remove", "os.truncate", "os.mkdir", "os.chmod", "os.link")

_steps = None
_write, _fsync = os.write, os.fsync


class Steps:
    """Counts the steps below `roots` and calls `fault` instead of step number `at`."""

    def __init__(self, roots, at, fault):
        self.roots, self.at, self.fault, self.count = [str(root) for root in roots], at, fault, 0

    def step(self, path=None):
        if path is not None and not any(root in str(path) for root in self.roots):
            return
        self.count += 1
        if self.count == self.at:
            self.fault()


def _hook(event, arguments):
    if _steps is None or (event == "os.mkdir" and Path(arguments[0]).is_dir()):
        return  # making a folder that exists changes nothing
    if (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING) or event in EVENTS:
        _steps.step(arguments[0])


def _torn_write(descriptor, content):
    """Half of the content is written before the fault."""
    if _steps is not None and descriptor > 2 and _steps.count + 1 == _steps.at:
        _write(descriptor, content[: len(content) // 2])
    if _steps is not None and descriptor > 2:
        _steps.step()
    return _write(descriptor, content)


def _counted_fsync(descriptor):
    if _steps is not None:
        _steps.step()


def _counted(call):
    def counted(self, *arguments, **more):
        if _steps is not None:
            _steps.step()
        made = call(self, *arguments, **more)
        if _steps is not None:
            _steps.step()
        return made

    return counted


@contextmanager
def faults(roots, at, fault, monkeypatch):
    """Within the block, `fault` happens at step number `at`; yields the steps."""
    global _steps
    if not hasattr(sys, "_registry_faults"):
        sys.addaudithook(_hook)  # stays for the life of the process, and does nothing outside the block
        sys._registry_faults = True
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", _torn_write)
        patch.setattr(os, "fsync", _counted_fsync)
        for name in CALLS:
            patch.setattr(MlflowClient, name, _counted(getattr(MlflowClient, name)))
        _steps = Steps(roots, at, fault)
        try:
            yield _steps
        finally:
            _steps = None


def no_space():
    """A full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def kill():
    """The end of the process, without any cleaning up."""
    os._exit(KILLED)


def run_killed(roots, at, command, monkeypatch):
    """Run a command in a process of its own that ends at step number `at`; returns whether it got that far."""
    child = os.fork()
    if child == 0:
        try:
            with faults(roots, at, kill, monkeypatch):
                command()
        finally:
            os._exit(1 if sys.exc_info()[0] else 0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, KILLED), code
    return code == KILLED
