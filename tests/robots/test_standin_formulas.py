"""The stand-in's own short formulas say the same, bit for bit, as the batched parts they were taken from."""

import numpy as np
import pytest

pytest.importorskip("pybullet")

from twinloop.imperfect import backlash, stream
from twinloop.imperfect.delay import Delay
from twinloop.imperfect.friction import Friction, dry_level_nm
from twinloop.robots.standin.drive import Drive
from twinloop.robots.standin.effects import Actuation
from twinloop.robots.standin.sensor_model import _Late
from twinloop.tasks import make_cell
from twinloop.twins import load_twin

DT_S = 0.02


@pytest.mark.parametrize(
    "late",
    [
        Delay(),
        Delay(0.06),
        Delay(0.06, 0.008),
        Delay(0.11, 0.02, 0.3),
        Delay(0.0, 0.01),
        Delay(0.05, 0.0, 0.1),
    ],
    ids=str,
)
def test_a_late_reading_is_that_of_a_stream(late):
    rng = np.random.default_rng(5)
    first = rng.standard_normal((1, 3))
    mine, theirs = _Late(late, first, DT_S), stream.make_state(late, first, DT_S)
    for now in rng.standard_normal((200, 1, 3)):
        jitter, drop = rng.standard_normal(1), rng.random(1)
        theirs, expected = stream.step(late, theirs, now, DT_S, jitter, drop)
        assert np.array_equal(mine.step(now, float(jitter[0]), float(drop[0])), expected)


def test_play_and_dry_friction_of_a_servo_are_those_of_the_parts():
    cell = make_cell(load_twin("franka_pick_place"))
    effects = Actuation(backlash_rad=0.008, dry_friction_share=0.02, stiction_share=0.015)
    rng = np.random.default_rng(7)
    joints = cell.model.nv - 6
    drive = Drive(cell, np.arange(joints), effects, rng)
    friction = Friction(drive._sliding[None], stiction_extra_nm=drive._breaking_away[None])
    for speed in 0.1 * rng.standard_normal((50, joints)):
        assert np.array_equal(drive._dry(speed), dry_level_nm(friction, speed[None])[0])
    gear = backlash.Backlash((effects.backlash_rad * cell.turning)[None])
    commands = np.cumsum(0.003 * rng.standard_normal((300, 1, len(cell.actuators))), axis=0)
    driven = backlash.make_state(commands[0])
    still = np.zeros(joints)
    for command in commands:
        driven, expected = backlash.step(gear, driven, command)
        drive.step(still, still, command[0], still, np.ones(joints), 0.002)
        assert np.array_equal(drive._driven, expected[0])
