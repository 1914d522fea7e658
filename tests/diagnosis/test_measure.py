"""What recordings tell about a robot, against twins whose values are known: nothing but signals is read."""

from dataclasses import replace

import numpy as np
import pytest

from twinloop.diagnosis import arm, scene
from twinloop.diagnosis.evidence import RunEvidence, read_evidence
from twinloop.diagnosis.grip import measure_contact, slip_m
from twinloop.episode import make_episode
from twinloop.errors import WrongUse
from twinloop.generation.job import Job
from twinloop.generation.rollout import rollout_drawn
from twinloop.twins import load_twin

TWIN = load_twin("franka_pick_place")
RUNS, ROWS = 4, 40
PLACES = {"object_offset_x_m": [-0.03, 0.02, 0.04, 0.0], "object_offset_y_m": [0.04, -0.02, 0.0, 0.03]}


def recorded(twin=TWIN, places=PLACES, **values):
    """Pick-and-places of the scripted expert in a twin with these values, as a robot would record them."""
    drawn = {name: np.array(column) for name, column in places.items()}
    drawn |= {name: np.full(RUNS, float(value)) for name, value in values.items()}
    episodes = list(rollout_drawn(Job(twin, twin.task, twin.task), list(range(RUNS)), drawn))
    return read_evidence(twin, [without_truth(episode) for episode in episodes])


def without_truth(episode, rows=None):
    """What a robot would have recorded; only the first rows, for one whose object was lost by then."""
    schema = episode.schema
    kept = tuple(s for s in schema.signals if not s.name.startswith("simulation."))
    signals = {s.name: episode.signals[s.name][:rows] for s in kept}
    bare = type(schema)(kept, schema.rate_hz, (), schema.robot_type)
    time_s = episode.time_s[:rows]
    return make_episode(bare, time_s, signals, success=episode.success, provenance=episode.provenance)


@pytest.fixture(scope="module")
def nominal():
    return recorded()


@pytest.fixture(scope="module")
def different():
    return recorded(
        action_delay_s=0.07,
        object_size_m=0.05,
        table_height_m=0.02,
        object_pose_noise_m=0.003,
        encoder_noise_rad=0.001,
    )


def measured(real, sim):
    rng = np.random.default_rng(0)
    both = arm.follow_both(real, sim)
    layout = scene.read_layout(real, sim, ROWS, rng)
    of_run = np.arange(ROWS) % len(real.runs)
    environment, _ = scene.measure_environment(real, layout, of_run, rng)
    parts = (
        arm.measure_latency(real, sim, both, ROWS, rng),
        arm.measure_actuation(real, both, ROWS, rng),
        scene.measure_sensing(real, sim, layout, ROWS, rng),
        scene.measure_object(real, layout),
        environment,
        scene.measure_human(real, ROWS, rng),
    )
    return {part.dimension: part for part in parts}


def test_a_robot_like_its_twin_shows_no_difference(nominal):
    assert not any(part.differs for part in measured(nominal, nominal).values())


def test_delay_size_table_and_noise_are_found_at_once_and_nothing_else(nominal, different):
    found = measured(different, nominal)
    assert set(found["latency"].values) == {"action_delay_s"}
    assert found["latency"].values["action_delay_s"].mean() == pytest.approx(0.07, abs=0.004)
    assert found["object"].values["object_size_m"].mean() == pytest.approx(0.05, abs=0.001)
    assert found["environment"].values["table_height_m"] == pytest.approx(0.02, abs=1e-3)
    assert found["sensing"].values["object_pose_noise_m"].mean() == pytest.approx(0.003, rel=0.25)
    assert found["sensing"].values["encoder_noise_rad"].mean() == pytest.approx(0.001, rel=0.25)
    assert not found["actuation"].differs and not found["human"].differs


@pytest.mark.parametrize(
    "delay_s",
    [pytest.param(0.044, marks=pytest.mark.slow), 0.05, pytest.param(0.056, marks=pytest.mark.slow)],
)
def test_the_interval_of_a_delay_reaches_over_the_control_step_in_which_it_falls(nominal, delay_s):
    (delay,) = (
        q
        for q in measured(recorded(action_delay_s=delay_s), nominal)["latency"].quantities
        if q.name == "loop delay"
    )
    assert delay.low < delay_s < delay.high < delay.low + 1.2 / TWIN.control_hz


def test_play_in_the_gears_is_not_taken_for_delay(nominal):
    play = {f"joint{k}_backlash_rad": 0.02 for k in range(1, 8)}
    found = measured(recorded(**play), nominal)
    assert found["actuation"].values["joint2_backlash_rad"].mean() == pytest.approx(0.02, abs=0.004)
    assert "action_delay_s" not in found["latency"].values


def test_softer_servos_are_not_taken_for_delay(nominal):
    found = measured(recorded(servo_damping_scale=2.0), nominal)
    assert found["actuation"].values["servo_damping_scale"].mean() == pytest.approx(2.0, abs=0.1)
    assert "action_delay_s" not in found["latency"].values


def test_noisy_speeds_are_not_taken_for_other_servos_and_the_delay_is_still_found(nominal):
    noisy = recorded(action_delay_s=0.1, velocity_noise_rad_s=0.15, encoder_noise_rad=0.008)
    found = measured(noisy, nominal)
    assert "servo_damping_scale" not in found["actuation"].values
    assert found["latency"].values["action_delay_s"].mean() == pytest.approx(0.1, abs=0.02)
    assert found["sensing"].values["encoder_noise_rad"].mean() == pytest.approx(0.008, rel=0.15)


def test_runs_that_end_at_once_blame_neither_delay_nor_servos(nominal):
    episodes = rollout_drawn(Job(TWIN, TWIN.task, TWIN.task), list(range(RUNS)), {})
    short = [without_truth(episode, 50) for episode in episodes]
    both = arm.follow_both(read_evidence(TWIN, short), nominal)
    rng = np.random.default_rng(0)
    assert not arm.measure_latency(read_evidence(TWIN, short), nominal, both, ROWS, rng).differs
    assert not arm.measure_actuation(read_evidence(TWIN, short), both, ROWS, rng).differs


def test_verdicts_that_the_signals_contradict_are_counted(nominal):
    from dataclasses import replace

    wrong = tuple(replace(run, success=not run.success) for run in nominal.runs[:3])
    found = scene.measure_human(
        RunEvidence(TWIN, nominal.cell, (*wrong, *nominal.runs[3:])), ROWS, np.random.default_rng(0)
    )
    assert found.wrong_verdicts == pytest.approx(0.75) and found.differs


def test_an_object_that_slides_far_away_is_not_in_place_whatever_was_said(nominal):
    from dataclasses import replace

    def blown(run):
        sliding = np.linspace(0.0, 0.6, len(run))[:, None] * np.array([0.0, 1.0, 0.0])
        return replace(run, place=run.place + sliding, success=True)

    def unseen(run):
        hidden = np.arange(len(run)) >= int(np.argmax(run.holding))
        return replace(run, place=np.where(hidden[:, None], run.place[np.argmax(run.holding)], run.place))

    for change, share in ((blown, 1.0), (unseen, None)):
        evidence = RunEvidence(TWIN, nominal.cell, tuple(change(run) for run in nominal.runs))
        found = scene.measure_human(evidence, ROWS, np.random.default_rng(0))
        assert found.wrong_verdicts == pytest.approx(1.0) if share else not found.differs


def test_a_firm_grasp_does_not_slip_and_friction_is_left_alone(nominal):
    assert all(slip_m(run) < 0.004 for run in nominal.runs)
    found = measure_contact(nominal, nominal, lambda values: nominal.runs, ROWS, np.random.default_rng(0))
    assert not found.differs and found.quantities


def test_recordings_without_effort_or_object_say_what_they_lack(nominal):
    from dataclasses import replace

    poor = tuple(replace(r, effort=None, place=None, columns=None, target=None) for r in nominal.runs)
    evidence = RunEvidence(TWIN, nominal.cell, poor)
    rng = np.random.default_rng(0)
    both = arm.follow_both(evidence, nominal)
    assert scene.read_layout(evidence, nominal, ROWS, rng) is None
    assert "observation.effort" in arm.measure_actuation(evidence, both, ROWS, rng).missing[0]
    assert "environment_state" in scene.measure_human(evidence, ROWS, rng).missing[0]
    assert measure_contact(evidence, nominal, None, ROWS, rng).missing


def test_recordings_of_another_robot_are_refused(nominal):
    other = load_twin("servo_pendulum")
    episode = next(iter(rollout_drawn(Job(TWIN, TWIN.task, TWIN.task, max_steps=30), [1], {})))
    with pytest.raises(WrongUse, match="does not fit twin 'servo_pendulum'"):
        read_evidence(other, [episode])


def test_play_below_what_commands_tremble_by_is_not_told(nominal):
    rng = np.random.default_rng(2)
    worn = recorded(**{f"joint{k}_backlash_rad": 0.02 for k in range(1, 8)})
    assert "joint2_backlash_rad" in measured(worn, nominal)["actuation"].values
    both = arm.follow_both(worn, nominal)
    told = [replace(r, action=r.action + 0.05 * rng.normal(size=r.action.shape)) for r in worn.runs]
    found = arm.measure_actuation(replace(worn, runs=tuple(told)), both, ROWS, rng)
    assert "joint2_backlash_rad" not in found.values


def test_joints_that_tremble_alone_or_with_their_commands_are_no_noisy_sensors(nominal):
    rng = np.random.default_rng(1)

    def found(shaken):
        return scene.measure_sensing(replace(nominal, runs=tuple(shaken)), nominal, None, ROWS, rng).values

    some = np.array([0.0, 0.1, 0.1, 0.0, 0.0, 0.1, 0.1, 0.0])
    alone = [replace(r, velocity=r.velocity + some * rng.normal(size=r.velocity.shape)) for r in nominal.runs]
    assert "velocity_noise_rad_s" not in found(alone)
    everywhere = [
        replace(r, velocity=r.velocity + 0.05 * rng.normal(size=r.velocity.shape)) for r in nominal.runs
    ]
    assert found(everywhere)["velocity_noise_rad_s"].mean() == pytest.approx(0.05, rel=0.2)
    told = [replace(r, action=r.action + 0.01 * rng.normal(size=r.action.shape)) for r in everywhere]
    assert "velocity_noise_rad_s" not in found(told)


def test_the_opening_of_a_jaw_that_turns_is_no_length():
    twin = load_twin("so101_pick_place")
    places = {name: [0.5 * value for value in column] for name, column in PLACES.items()}
    nominal = recorded(twin, places)
    worn = recorded(twin, places, gripper_backlash_rad=0.02, gripper_encoder_bias_rad=0.01)
    assert not measured(worn, nominal)["object"].differs, "0.01 rad is not a centimetre"
    larger = measured(recorded(twin, places, object_size_m=0.032), nominal)["object"]
    assert larger.values["object_size_m"].mean() == pytest.approx(0.032, abs=0.002)
