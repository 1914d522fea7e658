"""A driver for the benchmark of the stop: a stand-in in real time, with a line for every command that it has acknowledged.

The stand-in's address and the file of the lines come from the environment. The recorder commands from the main thread; a hold that a
person asks for comes from another one.
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import numpy as np

from twinloop.episode import Array
from twinloop.robots.protocol import Robot
from twinloop.robots.remote import RemoteRobot, open_tcp

ADDRESS, LINES = "TWINLOOP_STOP_ROBOT", "TWINLOOP_STOP_LINES"


class Stamped(RemoteRobot):
    """The stand-in, with a stamp of this machine's clock on every command."""

    lines: Path

    def act(self, action: Array) -> Array:
        """Send a command, and note when it was acknowledged."""
        sent = super().act(action)
        line = {
            "at_s": time.time(),
            "by_recorder": threading.current_thread() is threading.main_thread(),
            "command": np.asarray(sent, np.float64).tolist(),
        }
        with self.lines.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return sent


def make_robot() -> Robot:
    """The stand-in that the benchmark has started."""
    opened = open_tcp(os.environ[ADDRESS])
    opened.__class__ = Stamped
    assert isinstance(opened, Stamped)
    opened.lines = Path(os.environ[LINES])
    return opened
