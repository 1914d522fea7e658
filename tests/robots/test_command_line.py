"""The stand-in's way of a command is that of `imperfect.delay`, packet by packet."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pybullet")

from twinloop.imperfect import delay
from twinloop.robots.standin.effects import Latency
from twinloop.robots.standin.sensor_model import CommandChannel

STEP_S, SUBSTEPS = 0.02, 10


@pytest.mark.parametrize(
    "effects",
    [
        {"action_delay_s": 0.07},
        {"action_delay_s": 0.05, "action_jitter_s": 0.03},
        {"action_delay_s": 0.03, "action_jitter_s": 0.01, "action_drop_probability": 0.3},
        {"action_drop_probability": 0.5},
    ],
)
def test_commands_arrive_as_the_batched_delay_lets_them(effects: dict[str, float]) -> None:
    latency = Latency(**effects)
    first = np.array([1.0, -1.0])
    line = CommandChannel(latency, first, np.random.default_rng(3))
    rng = np.random.default_rng(3)
    params = delay.Delay(latency.action_delay_s, latency.action_jitter_s, latency.action_drop_probability)
    state = delay.make_state(params, first[None], STEP_S)
    late = 0
    for number in range(200):
        command = np.array([float(number), -float(number)])
        line.send(command)
        jitter, drop = rng.standard_normal(1), rng.random(1)
        state = delay.send(params, state, command[None], jitter, drop)
        for _ in range(SUBSTEPS):
            state, held = delay.receive(state)
            state = delay.advance(state, STEP_S / SUBSTEPS)
            received = line.receive(STEP_S / SUBSTEPS)
            assert received.tolist() == held[0].tolist()
            late += int(number > 0 and received[0] < number)
    assert late  # something older than the newest command was held, so lateness was really compared


def test_without_any_delay_a_command_is_held_at_once() -> None:
    line = CommandChannel(Latency(), np.zeros(2), np.random.default_rng(0))
    line.send(np.array([4.0, 5.0]))
    assert line.receive(0.002).tolist() == [4.0, 5.0]
