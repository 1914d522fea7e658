"""What a policy sees and does, and how numbers are scaled."""

import json
from dataclasses import replace

import numpy as np
from pydantic import TypeAdapter

from twinloop.episode import Schema, Signal
from twinloop.policies.interface import (
    Interface,
    fit_normalisation,
    make_interface,
    normalisation_from_json,
)

SCHEMA = Schema(
    (
        Signal("observation.environment_state", (2,), ("m",), elements=("object.x", "object.y")),
        Signal("observation.state", (2,), ("rad",), elements=("a.pos", "b.pos")),
        Signal("action", (3,), ("rad",), elements=("b.target", "grip.target", "a.target")),
    ),
    50.0,
    robot_type="arm",
)
INTERFACE = make_interface(SCHEMA, ("observation.state", "observation.environment_state"), "here")


def test_observations_come_in_the_order_asked_for_and_actions_find_their_readings():
    assert INTERFACE.observations[0].name == "observation.state"
    assert INTERFACE.readings.tolist() == [1, -1, 0]
    seen = {
        "observation.state": np.array([[1.0, 2.0]]),
        "observation.environment_state": np.array([[3.0, 4.0]]),
    }
    assert INTERFACE.vector(seen).tolist() == [[1.0, 2.0, 3.0, 4.0]]


def test_an_interface_survives_json_and_names_the_first_difference():
    again = TypeAdapter(Interface).validate_python(json.loads(json.dumps(INTERFACE.as_json())))
    assert again == INTERFACE and INTERFACE.difference(again) is None
    other = make_interface(SCHEMA, ("observation.state",), "here")
    assert "observation.environment_state" in str(INTERFACE.difference(other))


def test_a_robot_that_nobody_named_may_be_any_but_another_name_is_another_robot():
    unnamed, leg = (replace(INTERFACE, robot_type=name) for name in ("unknown", "leg"))
    assert INTERFACE.difference(unnamed) is None and unnamed.difference(INTERFACE) is None
    assert INTERFACE.difference(leg) == "robot_type: got 'leg', expected 'arm'"


def test_scaling_recovers_known_means_and_spreads_and_what_is_relative_to_what():
    rng = np.random.default_rng(1)
    observation = rng.normal([0.1, -0.4, 0.5, 0.2], [1.0, 0.5, 0.1, 0.0], (20_000, 4)).astype(np.float32)
    follow = observation[:, [1, 0, 0]] + rng.normal(0.02, 0.03, (20_000, 3))
    actions = np.stack([follow, follow + 0.1], axis=1).astype(np.float32)
    actions[:, :, 1] = rng.integers(0, 2, (20_000, 1))
    valid = np.ones((20_000, 2), dtype=bool)
    valid[:100, 1] = False
    actions[:100, 1] = 1e6
    made = fit_normalisation(INTERFACE, observation, actions, valid)
    assert made.reading.tolist() == [1, -1, 0], (
        "joints follow their reading, a gripper that opens or closes does not"
    )
    assert np.allclose(made.observation_mean, [0.1, -0.4, 0.5, 0.2], atol=0.03)
    assert np.allclose(made.observation_scale, [1.0, 0.5, 0.1, 0.02], atol=0.02), "a constant is not blown up"
    assert np.allclose(made.action_mean[:, 0], [0.02, 0.12], atol=0.002), (
        "rows beyond the end are not counted"
    )
    assert np.allclose(made.action_scale[:, 2], 0.03, atol=0.002)
    again = normalisation_from_json(json.loads(json.dumps(made.as_json())))
    assert np.array_equal(again.reference(observation[:2]), made.reference(observation[:2]))
    assert np.allclose(made.reference(observation[:1])[0, 0], [observation[0, 1], 0.0, observation[0, 0]])
