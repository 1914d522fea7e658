"""Every parameter of every built-in twin reaches what is recorded: no knob is declared that turns nothing."""

import numpy as np
import pytest

from twinloop.experts import default_expert
from twinloop.generation.job import Job
from twinloop.generation.rollout import rollout_drawn
from twinloop.twins import list_twins

SEED = 5
FRACTION = 0.9
"""How far from nominal towards a bound."""

PUSHED = {"push_force_n": 5.0}
COMPANIONS = {
    "push_time_s": PUSHED,
    "push_direction_rad": PUSHED,
    "vibration_hz": {"vibration_m": 0.002},
    "clutter_layout": {"clutter_count": 1},
    "stiction_scale": {"joint2_friction_nm": 2.0, "theta_friction_nm": 0.0005},
    "motor_stribeck_speed_rad_s": {"motor_stiction_extra_nm": 0.1},
    "servo_stribeck_speed_rad_s": {"servo_stiction_extra_nm": 0.2},
    "force_warm_up_s": {"force_drift_n": 10.0},
    "force_age_s": {"force_drift_n": 10.0},
}
"""What else must differ from nominal for a parameter to mean anything, such as a push for its direction."""

FRAMES, ROWS, TOUCHES = (2, 12), (25, 150), 500
"""Control steps of a short and a long episode: most parameters show at once, and a long one is only for the rest."""
LONGEST_S = 2.0
"""In which a slow signal has moved every joint, however fast the control rate."""
SEEN = ("clutter_count", "clutter_layout", "occlusion")
"""Seen by cameras only, unless something bumps into it."""


def episodes(twin, changes, expert=None, cameras=(), steps=TOUCHES):
    """Nominal, then one episode for each change: a dictionary of values."""
    names = sorted({name for change in changes for name in change})
    rows = [{}, *changes]
    drawn = {}
    for name in names:
        nominal = twin.parameter(name).nominal
        kind = object if isinstance(nominal, str) else np.float64
        drawn[name] = np.array([row.get(name, nominal) for row in rows], dtype=kind)
    job = Job(twin, twin.task, expert or default_expert(twin.task), None, cameras, 0.0, steps)
    return list(rollout_drawn(job, [SEED] * len(rows), drawn, threads=2))


def changed(parameter, low):
    """The parameter's value most of the way to one of its bounds."""
    if parameter.choices:
        return parameter.choices[1 if low else -1]
    bound = parameter.bounds[0 if low else 1]
    value = parameter.nominal + FRACTION * (bound - parameter.nominal)
    return float(round(value)) if parameter.whole else value


def same(one, other):
    return (
        one.outcome == other.outcome
        and len(one) == len(other)
        and all(one[signal].tobytes() == other[signal].tobytes() for signal in one.signals)
        and all(np.array_equal(one.frames[camera], other.frames[camera]) for camera in one.frames)
    )


def without_effect(twin, parameters, **how):
    """Parameters that change nothing, whichever way they are turned."""
    left = list(parameters)
    for low in (True, False):
        left = _unchanged(twin, left, low, **how) if left else []
    return left


def _unchanged(twin, parameters, low, **how):
    """Parameters whose change leaves the episode as it is without it."""
    companions = {p.name: with_ for p in parameters if (with_ := _companions(twin, p))}
    changes = [{**companions.get(p.name, {}), p.name: changed(p, low)} for p in parameters]
    nominal, *made = episodes(twin, [*changes, *companions.values()], **how)
    without = dict(zip(companions, made[len(changes) :], strict=True))
    return [
        p
        for p, episode in zip(parameters, made, strict=False)
        if episode.provenance.draw[p.name] == p.nominal or same(episode, without.get(p.name, nominal))
    ]


def _companions(twin, parameter):
    companions = COMPANIONS.get(parameter.name, {})
    return {name: value for name, value in companions.items() if twin.has(name)}


TWINS = [
    pytest.param(twin, id=twin.name, marks=pytest.mark.slow if twin.name == "franka_push" else ())
    for twin in list_twins()
]
"""The arm and parameters of `franka_push` are those of `franka_pick_place`."""


@pytest.mark.parametrize("twin", TWINS)
def test_every_parameter_changes_something_that_is_recorded(twin):
    cameras = tuple(camera.name for camera in twin.cameras)
    seen = [p for p in twin.parameters if p.dimension == "visual" or p.name in SEEN]
    felt = [p for p in twin.parameters if p not in seen]
    short, long = ROWS
    for steps in FRAMES:
        seen = without_effect(twin, seen, cameras=cameras, steps=steps)
    for steps in (short, max(long, round(LONGEST_S * twin.control_hz))):
        felt = without_effect(twin, felt, steps=steps)
    left = seen + felt
    if left and "gripper" in twin.roles:
        # Felt only by an arm that bumps into things, such as the friction of the object's top.
        left = without_effect(twin, left, expert="random", steps=TOUCHES)
    assert not left, f"without effect: {[p.name for p in left]}"
