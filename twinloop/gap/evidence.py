"""Input of the gap metrics: real episodes, the twin, its replays of their commands, and simulated episodes.

Everything is computed on first use and cached. Without a simulated dataset, a small one is generated with the twin's
nominal hardware in its training scenes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from twinloop.datasets.reader import Dataset
from twinloop.engines.render import open_context
from twinloop.episode import Array, Episode
from twinloop.errors import TwinloopError
from twinloop.gap.conditions import Known, conditions_of
from twinloop.gap.replay import (
    RecordingSet,
    TwinReplay,
    gravity_loads,
    horizon_of,
    read_all,
    replay_all,
    through_own_sensor,
    through_twins_sensor,
)
from twinloop.generation.run import generate
from twinloop.identification.recording import Channel, Recording
from twinloop.measure.delay import Following, measure_following
from twinloop.measure.trace import Trace
from twinloop.randomization.scenes import training_scenes
from twinloop.stats.bootstrap import RESAMPLES
from twinloop.tasks import make_cell
from twinloop.twins import Twin
from twinloop.twins.declare import is_position_servo

Followings = list[list[Following | None]]

REPLAY = "the twin's replay"
"""What a measure is compared with when the twin was sent the same commands."""

JOINTS = ("observation.state",)


@dataclass(frozen=True)
class Options:
    """Sizes of a measurement: at most `episodes` of each dataset, spread evenly; `generated` episodes without one.

    `trials` is the number of a policy's trials in the twin.
    """

    seed: int = 0
    episodes: int = 100
    generated: int = 8
    trials: int = 100
    resamples: int = RESAMPLES
    threads: int = 0


@dataclass(frozen=True, eq=False)
class Simulated:
    """Simulated episodes that reality is compared with; `generated` when they were made for the purpose."""

    name: str
    dataset: Dataset
    episodes: tuple[Episode, ...]
    known: tuple[Known, ...]
    generated: bool


class GapEvidence:
    """Real episodes and everything they are compared with."""

    def __init__(
        self,
        twin: Twin,
        real: Sequence[Episode],
        known: Sequence[Known],
        options: Options,
        work: Path,
        sim: Simulated | None = None,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.twin, self.cell, self.options = twin, make_cell(twin), options
        self.real, self.known = tuple(real), tuple(known)
        self._simulation, self._work, self._log = sim, work, log
        self._held: dict[str, Array] = {}

    def seed(self, *words: str) -> int:
        """A separate seed for each purpose."""
        text = "\0".join((str(self.options.seed), *words))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")

    def rng(self, *words: str) -> np.random.Generator:
        """A separate generator for each purpose."""
        return np.random.default_rng(self.seed(*words))

    @property
    def has_sim(self) -> bool:
        """Whether there is a simulated dataset of the user's own."""
        return self._simulation is not None

    @cached_property
    def sim(self) -> Simulated:
        """The user's simulated dataset, or a small generated one."""
        return self._simulation or self._generate()

    @cached_property
    def joints(self) -> RecordingSet | TwinloopError:
        """Joint readings of the real episodes as the twin has them; or why it cannot read them."""
        return self._read(self.real, JOINTS)

    @cached_property
    def sim_joints(self) -> RecordingSet | TwinloopError:
        """The same of the simulated episodes."""
        return self._read(self.sim.episodes, JOINTS)

    @cached_property
    def servos(self) -> tuple[int, ...]:
        """The joint channels that follow position commands; a gripper is stopped by what it holds and is left out."""
        if isinstance(self.joints, TwinloopError):
            return ()
        return tuple(
            index
            for index, channel in enumerate(self.joints.channels)
            if channel.actuator in self.cell.arm and self._is_servo(channel)
        )

    @cached_property
    def encoders(self) -> tuple[int, ...]:
        """The joint channels but for the gripper's."""
        if isinstance(self.joints, TwinloopError):
            return ()
        grip = self.cell.gripper
        return tuple(k for k, c in enumerate(self.joints.channels) if grip is None or c.actuator != grip)

    @cached_property
    def replays(self) -> list[TwinReplay]:
        """The twin's replays of the joints; whole episodes wherever servos hold it to its commands."""
        joints = self.joints
        if isinstance(joints, TwinloopError) or not joints.recordings:
            return []
        self._log("replaying real commands in the twin")
        whole = all(self._is_servo(channel) for channel in joints.channels)
        horizon_s = None if whole else horizon_of(self.cell, joints, self.options.threads)
        return replay_all(self.cell, joints, horizon_s, self.options.threads)

    @property
    def joint_samples(self) -> int:
        """Rows of joint readings of the real episodes."""
        return 0 if isinstance(self.joints, TwinloopError) else self.joints.samples

    @cached_property
    def following(self) -> tuple[Followings, Followings]:
        """How every joint follows its command in every episode: on the robot, and in the twin's replay.

        Replays are seen through the recording's own sensor, so that noise makes no difference.
        """
        rng = self.rng("own sensor")
        real, twin = [], []
        for replay in self.replays:
            real.append(self._followed(replay.recording, replay.rows, replay.real))
            twin.append(self._followed(replay.recording, replay.rows, through_own_sensor(replay, rng)))
        return real, twin

    @cached_property
    def sensed(self) -> list[Array]:
        """The replays as the twin's own nominal sensors show them, (rows, channels) each."""
        assert not isinstance(self.joints, TwinloopError)
        rng = self.rng("twin's sensor")
        channels = self.joints.channels
        return [through_twins_sensor(self.cell, channels, one.time_s, one.twin, rng) for one in self.replays]

    @cached_property
    def sensed_following(self) -> Followings:
        """How joints follow their commands in the twin, seen by its own sensors."""
        pairs = zip(self.replays, self.sensed, strict=True)
        return [self._followed(replay.recording, replay.rows, seen) for replay, seen in pairs]

    @cached_property
    def sim_following(self) -> Followings:
        """The same in the simulated episodes."""
        joints = self.sim_joints
        if isinstance(joints, TwinloopError):
            return []
        return [self._followed(one, np.arange(len(one)), one.readings) for one in joints.recordings]

    @cached_property
    def extra_delay_s(self) -> float:
        """Delay of the robot beyond the twin's, so that its consequences are not counted twice."""
        if not self.servos:
            return 0.0
        late = [
            here.delay.value - there.delay.value
            for real, twin in zip(*self.following, strict=True)
            for here, there in zip(real, twin, strict=True)
            if here is not None and there is not None and here.delay_known and there.delay_known
        ]
        return max(0.0, float(np.median(late))) if late else 0.0

    def _followed(self, recording: Recording, rows: Array, readings: Array) -> list[Following | None]:
        """Each servo's response to its command, in the order of `servos`."""
        assert not isinstance(self.joints, TwinloopError)
        time_s, commands, loads = (
            recording.time_s[rows],
            recording.row_commands[rows],
            self._loads(recording)[rows],
        )
        made = []
        for index in self.servos:
            channel = self.joints.channels[index]
            sent, load = commands[:, channel.actuator], loads[:, channel.actuator]
            trace = Trace(channel.name, channel.unit, time_s, readings[:, index], sent, load=load)
            following = measure_following(trace)
            made.append(following if following is not None and following.follows else None)
        return made

    def _loads(self, recording: Recording) -> Array:
        """Gravity load of every actuator at its commanded position, (T, actuators); computed once per recording."""
        if recording.id not in self._held:
            commanded = recording.qpos.copy()
            for index in self.cell.arm:
                commanded[:, self.cell.qpos_addresses[index, 0]] = recording.row_commands[:, index]
            self._held[recording.id] = gravity_loads(self.cell, commanded)
        return self._held[recording.id]

    def _is_servo(self, channel: Channel) -> bool:
        if channel.actuator is None:
            return False
        return is_position_servo(self.cell.model, self.cell.actuators[channel.actuator])

    def _read(self, episodes: Sequence[Episode], wanted: Sequence[str]) -> RecordingSet | TwinloopError:
        try:
            return read_all(self.cell, episodes, wanted)
        except TwinloopError as error:
            return error

    def _generate(self) -> Simulated:
        self._log("generating a small simulated set")
        cameras = self._cameras()
        dataset = generate(
            self.twin,
            training_scenes(self.twin),
            out=self._work / "generated",
            episodes=self.options.generated,
            seed=self.seed("generated"),
            cameras=cameras,
            workers=1,
        )
        return simulated(dataset, f"{len(dataset)} generated episodes", self.options.episodes, generated=True)

    def _cameras(self) -> tuple[str, ...]:
        """Cameras that both the recordings and the twin have; none where images cannot be rendered."""
        mine = {camera.name for camera in self.twin.cameras}
        names = tuple(camera.name for camera in self.real[0].schema.cameras if camera.name in mine)
        if not names:
            return ()
        try:
            open_context(16, 16).free()
        except TwinloopError as error:
            self._log(f"no images: {error.what}")
            return ()
        return names


def simulated(dataset: Dataset, name: str, most: int, *, generated: bool = False) -> Simulated:
    """Episodes of a dataset to compare with, at most `most` of them, spread evenly."""
    episodes = tuple(dataset.episode(number) for number in spread(dataset, most))
    known = tuple(conditions_of(episode) for episode in episodes)
    return Simulated(name, dataset, episodes, known, generated)


def spread(dataset: Dataset, most: int) -> list[int]:
    """The numbers of at most `most` episodes, spread evenly over the dataset."""
    numbers = dataset.numbers
    places = np.unique(np.linspace(0, len(numbers) - 1, min(most, len(numbers))).round().astype(int))
    return [numbers[place] for place in places]
