"""A scripted expert behind the policy door, and one that was made to live on MuJoCo's soft contacts."""

from __future__ import annotations

import numpy as np

from twinloop.experts import Setup, find_expert
from twinloop.experts.pick_and_place import CLOSE, LIFT
from twinloop.generation.job import Job
from twinloop.generation.rollout import episode_schema
from twinloop.policies.interface import make_interface
from twinloop.policies.protocol import Execution
from twinloop.robots.protocol import Observation
from twinloop.robots.signals import make_reading
from twinloop.tasks import make_cell, make_task

SEEN = ("observation.state", "observation.velocity", "observation.effort", "observation.environment_state")
ONE = np.arange(1)


class ScriptedPolicy:
    """The expert of a twin's task: healthy, since it looks at nothing that only one simulator has."""

    name, execution = "scripted", Execution()

    def __init__(self, twin):
        self._twin, self._cell = twin, make_cell(twin)
        self._steps = round(make_task(twin.task, twin).time_limit_s * twin.control_hz)
        schema = episode_schema(Job(twin, twin.task, twin.task))
        self.interface = make_interface(schema, SEEN, twin.robot)
        self.id = f"{self.name}-{twin.content_hash[:8]}"
        self.reset(0)

    def __deepcopy__(self, memo):
        return type(self)(self._twin)

    def reset(self, seed):
        self._expert = find_expert(self._twin.task)(Setup(self._cell, 1, self._steps, 0.0))
        self._seed, self._step = seed, 0

    def infer(self, observation):
        seen = {name: np.asarray(values, np.float64).ravel() for name, values in observation.items()}
        reading = make_reading(self._cell, Observation(self._step * self._cell.dt_s, seen, {}))
        if self._step == 0:
            self._expert.restart(ONE, reading, np.array([self._seed]))
        action = self._act(reading)
        self._step += 1
        return action

    def _act(self, reading):
        return self._expert.act(reading, np.array([self._step]))


class SoftGripPolicy(ScriptedPolicy):
    """Lifts only once the jaw reads as far closed as it does where its pads sink into the object: in MuJoCo, and nowhere else.

    It was made by looking at MuJoCo's readings, as training in one simulator does: 0.10 rad there, 0.12 to 0.13 where contacts are rigid.
    """

    name = "soft-grip"
    CLOSED_RAD = 0.114

    def _act(self, reading):
        jaw = float(reading.position[0, self._cell.gripper])
        action = super()._act(reading)
        if self._expert._phase[0] == LIFT and jaw > self.CLOSED_RAD:
            self._expert._phase[0], self._expert._in_phase_s[0] = CLOSE, 0.0
        return action
