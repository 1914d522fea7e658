"""A recorder for the fault drills: moves the robot at an address, commanded by a policy in a process of its own.

python -m benchmarks.safety_worker record ADDRESS OUT STOP_AFTER    # prints the policy's process id; 0: nobody presses stop
python -m benchmarks.safety_worker policy                          # reads a step's number, prints a phase
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np

import twinloop
from twinloop.episode import Actor, Array
from twinloop.errors import PolicyGone

SWING = 0.25
"""Amplitude of the motion, rad, once in two seconds."""


class Remote:
    """Asks the policy's process for every command, and waits for the answer."""

    actor: Actor = "policy"
    actor_id, cameras = "swing", ()

    def __init__(self) -> None:
        words = [sys.executable, "-m", "benchmarks.safety_worker", "policy"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def restart(self, observation: twinloop.Observation, seed: int) -> None:
        self._start, self._step = np.asarray(observation.signals["observation.state"], np.float64), 0

    def act(self, observation: twinloop.Observation) -> Array:
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(f"{self._step}\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except OSError:
            answer = ""
        if not answer:
            raise PolicyGone("the policy's process has ended")
        self._step += 1
        command = self._start.copy()
        command[:4] += float(answer)
        return command


def main() -> None:
    if sys.argv[1] == "policy":
        for line in sys.stdin:
            print(SWING * np.sin(np.pi * int(line) / 50.0), flush=True)
        return
    _, _, address, out, stop_after = sys.argv
    controller = Remote()
    robot = twinloop.SafetyEnvelope(twinloop.open_robot(address))
    with twinloop.connected(robot):
        print(controller.process.pid, flush=True)
        if float(stop_after):
            threading.Timer(float(stop_after), _press_stop, (robot,)).start()
        spec = twinloop.RecordingSpec(1, 60.0, judged=False, reconnects=0)
        twinloop.record(robot, controller, Path(out), spec)


def _press_stop(robot: twinloop.SafetyEnvelope) -> None:
    print("stop", flush=True)
    robot.stop("somebody pressed stop", "anna")


if __name__ == "__main__":
    main()
