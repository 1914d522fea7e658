"""LeRobot in `.venv-lerobot`: whether it is there, how to get it, how to run a script of this folder in it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
VENV = HERE.parents[2] / ".venv-lerobot"


def install() -> str | None:
    """Make sure that LeRobot is installed; None, or why that is not possible here."""
    try:
        done = subprocess.run(
            [str(HERE / "install.sh"), str(VENV)], capture_output=True, text=True, timeout=1800
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"LeRobot cannot be installed here: {error}"
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip()).splitlines()
        return f"LeRobot cannot be installed here: {reason[-1] if reason else 'no reason given'}"
    return None


def run(script: str, *words: object, timeout_s: float = 1800) -> dict[str, Any]:
    """Run a script of this folder in LeRobot's environment and return the JSON it prints."""
    command = [str(VENV / "bin/python"), str(HERE / script), *(str(word) for word in words)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, env=environment)
    start = done.stdout.find("{")
    if start < 0:
        raise RuntimeError(f"{script} gave no result: {done.stderr.strip()[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout[start:])
    return result


def train(folder: Path, *words: str) -> None:
    """Run LeRobot's trainer in a folder, offline and with a cache of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(folder / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [str(VENV / "bin/lerobot-train"), *words],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"lerobot-train failed: {(done.stdout + done.stderr)[-2000:]}")
