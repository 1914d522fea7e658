"""Idle frames in demonstrations: what counts as one, and what training makes of them and of how an episode ends."""

from dataclasses import replace

import numpy as np
import pytest

from tests.datasets.examples import STATE_ONLY, toy_episode
from tests.learning.examples import TINY
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.writer import make_dataset
from twinloop.episode import Outcome
from twinloop.learning.idle import find_idle_frames
from twinloop.learning.samples import Samples
from twinloop.policies.interface import make_interface

RATE_HZ = 50.0
ONE = np.array([0, 200])


def moving(rows=200):
    """A command of two joints and a hand that is never still."""
    t = np.arange(rows) / RATE_HZ
    return np.column_stack([np.sin(t), np.cos(0.7 * t), np.full(rows, 0.08)])


def test_a_command_that_stands_still_is_a_wait_but_for_its_first_row():
    action = moving()
    action[60:100] = action[60]
    idle = find_idle_frames(action, ONE, RATE_HZ)
    assert np.flatnonzero(idle).tolist() == list(range(61, 100))


def test_nothing_is_a_wait_where_commands_move():
    assert not find_idle_frames(moving(), ONE, RATE_HZ).any()


def test_a_hand_that_was_told_to_close_has_its_time():
    action = moving()
    action[60:120] = action[60]
    action[60:, 2] = 0.0
    idle = np.flatnonzero(find_idle_frames(action, ONE, RATE_HZ))
    assert idle[0] == 60 + 4 + 31  # the switch is last seen 4 rows later, and 30 rows are given
    assert idle[-1] == 119


def test_a_hand_that_closes_little_by_little_has_its_time_too():
    action = moving()
    action[60:120] = action[60]
    action[60:70, 2] = np.linspace(0.08, 0.0, 10)
    action[70:, 2] = 0.0
    idle = np.flatnonzero(find_idle_frames(action, ONE, RATE_HZ))
    assert idle[0] > 95


def test_a_wait_does_not_reach_from_one_episode_into_the_next():
    action = moving()
    action[90:110] = action[90]
    idle = find_idle_frames(action, np.array([0, 100, 200]), RATE_HZ)
    assert np.flatnonzero(idle).tolist() == [*range(91, 100), *range(101, 110)]


def test_who_mostly_waits_shows_how_to_wait():
    action = moving()
    action[80:] = action[80]
    assert not find_idle_frames(action, ONE, RATE_HZ).any()


@pytest.mark.parametrize(("rate_hz", "rows"), [(50.0, 5), (100.0, 10)])
def test_a_wait_lasts_a_tenth_of_a_second_at_least(rate_hz, rows):
    for still, expected in ((rows, rows), (rows - 1, 0)):
        action = moving()
        action[60 : 61 + still] = action[60]
        assert find_idle_frames(action, ONE, rate_hz).sum() == expected


def test_no_rows_have_no_idle_frames():
    assert not len(find_idle_frames(np.zeros((0, 3)), np.array([0]), RATE_HZ))


@pytest.fixture
def demonstrated(tmp_path):
    """Six episodes of 40 rows, the commands of each standing still in rows 10 to 29; the last one is unjudged."""
    with make_dataset(tmp_path / "shown", STATE_ONLY) as writer:
        for number in range(6):
            episode = toy_episode(number, rows=40, schema=STATE_ONLY)
            action = np.linspace(np.zeros(episode["action"].shape[1]), 1.0, 40, dtype=np.float32)
            action[10:30] = action[10]
            outcome = Outcome(True) if number < 5 else Outcome()
            writer.add(replace(episode, signals={**episode.signals, "action": action}, outcome=outcome))
    return open_dataset(tmp_path / "shown")


def samples(dataset, **changed):
    config = replace(TINY, fewest_episodes=2, **changed)
    interface = make_interface(dataset.schema, ("observation.state",), "here")
    return Samples(dataset, "real", interface, config)


def test_windows_pass_over_idle_frames(demonstrated):
    found = samples(demonstrated)
    left_out = range(11, 30)
    rows = np.concatenate([found.training, found.validation]) % 40
    assert not set(left_out) & set(rows.tolist())
    first = demonstrated.index.starts[0]
    batch = found.take(np.array([first + 10]))
    action = np.asarray(demonstrated.episode(0)["action"], np.float32)
    np.testing.assert_array_equal(batch.actions[0], action[[10, *range(30, 35)]])


def test_every_row_counts_where_idle_frames_are_kept(demonstrated):
    found = samples(demonstrated, drop_idle_frames=False)
    assert len(found.training) + len(found.validation) == 5 * 40
    assert not found.idle.any()


@pytest.mark.parametrize("hold", [True, False])
def test_beyond_the_end_of_a_success_its_last_command_goes_on(demonstrated, hold):
    found = samples(demonstrated, hold_last_action=hold)
    last = demonstrated.index.starts[1] - 1
    batch = found.take(np.array([last]))
    action = np.asarray(demonstrated.episode(0)["action"], np.float32)
    np.testing.assert_array_equal(batch.actions[0], np.repeat(action[-1:], TINY.chunk, axis=0))
    np.testing.assert_array_equal(batch.valid[0], 1.0 if hold else [1.0] + [0.0] * (TINY.chunk - 1))


def test_beyond_the_end_of_an_unjudged_episode_nothing_is_known(demonstrated):
    batch = samples(demonstrated).take(np.array([demonstrated.index.starts[6] - 1]))
    np.testing.assert_array_equal(batch.valid[0], [1.0] + [0.0] * (TINY.chunk - 1))


def test_training_reports_how_many_frames_were_idle(twinloop, demonstrated, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = (
        "--steps",
        4,
        *(word for s in ("width=8", "chunk=6", "n_action_steps=3") for word in ("--set", s)),
    )
    words = ("--sim", demonstrated.root, "--tracking", "off", *small)
    code, out, err = twinloop("train", *words, "--out", "p")
    assert code == 0, err
    assert "sim data shown; 48 % idle frames dropped" in out
    assert "48 % idle frames dropped" in twinloop("policy", "show", "p")[1]
    code, out, _ = twinloop("train", *words, "--out", "q", "--set", "drop_idle_frames=false")
    assert code == 0 and "idle" not in out
