"""A watchdog: when no command has been sent for 200 ms, the robot holds its position."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np

from twinloop.episode import Array
from twinloop.errors import RobotError
from twinloop.robots.protocol import Description, Observation, Robot

SILENCE_S = 0.2


class Watchdog:
    """Wraps a robot that has no watchdog of its own. The stand-in has one, and so have most industrial arms.

    A thread checks every `silence_s / 4`; with your own `clock` there is no thread, and you call `check`. The robot holds
    the reading `position_signal`, whose elements are those of the command.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        silence_s: float = SILENCE_S,
        position_signal: str = "observation.state",
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._robot, self._silence_s, self._position_signal = robot, silence_s, position_signal
        self._clock = clock or time.monotonic
        self._threaded = clock is None
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._last_s = 0.0
        self.holding = False
        self.lost: RobotError | None = None

    @property
    def description(self) -> Description:
        """The wrapped robot's description."""
        return self._robot.description

    def connect(self) -> None:
        """Connect and start watching."""
        with self._lock:
            self._robot.connect()
            self._last_s, self.holding, self.lost = self._clock(), False, None
        if self._threaded and self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._watch, name="robot-watchdog", daemon=True)
            self._thread.start()

    def observe(self, cameras: tuple[str, ...] = ()) -> Observation:
        """The robot's readings."""
        with self._lock:
            return self._robot.observe(cameras)

    def act(self, action: Array) -> Array:
        """Send a command and restart the timer."""
        with self._lock:
            sent = self._robot.act(action)
            self._last_s, self.holding = self._clock(), False
            return sent

    def check(self) -> bool:
        """Hold if the last command is too old; returns whether the robot is holding."""
        with self._lock:
            if not self.holding and self._clock() - self._last_s > self._silence_s:
                position = self._robot.observe().signals[self._position_signal]
                self._robot.act(np.asarray(position, np.float64))
                self.holding = True
            return self.holding

    def close(self) -> None:
        """Stop watching and disconnect."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with self._lock:
            self._robot.close()

    def _watch(self) -> None:
        while not self._stop.wait(self._silence_s / 4.0):
            try:
                self.check()
            except RobotError as error:
                # The caller's next observe or act raises the same error.
                self.lost = error
                return
