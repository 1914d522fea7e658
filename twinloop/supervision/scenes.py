"""The scenes of a series of trials: drawn as simulation draws them, said in words, and measured where the robot has a tracker."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from twinloop.episode import Array
from twinloop.errors import RobotGone, TwinloopError
from twinloop.generation.perceived import PERCEIVED
from twinloop.randomization import Randomization, draw_many
from twinloop.randomization.scenes import training_scenes
from twinloop.robots.protocol import Description, Robot
from twinloop.twins import Twin


@dataclass(frozen=True)
class Scene:
    """One scene: its number, and the values of the twin's parameters that describe it."""

    number: int
    values: Mapping[str, float]


@dataclass(frozen=True)
class Placement:
    """Where things were at the start of a trial: measured by the robot's tracker, or taken to be where they were asked for."""

    values: Mapping[str, float]
    measured: bool

    def __str__(self) -> str:
        shown = " ".join(f"{name}={value:.4f}" for name, value in self.values.items())
        return f"{'measured' if self.measured else 'as asked'} {shown}".strip()


@dataclass(frozen=True)
class SceneList:
    """Where things go in scene 0, 1, 2 ...: listed ones, or drawn from the scenes that policies train in.

    Args:
        twin: The robot's twin.
        seed: Random seed for drawn scenes.
        scenes: Listed scenes by number; others are drawn.
    """

    twin: Twin
    seed: int = 0
    scenes: Mapping[int, Scene] = field(default_factory=dict)

    def listed(self, scenes: Sequence[Scene]) -> SceneList:
        """The same with these scenes."""
        return replace(self, scenes={scene.number: scene for scene in scenes})

    def scene(self, number: int) -> Scene:
        """One scene by its number."""
        if number in self.scenes:
            return self.scenes[number]
        drawn = draw_many(training_scenes(self.twin), self.seed, [number])
        return Scene(
            number, {name: float(values[0]) for name, values in drawn.items() if values.dtype.kind == "f"}
        )

    def places(self, scene: Scene) -> dict[str, tuple[float, float]]:
        """Where object and target go: x and y in the twin's frame, m."""
        model, found = self.twin.patch.model, {}
        for what in ("object", "target"):
            if what in self.twin.roles and f"{what}_offset_x_m" in scene.values:
                start = np.asarray(model.body(self.twin.role(what)).pos)
                found[what] = tuple(
                    float(start[axis]) + scene.values.get(f"{what}_offset_{'xy'[axis]}_m", 0.0)
                    for axis in (0, 1)
                )
        return {name: (place[0], place[1]) for name, place in found.items()}

    def instruct(self, scene: Scene) -> str:
        """How to set a scene up, in words with dimensions."""
        sentences = []
        for what, (x, y) in self.places(scene).items():
            ahead = f"{abs(100 * x):.1f} cm {'in front of' if x >= 0 else 'behind'} the robot's base"
            side = f"{abs(100 * y):.1f} cm to its {'left' if y >= 0 else 'right'}"
            sentence = f"Put the {what} {ahead}, {side}"
            turn = scene.values.get("object_yaw_rad") if what == "object" else None
            if turn is not None:
                way = "counterclockwise" if turn >= 0 else "clockwise"
                sentence += f", turned {abs(math.degrees(turn)):.0f}° {way}"
            sentences.append(f"{sentence}.")
        return " ".join(sentences) or f"Set up scene {scene.number}."

    def measure(self, robot: Robot, scene: Scene) -> Placement:
        """Where things are now: what the robot's tracker sees, else what was asked for."""
        try:
            seen = robot.observe().signals.get(PERCEIVED)
        except RobotGone:
            raise
        except TwinloopError:
            seen = None
        if seen is None or not np.isfinite(seen).all():
            return Placement(scene.values, measured=False)
        return Placement(estimate_scene(self.twin, robot.description, np.asarray(seen)), measured=True)


def draw_list(twin: Twin, count: int, seed: int, randomization: Randomization | None = None) -> list[Scene]:
    """Draw scenes from a randomization; default: the training scenes."""
    chosen = (randomization or training_scenes(twin)).over(count)
    drawn = draw_many(chosen, seed, range(count))
    numeric = {name: values for name, values in drawn.items() if values.dtype.kind == "f"}
    return [Scene(k, {name: float(values[k]) for name, values in numeric.items()}) for k in range(count)]


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
