"""The list of scenes of a gate: observed by number where a stand-in sets and tracks its own, else drawn and set up as listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from twinloop.episode import Array, Outcome
from twinloop.errors import GateError
from twinloop.evaluation.environment import OnProgress
from twinloop.generation.perceived import PERCEIVED
from twinloop.robots.protocol import Placeable, Robot, SupervisedRobot, TrialSupervisor
from twinloop.robots.replicas import share
from twinloop.supervision.scenes import Scene, SceneList, estimate_scene
from twinloop.twins import Twin


class SceneInstructions:
    """A supervisor of one's own that first logs how to set up the scene of each episode."""

    def __init__(self, supervisor: TrialSupervisor, scenes: SceneList, log: Callable[[str], None]) -> None:
        self._supervisor, self._scenes, self._log = supervisor, scenes, log

    def prepare(self, number: int) -> None:
        """Log where things go, then let the supervisor prepare the scene."""
        self._log(f"scene {number}: {self._scenes.instruct(self._scenes.scene(number))}")
        self._supervisor.prepare(number)

    def steer(self) -> Array:
        """Delegate to the supervisor."""
        return self._supervisor.steer()

    def judge(self, over: bool = False) -> Outcome:
        """Delegate to the supervisor."""
        return self._supervisor.judge(over)


class PlacedScene:
    """A supervisor of a simulated robot that sets one listed scene, whatever scene its number would draw."""

    def __init__(
        self, supervisor: TrialSupervisor, place: Callable[[int, Mapping[str, float]], None], scene: Scene
    ) -> None:
        self._supervisor, self._place, self._scene = supervisor, place, scene

    def prepare(self, number: int) -> None:
        """Set the listed scene."""
        self._place(number, self._scene.values)

    def steer(self) -> Array:
        """Delegate to the supervisor."""
        return self._supervisor.steer()

    def judge(self, over: bool = False) -> Outcome:
        """Delegate to the supervisor."""
        return self._supervisor.judge(over)


def set_up_by(robot: Robot, supervisor: TrialSupervisor, scene: Scene) -> TrialSupervisor:
    """Who sets this scene: the supervisor by its number; a stand-in that does not observe what a number draws sets it as listed."""
    alone: object = supervisor
    if alone is not robot or not robot.description.standin or observes_scenes(robot):
        return supervisor
    return PlacedScene(supervisor, robot.place, scene) if isinstance(robot, Placeable) else supervisor


def observes_scenes(robot: Robot) -> bool:
    """Whether the robot perceives where object and target lie."""
    return any(signal.name == PERCEIVED for signal in robot.description.signals)


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
