"""What identification reads off an episode."""

import numpy as np

from twinloop.episode import Provenance, Schema, Signal, make_episode
from twinloop.identify.recording import find_channels, read_recording
from twinloop.tasks import make_cell
from twinloop.twin import load_twin


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
