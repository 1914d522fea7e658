"""A twin's episodes behind imperfect hardware, stepped side by side by whoever acts in them.

`rollout` lets experts and policies act and records what they do; `twinloop.environments` lets a trainer act. Both go
through the same steps in the same order, so that equal seeds, draws and actions give equal bits:

    reading = simulation.sense()        what the hardware reports of the true state
    judged = simulation.judge()         what the task makes of the true state
    commands = simulation.command(a)    what arrives at the servos
    simulation.advance(ids, commands)   one control step of physics

Every environment has a control step of its own, and `begin` loads the next episode into some while the others go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from twinloop.engines import Diverged, EngineRenderer, make_engine
from twinloop.engines.disturbance import Disturbance
from twinloop.engines.hardware import Hardware
from twinloop.episode import Array
from twinloop.experts.reading import Reading
from twinloop.tasks import Cell, Judgement, Task, Truth

Draw = Mapping[str, float | str]


class Simulation:
    """`count` environments of one cell, for episodes of at most `steps` control steps.

    Args:
        cell: The twin's cell.
        task: The task that starts and judges episodes.
        engine: Name of the physics engine.
        count: Environments.
        steps: Control steps of the longest episode.
        varying: By parameter that differs between episodes, the values that it may take, or at least the extreme ones.
        threads: Simulation threads; results do not depend on them.
        cameras: Cameras that may be rendered.
    """

    def __init__(
        self,
        cell: Cell,
        task: Task,
        engine: str,
        count: int,
        steps: int,
        varying: Mapping[str, Array],
        threads: int = 1,
        cameras: Sequence[str] = (),
    ) -> None:
        self.cell, self.task, self.count, self.steps = cell, task, count, steps
        self.engine = make_engine(engine, cell, count, threads, tuple(varying))
        self.hardware = Hardware(cell, count, steps, varying)
        self._disturbance = Disturbance(self.engine, varying)
        self._renderer: EngineRenderer | None = self.engine.make_renderer(tuple(cameras)) if cameras else None
        self._states = np.zeros((count, steps if cameras else 0, cell.model.nq))
        self._memory = np.zeros((count, task.memory))
        self.step = np.zeros(count, dtype=np.int64)
        self.seeds = np.zeros(count, dtype=np.int64)
        self.draws: list[Draw] = [{} for _ in range(count)]
        self.truth: Truth = self.engine.truth()

    def begin(self, ids: Array, values: Mapping[str, Any], draws: Sequence[Draw], seeds: Array) -> Truth:
        """Load new episodes into the environments `ids` (n,).

        Args:
            ids: Environments (n,).
            values: Drawn parameters, (n,) each; `draws` are the same by episode, as plain values.
            draws: One draw for each of `ids`.
            seeds: One seed for each of `ids`.

        Returns:
            The true state of all environments.
        """
        start = self.task.start(values, seeds)
        self._disturbance.restart(ids, values)
        self.engine.load(ids, values, start)
        truth = self.engine.truth()
        self.step[ids], self.seeds[ids], self._memory[ids] = 0, seeds, 0.0
        for environment, draw in zip(ids.tolist(), draws, strict=True):
            self.draws[environment] = draw
        self.hardware.restart(ids, values, seeds, truth, start.ctrl)
        return truth

    def sense(self) -> Reading:
        """Measure the true state, `truth`, and return what the hardware reports of it; once per control step."""
        self.truth = self.engine.truth()
        self._keep_states(np.arange(self.count))
        return self.hardware.sense(self.truth, self.step)

    def sense_begun(self, ids: Array) -> Reading:
        """The same for environments `ids` that have just begun; the others are not disturbed, and their rows mean nothing."""
        self.truth = self.engine.truth()
        self._keep_states(ids)
        return self.hardware.sense_begun(self.truth, self.step, ids)

    def judge(self, ids: Array | None = None) -> Judgement:
        """Judge the true state of all environments; only `ids` remember it, if given. Once per control step."""
        judged = self.task.judge(self.truth, self._memory)
        if ids is None:
            self._memory = judged.memory
        else:
            self._memory[ids] = judged.memory[ids]
        return judged

    def command(self, action: Array) -> Array:
        """What arrives at the servos for actions (N, actuators): (N, 1 or substeps, actuators)."""
        return self.hardware.command(action, self.step)

    def advance(self, ids: Array, commands: Array) -> Diverged | None:
        """Simulate one control step of `ids` with what `command` returned; gives those whose physics diverged."""
        self._disturbance.apply(self.truth, ids)
        return self.engine.step(ids, commands[ids]) if len(ids) else None

    def _keep_states(self, ids: Array) -> None:
        if self._renderer is not None:
            self._states[ids, self.step[ids]] = self.engine.qpos[ids]

    def newest_frames(self, environment: int) -> dict[str, Array]:
        """What each camera shows now: (height, width, 3) uint8."""
        return self._paint_newest(environment, int(self.step[environment]) + 1)

    def frames(self, environment: int, length: int, still: float | None = None) -> dict[str, Array]:
        """What each camera showed in the first `length` control steps: (length, height, width, 3) uint8.

        With `still`, one image at that fraction of the length, repeated.
        """
        if self._renderer is None:
            return {}
        if still is not None:
            image = self._paint_newest(environment, round((length - 1) * still) + 1)
            return {name: np.broadcast_to(one, (length, *one.shape)) for name, one in image.items()}
        states = self._states[environment, :length]
        draw, seed = self.draws[environment], int(self.seeds[environment])
        return self._renderer.paint(draw, seed, states, self.engine.mocap[environment])

    def _paint_newest(self, environment: int, length: int) -> dict[str, Array]:
        if self._renderer is None:
            return {}
        states = self._states[environment, :length]
        draw, seed = self.draws[environment], int(self.seeds[environment])
        return self._renderer.paint_newest(draw, seed, states, self.engine.mocap[environment])

    def close(self) -> None:
        """Free what the renderer holds."""
        if self._renderer is not None:
            self._renderer.close()
