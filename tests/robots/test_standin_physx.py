"""A stand-in on PhysX: the same cell, effects and protocol as on Bullet, and another reality."""

import numpy as np
import pytest

pytest.importorskip("pybullet")
pytest.importorskip("sapien")

from twinloop.errors import WrongUse
from twinloop.robots.standin.reality import parse_reality
from twinloop.robots.standin.session import Session
from twinloop.twins import load_twin

EFFECTS = """
seed: 4
contact: {friction: 0.5, finger_friction_scale: 0.9, patch_friction_scale: 0.7}
object: {mass_scale: 1.4, center_x_m: 0.004}
actuation: {dry_friction_share: 0.01, backlash_rad: 0.001}
environment: {table_tilt_rad: 0.01, push_force_n: 0.5, push_rate_hz: 0.2, vibration_m: 0.00003}
"""


def readings(engine):
    twin = load_twin("franka_pick_place")
    session = Session(parse_reality(f"engine: {engine}\n{EFFECTS}"), twin)
    try:
        rows = []
        for _ in range(60):
            session.act(session.steer())
            session.tick()
            signals = session.observe(()).signals
            rows.append(np.concatenate([signals["observation.state"], *signals.values()]))
        return np.stack(rows)
    finally:
        session.close()


def test_it_moves_as_on_bullet_but_not_to_the_bit_and_repeats_itself():
    physx, again, bullet = readings("physx"), readings("physx"), readings("bullet")
    assert np.array_equal(physx, again)
    assert not np.array_equal(physx, bullet)
    assert np.abs(physx - bullet)[:, :7].max() < 0.02, "the arm's joints, in rad"


def test_it_is_another_robot_than_on_bullet():
    twin = load_twin("franka_pick_place")
    described = {}
    for engine in ("physx", "bullet"):
        session = Session(parse_reality(f"engine: {engine}"), twin)
        described[engine] = session.description
        session.close()
    assert described["physx"].engine == "physx stand-in" and described["bullet"].engine == "bullet stand-in"
    assert described["physx"].serial != described["bullet"].serial


def test_another_engine_is_refused():
    with pytest.raises(WrongUse, match="engine"):
        parse_reality("engine: havok")
