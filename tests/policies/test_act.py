"""Chunk execution: which action of which chunk is executed when."""

import numpy as np
import pytest

from twinloop.episode import Signal
from twinloop.errors import LearnError
from twinloop.experts import Setup
from twinloop.policies.act import ChunkExecutor, PolicyController, PolicyExpert
from twinloop.policies.interface import Interface
from twinloop.policies.latency import Latency
from twinloop.policies.protocol import Execution
from twinloop.tasks import make_cell
from twinloop.testing.robots import FakeRobot
from twinloop.twins import load_twin


class Clockwork:
    """Predicts (time of the newest observation, place in the chunk): what is carried out says where it came from."""

    def __init__(
        self, n_action_steps, inference_delay_steps, latency_steps=0, history=(-2, 0), chunk=8, blend=False
    ):
        self.execution = Execution(history, n_action_steps, inference_delay_steps, latency_steps, blend)
        self.interface = Interface((Signal("seen", (1,)),), Signal("action", (2,)), 50.0)
        self.chunk = chunk
        self.histories = []

    def reset_batch(self, rows, seeds, *, real):
        pass

    def infer_batch(self, observation, rows):
        seen = observation["seen"]
        self.histories.append(seen[:, :, 0].copy())
        made = np.zeros((len(rows), self.chunk, 2), np.float32)
        made[:, :, 0] = seen[:, -1]
        made[:, :, 1] = np.arange(self.chunk)
        return made


def run(policy, steps, count=1):
    runner = ChunkExecutor(policy, count)
    runner.restart(np.arange(count), np.zeros(count))
    times = [np.full((count, 1), float(step)) for step in range(steps)]
    return runner, [tuple(runner.act(time)[0].tolist()) for time in times]


def test_without_thinking_time_the_next_chunk_starts_where_it_was_asked_for():
    _, done = run(Clockwork(3, 0), 7)
    assert done == [(0, 0), (0, 1), (0, 2), (3, 0), (3, 1), (3, 2), (6, 0)]


def test_while_thinking_the_old_chunk_goes_on_and_the_new_one_is_entered_where_time_is():
    _, done = run(Clockwork(3, 2), 10)
    assert done[:5] == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]
    assert done[5:] == [(3, 2), (3, 3), (3, 4), (6, 2), (6, 3)]
    assert all(time + place == step for step, (time, place) in enumerate(done)), "an action is never late"


def test_on_late_hardware_what_is_about_the_past_is_left_out():
    _, done = run(Clockwork(2, 1, latency_steps=3), 7)
    assert done[:3] == [(0, 0), (0, 1), (0, 2)], "at the start nothing is old"
    assert done[3:] == [(2, 4), (2, 5), (4, 4), (4, 5)]


def test_a_chunk_that_blends_goes_over_into_the_next_over_all_that_both_speak_of():
    _, done = run(Clockwork(3, 0, blend=True), 6)
    times = [time for time, _ in done]
    assert times == pytest.approx([0, 0, 0, 3 * 1 / 6, 3 * 2 / 6, 3 * 3 / 6]), (
        "five of eight actions are left"
    )
    _, done = run(Clockwork(2, 1, latency_steps=3, blend=True), 5)
    # The old chunk has five actions left at its fourth; of the new one, the first four are about the past.
    assert done[3][0] == pytest.approx(2 * 1 / 6) and done[4][0] == pytest.approx(2 * 2 / 6)
    assert done[3][1] == pytest.approx(3 + 1 / 6), "the places of both, too"


class Walker(Clockwork):
    """Goes on from where it sees itself, one step at a time."""

    def infer_batch(self, observation, rows):
        seen = observation["seen"][:, -1:]
        return np.repeat(seen + 1.0 + np.arange(self.chunk)[:, None], 2, axis=2).astype(np.float32)


def backward(blend, late):
    """How far back a walker is sent in 200 steps on hardware that is this late."""
    runner = ChunkExecutor(Walker(10, 0, chunk=25, blend=blend), 1)
    runner.restart(np.arange(1), np.zeros(1))
    sent = [0.0] * (late + 1)
    for _ in range(200):
        sent.append(float(runner.act(np.array([[sent[-1 - late]]]))[0, 0]))
    return -float(np.minimum(np.diff(sent), 0.0).sum())


def test_on_hardware_as_late_as_a_chunk_blending_does_not_send_the_arm_to_and_fro():
    assert backward(False, late=0) == backward(True, late=0) == 0.0
    assert backward(False, late=10) > 50.0, "back to where each chunk was thought of"
    assert backward(True, late=10) == 0.0


def test_history_begins_with_the_first_observation_and_moves_on():
    policy = Clockwork(3, 0)
    run(policy, 4)
    assert policy.histories[0].tolist() == [[0, 0]] and policy.histories[1].tolist() == [[1, 3]]


def test_an_episode_that_starts_over_in_one_environment_leaves_the_others_alone():
    runner, _ = run(Clockwork(3, 0), 4, count=2)
    runner.restart(np.array([1]), np.array([5]))
    assert runner.act(np.array([[4.0], [40.0]])).tolist() == [[3, 1], [40, 0]]


def test_environments_side_by_side_act_as_each_would_alone(tiny_policy):
    rng = np.random.default_rng(2)
    seen = rng.normal(0.0, 0.3, (9, 3, tiny_policy.interface.observation_size))
    together = ChunkExecutor(tiny_policy, 3)
    together.restart(np.arange(3), np.arange(3))
    batch = np.stack([together.act(step) for step in seen])
    alone = ChunkExecutor(tiny_policy, 1)
    alone.restart(np.array([0]), np.array([1]))
    single = np.stack([alone.act(step[1:2]) for step in seen])
    assert np.allclose(batch[:, 1], single[:, 0], atol=1e-5)


def test_a_policy_for_another_robot_is_refused(tiny_policy):
    with pytest.raises(LearnError, match=r"8 actions; expected 6"):
        PolicyExpert(tiny_policy, Setup(make_cell(load_twin("so101_pick_place")), 1, 10))
    robot = FakeRobot()
    robot.connect()
    with pytest.raises(LearnError, match=r"8 actions; expected 2"):
        PolicyController(tiny_policy, robot.description)


def test_inference_time_is_charged_while_the_old_chunk_goes_on():
    """A chunk that takes 0.04 s at 50 Hz is two steps late, as with two steps of inference delay."""
    runner = ChunkExecutor(Clockwork(3, 0), 1, latency=Latency((0.04,)))
    runner.restart(np.arange(1), np.zeros(1))
    done = [tuple(runner.act(np.array([[float(step)]]))[0].tolist()) for step in range(10)]
    assert done == run(Clockwork(3, 2), 10)[1]


def test_a_policy_that_thinks_longer_than_its_chunk_stays_at_the_last_action():
    runner = ChunkExecutor(Clockwork(8, 0), 1, latency=Latency((0.1,)))
    runner.restart(np.arange(1), np.zeros(1))
    done = [tuple(runner.act(np.array([[float(step)]]))[0].tolist()) for step in range(14)]
    assert done[7:13] == [(0, 7)] * 6 and done[13] == (8, 5), "entered where time is"


def test_delays_are_drawn_by_the_seed_of_the_episode():
    def sent(seed, rows=1):
        runner = ChunkExecutor(Clockwork(2, 0), rows, latency=Latency((0.0, 0.02, 0.05)))
        runner.restart(np.arange(rows), np.array([seed + row for row in range(rows)]))
        return np.stack([runner.act(np.full((rows, 1), float(step))) for step in range(40)])

    assert np.array_equal(sent(3), sent(3)) and not np.array_equal(sent(3), sent(4))
    assert np.array_equal(sent(2, rows=2)[:, 1], sent(3)[:, 0]), "whatever else runs beside it"
