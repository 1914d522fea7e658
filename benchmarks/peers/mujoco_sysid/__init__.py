"""mujoco.sysid in `.venv-sysid`: whether it is there, how to get it, how to run a script of this folder in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENV = HERE.parents[2] / ".venv-sysid"


def install() -> str | None:
    """Make sure that mujoco.sysid is installed; None, or why that is not possible here."""
    try:
        done = subprocess.run(
            [str(HERE / "install.sh"), str(VENV)],
            env={**environment(), "PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=1800,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"mujoco.sysid cannot be installed here: {error}"
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip()).splitlines()
        return f"mujoco.sysid cannot be installed here: {reason[-1] if reason else 'no reason given'}"
    return None


def run(script: str, *words: object, timeout_s: float = 1800) -> None:
    """Run a script of this folder in the environment of mujoco.sysid."""
    command = [str(VENV / "bin/python"), str(HERE / script), *(str(word) for word in words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, env=environment())
    if done.returncode:
        raise RuntimeError(f"{script} failed: {done.stderr.strip()[-2000:]}")


def environment() -> dict[str, str]:
    """Ours without what would lead to our own packages."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
