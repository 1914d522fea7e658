"""A watchdog: when no command has been sent for 200 ms, the robot holds its position."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from twinloop.episode import Array
from twinloop.errors import RobotError, RobotGone
from twinloop.robots.protocol import Description, Observation, Robot, read_position

SILENCE_S = 0.2


class Watchdog:
    """Wraps a robot that has no watchdog of its own. The stand-in has one, and so have most industrial arms.

    A thread checks every `silence_s / 4`; with your own `clock` there is no thread, and you call `check`. `hold` tells the
    robot to stay; by default its position is sent as a command. `holds` counts how often that was needed.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        silence_s: float = SILENCE_S,
        hold: Callable[[], object] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._robot, self._silence_s = robot, silence_s
        self._hold = hold or self._send_position
        self._clock = clock or time.monotonic
        self._threaded = clock is None
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._last_s = 0.0
        self._failure: Exception | None = None
        self.holding = False
        self.holds = 0

    @property
    def description(self) -> Description:
        """The wrapped robot's description."""
        return self._robot.description

    def connect(self) -> None:
        """Connect and start watching."""
        with self._lock:
            self._robot.connect()
        self._start()

    def observe(self, cameras: tuple[str, ...] = ()) -> Observation:
        """The robot's readings."""
        with self._lock:
            return self._robot.observe(cameras)

    def act(self, action: Array) -> Array:
        """Send a command and restart the timer.

        Raises:
            RobotError: The robot fell silent, and could not be told to hold.
        """
        with self._lock:
            if self._failure is not None:
                raise RobotError(
                    f"commands stopped, and the robot could not be told to hold ({self._failure})",
                    remedy="check the robot before it moves again",
                ) from self._failure
            sent = self._robot.act(action)
            self._last_s, self.holding = self._clock(), False
            return sent

    def check(self) -> bool:
        """Hold if the last command is too old; returns whether the robot is holding."""
        with self._lock:
            if not self.holding and self._clock() - self._last_s > self._silence_s:
                self._hold()
                self.holding, self._failure = True, None
                self.holds += 1
            return self.holding

    def close(self) -> None:
        """Stop watching and disconnect."""
        self._end()
        with self._lock:
            self._robot.close()

    @contextmanager
    def watching(self) -> Iterator[Watchdog]:
        """Watch a robot that is connected already, for the length of a `with` block."""
        self._start()
        try:
            yield self
        finally:
            self._end()

    def _start(self) -> None:
        with self._lock:
            self._last_s, self.holding, self._failure = self._clock(), False, None
        if self._threaded and self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._watch, name="robot-watchdog", daemon=True)
            self._thread.start()

    def _end(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _watch(self) -> None:
        while not self._stop.wait(self._silence_s / 4.0):
            try:
                self.check()
            except RobotGone:
                continue  # the caller's next `act` raises the same
            except Exception as error:  # noqa: BLE001  tried again soon, and raised by the caller's next `act`
                self._failure = error

    def _send_position(self) -> None:
        self._robot.act(read_position(self._robot.description, self._robot.observe()))
