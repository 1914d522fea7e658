"""What identification reads off an episode."""

import numpy as np

from twinloop.episode import Provenance, Schema, Signal, make_episode
from twinloop.identification.config import IdentifyConfig
from twinloop.identification.fit import prepare
from twinloop.identification.recording import (
    Recording,
    find_channels,
    read_recording,
    unknown_joints,
    with_lost_commands,
)
from twinloop.tasks import make_cell
from twinloop.twins import load_twin


def test_a_joint_that_turns_freely_goes_on_where_its_reading_wrapped():
    time_s = np.arange(200) / 250.0
    angle = 12.0 * time_s
    place = 0.1 * np.sin(time_s)
    schema = Schema(
        (
            Signal("observation.state", (2,), ("m", "rad"), "float64", ("x", "theta")),
            Signal("action", (1,), ("V",), "float64"),
        ),
        rate_hz=250.0,
    )
    wrapped = np.stack([place, np.angle(np.exp(1j * angle))], axis=1)
    signals = {"observation.state": wrapped, "action": np.zeros((200, 1))}
    episode = make_episode(schema, time_s, signals, provenance=Provenance(source="real"))
    cell = make_cell(load_twin("cart_pole"))
    recording = read_recording(cell, episode, find_channels(cell, episode))
    assert np.ptp(wrapped[:, 1]) > 6.0
    np.testing.assert_allclose(recording.readings, np.stack([place, angle], axis=1), atol=1e-12)
    np.testing.assert_allclose(recording.qvel[:, 1], 12.0, rtol=1e-6)


def pole_and(other, number=0):
    """A recording with the cart-pole's cart and some other joint."""
    time_s = np.arange(400) / 250.0
    schema = Schema(
        (
            Signal("observation.state", (2,), ("m", "rad"), "float64", ("x", other)),
            Signal("action", (1,), ("V",), "float64"),
        ),
        rate_hz=250.0,
    )
    moved = 0.1 * np.sin(5.0 * time_s + number)
    signals = {"observation.state": np.stack([moved, moved], axis=1), "action": np.ones((400, 1))}
    return make_episode(schema, time_s, signals, provenance=Provenance(source="real", seed=number))


def test_joints_that_the_twin_lacks_are_named():
    twin = load_twin("cart_pole")
    assert unknown_joints(make_cell(twin), pole_and("theta")) == ()
    assert unknown_joints(make_cell(twin), pole_and("elbow.pos")) == ("elbow",)
    ready = prepare(
        twin,
        [pole_and("elbow.pos", number) for number in range(4)],
        [twin.parameters[0].name],
        IdentifyConfig(),
    )
    assert any("has no joint called elbow" in warning for warning in ready.warnings)


def test_commands_of_lost_rows_lie_between_their_neighbours_and_a_pause_is_held():
    rng = np.random.default_rng(0)
    sent_s = (np.arange(300) + rng.uniform(-0.1, 0.1, 300)) / 100.0
    sent = np.stack([np.sin(3.0 * sent_s), np.cos(2.0 * sent_s)], axis=1)
    kept = rng.random(300) > 0.1
    kept[[0, -1]] = True
    kept[100:140] = False
    commands, time_s = with_lost_commands(sent[kept], sent_s[kept])
    inside = (np.arange(300) < 100) | (np.arange(300) >= 140)
    assert len(commands) == int(inside.sum()), "each lost row is back, and none in the pause"
    np.testing.assert_allclose(time_s, sent_s[inside], atol=0.003)
    np.testing.assert_allclose(commands, sent[inside], atol=0.01)
    rows = np.zeros((int(kept.sum()), 2))
    recording = Recording("r", sent_s[kept], rows, time_s, commands, rows, rows, {})
    np.testing.assert_allclose(recording.row_commands, sent[kept], atol=1e-12)
    unbroken, unchanged_s = with_lost_commands(sent, sent_s)
    assert unbroken is sent and unchanged_s is sent_s
