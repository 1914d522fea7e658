"""A peer in a virtualenv of its own: whether it is there, how to get it, how to run its script."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Peer:
    """`folder` beside this file holds `requirements.txt` and the scripts."""

    name: str
    folder: str

    @property
    def venv(self) -> Path:
        return HERE.parents[1] / f".venv-{self.folder}"

    def install(self) -> str | None:
        """Make sure that it is installed; None, or why that is not possible here."""
        command = [str(HERE / "install.sh"), str(HERE / self.folder), str(self.venv)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{self.name} cannot be installed here: {error}"
        if done.returncode:
            reason = done.stderr.strip().splitlines()
            return f"{self.name} cannot be installed here: {reason[-1] if reason else 'no reason given'}"
        return None

    def run(
        self, script: str | Path, *words: object, timeout_s: float = 1800, with_twinloop: bool = False
    ) -> dict[str, Any]:
        """Run a script, one of its folder or any by its whole path, in its environment and return the JSON it prints last.

        With `with_twinloop` it can import this source tree.
        """
        command = [str(self.venv / "bin/python"), str(HERE / self.folder / script), *map(str, words)]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        if with_twinloop:
            environment["PYTHONPATH"] = str(HERE.parents[1])
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, env=environment)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode or not lines:
            raise RuntimeError(f"{self.name}: {script} gave no result: {done.stderr.strip()[-2000:]}")
        result: dict[str, Any] = json.loads(lines[-1])
        return result
