"""The list of scenes of a gate: drawn for a person to set up, or observed where a stand-in sets its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.episode import Array, Outcome
from twinloop.errors import GateError
from twinloop.evaluation.environment import OnProgress
from twinloop.generation.perceived import PERCEIVED
from twinloop.randomization import Randomization, draw_many
from twinloop.randomization.scenes import training_scenes
from twinloop.robots.protocol import Description, Robot, SupervisedRobot, TrialSupervisor
from twinloop.robots.replicas import share
from twinloop.twins import Twin


@dataclass(frozen=True)
class Scene:
    """One scene: its number, and the values of the twin's parameters that describe it."""

    number: int
    values: Mapping[str, float]


class SceneInstructions:
    """A supervisor that first logs how to set up the scene of each episode."""

    def __init__(
        self, supervisor: TrialSupervisor, scenes: Sequence[Scene], log: Callable[[str], None]
    ) -> None:
        self._supervisor, self._log = supervisor, log
        self._values = {scene.number: scene.values for scene in scenes}

    def prepare(self, number: int) -> None:
        """Log the positions, then let the supervisor prepare the scene."""
        positions = ", ".join(f"{name} {value:+.3f}" for name, value in self._values.get(number, {}).items())
        self._log(f"scene {number}: {positions}")
        self._supervisor.prepare(number)

    def steer(self) -> Array:
        """Delegate to the supervisor."""
        return self._supervisor.steer()

    def judge(self, over: bool = False) -> Outcome:
        """Delegate to the supervisor."""
        return self._supervisor.judge(over)


def draw_list(twin: Twin, count: int, seed: int, randomization: Randomization | None = None) -> list[Scene]:
    """Draw scenes from a randomization; default: the training scenes."""
    chosen = (randomization or training_scenes(twin)).over(count)
    drawn = draw_many(chosen, seed, range(count))
    numeric = {name: values for name, values in drawn.items() if values.dtype.kind == "f"}
    return [Scene(k, {name: float(values[k]) for name, values in numeric.items()}) for k in range(count)]


def observe_list(
    robot: Robot,
    supervisor: TrialSupervisor,
    twin: Twin,
    numbers: Sequence[int],
    on_progress: OnProgress = lambda done, total: None,
    replicas: Sequence[SupervisedRobot] = (),
) -> list[Scene]:
    """Scenes as the robot, or a replica of it, perceives them after its supervisor has set them; the robot does not move."""
    description = robot.description

    def observe(place: tuple[Robot, TrialSupervisor], number: int) -> Scene:
        place[1].prepare(number)
        seen = place[0].observe()
        if PERCEIVED not in seen.signals:
            raise GateError(
                "the robot does not perceive its scene", got=", ".join(seen.signals), expected=PERCEIVED
            )
        return Scene(number, estimate_scene(twin, description, np.asarray(seen.signals[PERCEIVED])))

    places: list[tuple[Robot, TrialSupervisor]] = [
        (robot, supervisor),
        *((replica, replica) for replica in replicas),
    ]
    observed: list[Scene] = []
    for scene in share(places, observe, numbers):
        observed.append(scene)
        on_progress(len(observed), len(numbers))
    return observed


def estimate_scene(twin: Twin, description: Description, row: Array) -> dict[str, float]:
    """The twin's parameters that place object and target where the robot perceives them."""
    signal = next(signal for signal in description.signals if signal.name == PERCEIVED)
    reading = dict(zip(signal.elements, row.tolist(), strict=True))
    model = twin.patch.model
    values: dict[str, float] = {}
    for what in ("object", "target"):
        if what in twin.roles and f"{what}.x" in reading:
            start = np.asarray(model.body(twin.role(what)).pos)
            values[f"{what}_offset_x_m"] = reading[f"{what}.x"] - float(start[0])
            values[f"{what}_offset_y_m"] = reading[f"{what}.y"] - float(start[1])
    if "object.r11" in reading and "object" in twin.roles:
        w, x, y, z = np.asarray(model.body(twin.role("object")).quat).tolist()
        nominal = math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
        turn = math.atan2(reading["object.r21"], reading["object.r11"]) - nominal
        values["object_yaw_rad"] = math.remainder(turn, 2.0 * math.pi)
    kept = {name: value for name, value in values.items() if twin.has(name)}
    return {name: float(np.clip(v, *twin.parameter(name).bounds)) for name, v in kept.items()}
