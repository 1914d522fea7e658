"""Where object and target lie in training and evaluation."""

from twinloop.randomization.scenes import SCENES, scenes_of, training_scenes
from twinloop.twins import load_twin


def test_training_scenes_place_what_a_twin_has_and_nothing_else():
    made = training_scenes(load_twin("franka_pick_place"))
    assert {name: list(made[name].support()) for name in made.names} == SCENES
    assert training_scenes(load_twin("servo_pendulum")).names == []


def test_the_scenes_of_a_randomization_leave_hardware_out():
    twin = load_twin("franka_pick_place")
    from twinloop.randomization import default_randomization

    kept = scenes_of(default_randomization(twin), twin)
    assert kept is not None and set(kept.names) == set(SCENES)
    assert scenes_of(training_scenes(load_twin("servo_pendulum")), twin) is None
