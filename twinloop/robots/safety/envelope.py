"""The safety envelope: the one thing between whatever commands a robot and the robot.

It lets no command leave the limits of `safety.yaml`, holds the robot when commands or observations stop, stops it where it feels too
much contact, and tells what it did. A stop is latched: only a person resets it.
"""

from __future__ import annotations

import gc
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import numpy as np

from twinloop.episode import Array, Event
from twinloop.errors import RobotError, RobotGone, SafetyStop
from twinloop.robots.protocol import Description, Observation, Robot, read_position, validate_action
from twinloop.robots.safety.limits import SafetyLimits, load_limits
from twinloop.robots.safety.motion import LimitedMotion, SafeMotion

CHECK_S = 0.01
"""How often the envelope looks whether commands have stopped."""
MAX_AHEAD = 2.0
"""Commands that may be sent beyond one for each control step of the robot's clock: a loop's jitter."""
STALL_STEPS = 2.5
"""Control steps without a command after which the robot has come to rest at its last one."""
MAX_HOLD_STEPS = 400
"""Control steps in which a robot must have come to a hold."""

INTERVENTIONS = ("limited", "held", "stopped", "refused")
"""Kinds of events that say that the envelope intervened."""
OVERRIDE = "override"
"""Kind of the event that says which limit does not hold, by whose decision."""


@dataclass(frozen=True)
class Intervention:
    """What the envelope did: when first, on the robot's clock, how often, and why."""

    time_s: float
    kind: str
    count: int
    detail: str


def count_interventions(events: Iterable[Event]) -> dict[str, int]:
    """How often the envelope intervened in an episode, by kind, from the events that `record` stores."""
    counts: Counter[str] = Counter()
    for event in events:
        if event.kind in INTERVENTIONS:
            times = event.detail.partition(" ")[0]
            counts[event.kind] += int(times) if times.isascii() and times.isdigit() else 1
    return dict(counts)


@dataclass
class _Tally:
    """How often one kind of intervention happened, since when, and for which reasons."""

    time_s: float
    count: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


class SafetyEnvelope:
    """Wraps a robot: every command to it goes through here.

    Args:
        robot: The robot.
        limits: Its limits; default: those of its safety file (`load_limits`).
        clock: This machine's clock; how much time of the robot's has passed since it was last observed.
        sleep: Waits, in s.
    """

    def __init__(
        self,
        robot: Robot,
        limits: SafetyLimits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._robot, self._given, self._limits = robot, limits, limits
        self._clock, self._sleep = clock, sleep
        self._lock, self._stopping = threading.RLock(), threading.Lock()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._tallies: dict[str, _Tally] = {}
        self._failure: Exception | None = None
        self.stopped: str | None = None
        self.holding = False
        self._forget()

    def _forget(self) -> None:
        self._motion: LimitedMotion | SafeMotion | None = None
        self._last: Array | None = None
        self._credit, self._approaching, self.holding = MAX_AHEAD, True, False
        self._seen_s = self._received_s = self._sent_s = self._accounted_s = -math.inf
        self._commanded_at = self._observed_at = self._clock()

    @classmethod
    def around(cls, robot: Robot) -> SafetyEnvelope:
        """The robot in its safety envelope, unless it is in one already."""
        return robot if isinstance(robot, SafetyEnvelope) else cls(robot)

    @property
    def description(self) -> Description:
        """The wrapped robot's description."""
        return self._robot.description

    @property
    def limits(self) -> SafetyLimits:
        """The limits that hold, read at the first use of a connected robot."""
        if self._limits is None:
            self._limits = self._given or load_limits(self.description)
        return self._limits

    def connect(self) -> None:
        """Connect, and check robot and limits against each other; see `check`."""
        with self._lock:
            self._robot.connect()
            self.check()

    def check(self) -> None:
        """Check a connected robot against its limits.

        Raises:
            RobotError: It has no limits, they do not fit it, or it does not report where it is.
            SafetyStop: It was stopped, and nobody has reset it.
        """
        self._limits = None
        latched = self.limits.latch.stopped if self.limits.latch else None
        if latched is not None:
            self.stopped = latched.reason
            raise SafetyStop(
                f"robot {self.description.serial} was stopped at {latched.at}: {latched.reason} (by {latched.by})",
                remedy="look at the robot, then: twinloop robot reset ADDRESS --by NAME --reason WHAT_YOU_FOUND",
            )
        if self.stopped is not None:
            self._require_free()
        self.restart()

    def restart(self) -> None:
        """Begin anew, after something else has moved the robot: the first command is limited from where it is."""
        with self._lock:
            self._forget()
            if self.limits.contact is not None:
                self.limits.contact.restart()

    def observe(self, cameras: tuple[str, ...] = ()) -> Observation:
        """The robot's readings; too much contact stops it."""
        with self._lock:
            observation = self._robot.observe(cameras)
            if not math.isfinite(observation.time_s):
                raise RobotError(
                    "the robot's clock gives no time", got=observation.time_s, expected="seconds"
                )
            if observation.time_s < self._seen_s:
                raise RobotError(
                    "the robot's clock went back",
                    got=f"{observation.time_s:.3f} s after {self._seen_s:.3f} s",
                    remedy="call restart() after something else has moved the robot",
                )
            now = self._clock()
            if observation.time_s > self._seen_s:
                self._observed_at = now
            self._seen_s, self._received_s = observation.time_s, now
            guard = self.limits.contact
            if guard is not None and self.stopped is None and (found := guard.find(observation)) is not None:
                self.stop(found, "the safety envelope")
            return observation

    def act(self, action: Array) -> Array:
        """Send the nearest command within the limits; returns what was sent.

        Raises:
            SafetyStop: The robot is stopped.
            RobotError: The command is not one, or the robot could not be told to hold.
        """
        with self._lock:
            self._require_free()
            try:
                target = validate_action(self.description, action)
            except RobotError as error:
                self._note("refused", error.what)
                raise
            motion, before = self._begin(target)
            self._require_free()  # what was observed at the start may have stopped it
            if not self.description.lockstep and not self._take_credit():
                return self._send(before, before)  # ahead of the robot's clock: the last command again
            command, causes = motion.advance(target, self.limits.approach if self._approaching else None)
            if causes:
                self._note("limited", *sorted(causes))
            self._approaching = self._approaching and not np.allclose(command, target, atol=1e-6)
            self._commanded_at, self.holding = self._clock(), False
            return self._send(command, before)

    def hold(self) -> Array:
        """Bring the robot to rest where it is, or at its last command if it does not say where that is.

        Returns:
            The last command.
        """
        with self._lock:
            target = self._find_place()
            motion, command = self._begin(target)
            if self._is_stalled():
                motion.rest()
            sent = command
            for step in range(MAX_HOLD_STEPS):
                if step and not self.description.lockstep:
                    self._sleep(1.0 / self.description.rate_hz)
                before = command
                command, _ = motion.advance(target, stay=True)
                sent = self._send(command, before)
                if motion.resting and np.allclose(command, target, atol=1e-6):
                    break
            self.holding = True
            return sent

    def stop(self, reason: str, by: str) -> None:
        """Stop the robot until a person resets it: every further command is refused, and the robot brought to a hold.

        Args:
            reason: What happened.
            by: Who stopped it.
        """
        # At once, also while another thread waits for the robot: no command begins after this.
        with self._stopping:
            if self.stopped is not None:
                return
            self.stopped = reason
        with self._lock:
            self._note("stopped", f"{reason} (by {by})")
            try:
                self.hold()
            finally:  # a disk may take longer than the hold
                if self.limits.latch is not None:
                    self.limits.latch.stop(reason, by)

    def reset(self, by: str, reason: str) -> None:
        """Let a stopped robot move again, after a person has looked at it.

        Args:
            by: That person.
            reason: What they found.
        """
        with self._lock:
            if self.limits.latch is not None and self.limits.latch.stopped is not None:
                self.limits.latch.reset(by, reason)
            self.stopped = None
            self._forget()

    def wait(self, seconds: float) -> None:
        """Let time pass on this machine."""
        self._sleep(seconds)

    def wait_step(self) -> None:
        """Let a control step pass; in lockstep a command does that."""
        if not self.description.lockstep:
            self._sleep(1.0 / self.description.rate_hz)

    def close(self) -> None:
        """Disconnect from the robot."""
        self._end_watch()
        with self._lock:
            self._robot.close()

    def take_interventions(self) -> tuple[Intervention, ...]:
        """What the envelope did since this was asked last, kind by kind."""
        with self._lock:
            tallies, self._tallies = self._tallies, {}
        found = []
        for kind, tally in tallies.items():
            parts = [f"{reason} {n}" if kind == "limited" else reason for reason, n in tally.reasons.items()]
            found.append(Intervention(tally.time_s, kind, tally.count, ", ".join(parts)))
        return tuple(found)

    @contextmanager
    def watching(self) -> Iterator[SafetyEnvelope]:
        """Hold the robot whenever commands or observations stop, for the length of a `with` block."""
        with nullcontext() if self.description.lockstep else _without_collections():
            self._commanded_at = self._observed_at = self._clock()
            if not self.description.lockstep and math.isfinite(self.limits.silence_s):
                self._end.clear()
                self._thread = threading.Thread(target=self._watch, name="safety-envelope", daemon=True)
                self._thread.start()
            try:
                yield self
            finally:
                self._end_watch()

    def check_silence(self) -> bool:
        """Hold the robot if the last command or observation is too old; returns whether it is held."""
        with self._lock:
            now, silence_s = self._clock(), self.limits.silence_s
            waits = {"command": now - self._commanded_at, "observation": now - self._observed_at}
            silent = [name for name, waited_s in waits.items() if waited_s > silence_s]
            if silent and not self.holding and self.stopped is None:
                self._note("held", f"no {silent[0]} for {1e3 * silence_s:.0f} ms")
                self.hold()
                self._failure = None
            return self.holding

    def _watch(self) -> None:
        while not self._end.wait(min(CHECK_S, 0.25 * self.limits.silence_s)):
            try:
                self.check_silence()
            except RobotGone:
                continue  # the caller's next `act` raises the same
            except Exception as error:  # noqa: BLE001  tried again soon, and raised by the caller's next `act`
                self._failure = error

    def _end_watch(self) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _require_free(self) -> None:
        if self.stopped is not None:
            raise SafetyStop(
                f"robot {self.description.serial} is stopped: {self.stopped}",
                remedy="look at the robot, then reset it",
            )
        if self._failure is not None:
            raise RobotError(
                f"commands stopped, and the robot could not be told to hold ({self._failure})",
                remedy="check the robot before it moves again",
            ) from self._failure

    def _begin(self, target: Array) -> tuple[LimitedMotion | SafeMotion, Array]:
        """The trajectory so far, and its last command; at the start, where the robot is."""
        if self._motion is None or self._last is None:
            observation = self.observe()
            free = self.limits.bounds is None and np.isinf(self.limits.declared.speed_per_s).all()
            self._last = target if free else read_position(self.description, observation)
            self._motion = self.limits.make_motion(self._last, self.description.rate_hz)
        elif not self.description.lockstep and self._is_stalled():
            self._motion.rest()
        return self._motion, self._last

    def _find_place(self) -> Array:
        """Where the robot is, or its last command if its reading cannot be used."""
        try:
            return read_position(self.description, self._robot.observe())
        except RobotGone:
            raise
        except RobotError:
            if self._last is None:
                raise
            return self._last

    def _is_stalled(self) -> bool:
        return (self._now_s() - self._sent_s) * self.description.rate_hz > STALL_STEPS

    def _take_credit(self) -> bool:
        """Whether a control step of the robot's clock is left for another command."""
        now_s = self._now_s()
        if now_s > self._accounted_s > -math.inf:
            passed = (now_s - self._accounted_s) * self.description.rate_hz
            self._credit = min(MAX_AHEAD, self._credit + passed)
        self._accounted_s = max(self._accounted_s, now_s)
        if self._credit < 1.0 - 1e-6:
            return False
        self._credit -= 1.0
        return True

    def _now_s(self) -> float:
        """The robot's clock, read off this machine's since the last observation: a stall may lie in between."""
        return self._seen_s + (self._clock() - self._received_s)

    def _send(self, command: Array, before: Array) -> Array:
        sent = np.asarray(self._robot.act(command), np.float64)
        self._sent_s = self._now_s()
        assert self._motion is not None
        if sent.shape != command.shape or not np.isfinite(sent).all():
            self._last = command
            raise RobotError(
                "the robot does not return the command it sent", got=sent.tolist(), expected="finite numbers"
            )
        self._motion.correct(before, sent)
        self._last = (
            command
            if isinstance(self._motion, SafeMotion)
            else np.clip(sent, np.minimum(before, command), np.maximum(before, command))
        )
        return sent

    def _note(self, kind: str, *reasons: str) -> None:
        time_s = self._now_s()
        tally = self._tallies.setdefault(kind, _Tally(time_s if math.isfinite(time_s) else 0.0))
        tally.count += 1
        tally.reasons.update(reasons)


@contextmanager
def _without_collections() -> Iterator[None]:
    """What exists is not searched for garbage while the robot moves.

    With PyTorch loaded a full collection takes 160 ms, in which no other thread runs: neither a stop nor a hold.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
