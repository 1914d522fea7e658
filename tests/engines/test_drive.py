"""Gears and switches of servos against mechanics done by hand, on the servo that swings a weight."""

from dataclasses import replace

import numpy as np
import pytest

from twinloop.engines.drive import Drive
from twinloop.engines.mujoco_batch import MujocoBatch
from twinloop.tasks import make_cell, make_task
from twinloop.twins import load_twin

WEIGHT_NM = 0.49 * 9.81 * 0.10
IDEAL = {"motor_friction_nm": 0.0, "motor_damping_nms_rad": 0.0, "motor_back_emf_nms_rad": 0.0}


@pytest.fixture(scope="module")
def cell():
    return make_cell(load_twin("servo_pendulum"))


class Bench:
    """Environments of the servo pendulum that start at rest at given angles."""

    def __init__(self, cell, angles, values, switched=False):
        self.cell, self.ids = cell, np.arange(len(angles))
        self.values = {k: np.broadcast_to(np.asarray(v, float), len(angles)) for k, v in values.items()}
        self.engine = MujocoBatch(cell, len(angles), 1, tuple(self.values))
        start = make_task("excite", cell.twin).start(self.values, self.ids)
        angles = np.asarray(angles, float)[:, None]
        self.engine.load(self.ids, self.values, replace(start, qpos=angles, ctrl=angles))
        self.batch = self.engine._batch
        self.drive = Drive(cell, self.batch, tuple(self.values), switched=switched)
        self.batch.forward(self.ids)
        self.drive.load(self.ids, self.values)
        self._torque = self.batch.bind("qfrc_actuator")

    def run(self, commands, enabled=None):
        """Angles after each physics step; a command (N,) for each."""
        made = []
        for command in commands:
            self.drive.before_step(self.ids, np.broadcast_to(command, len(self.ids))[:, None], enabled)
            self.batch.step(self.ids, nstep=1)
            made.append(self.engine.qpos[:, 0].copy())
        return np.array(made)

    @property
    def torque(self):
        return self._torque[:, 0].copy()


def test_a_twin_without_gear_friction_is_stepped_as_before(cell):
    franka = make_cell(load_twin("franka_pick_place"))
    assert not MujocoBatch(franka, 2, 1, ("joint1_friction_nm",))._drive.active
    assert not MujocoBatch(cell, 2, 1, ())._drive.active
    assert MujocoBatch(cell, 2, 1, ("motor_stiction_extra_nm",))._drive.active


def test_a_weight_stays_up_when_its_own_load_gives_the_gear_enough_friction(cell):
    angles = np.array([0.5, 0.5, -1.2, -1.2])
    weight = WEIGHT_NM * np.abs(np.sin(angles))
    # Off, it sticks where dry friction and the shares of the weight that the gear loses add up to the weight.
    values = {
        **IDEAL,
        "motor_friction_nm": 0.1 * weight,
        "motor_external_load_friction": 0.3,
        "motor_external_load_stiction": [0.61, 0.59, 0.61, 0.59],
        "motor_stribeck_speed_rad_s": 0.2,
    }
    bench = Bench(cell, angles, values, switched=True)
    path = bench.run(np.zeros(1000), enabled=np.zeros(4))
    np.testing.assert_allclose(path[-1, ::2], angles[::2], atol=1e-3)
    assert (np.abs(path[-1] - angles)[1::2] > 0.1).all()


def test_raising_takes_more_and_lowering_less_torque_by_the_shares_the_gear_loses(cell):
    friction, drive, external, growth = 0.02, 0.25, 0.1, 0.3
    values = {
        **IDEAL,
        "motor_friction_nm": friction,
        "motor_drive_load_friction": drive,
        "motor_external_load_friction": external,
        "motor_drive_load_growth_per_nm": [growth, 0.0],
        "motor_damping_nms_rad": 0.005,
        "firmware_gain": 800.0,
    }
    bench = Bench(cell, [0.4, 0.4], values)
    speed = np.array([0.02, -0.02])
    path = bench.run(0.4 + np.array([0.25, 0.1]) + speed * np.arange(4000)[:, None] * 0.001)
    moved = (path[-1] - path[-101]) / 0.1
    assert np.array_equal(np.sign(moved), np.sign(speed))
    weight = WEIGHT_NM * np.sin(path[-1])
    sliding = 0.005 * moved
    # Up: T (1 - drive) - growth T^2 carries friction and weight; the smaller root.
    needed = friction + (1.0 + external) * weight[0] + sliding[0]
    up = (1.0 - drive - np.sqrt((1.0 - drive) ** 2 - 4.0 * growth * needed)) / (2.0 * growth)
    down = ((1.0 - external) * weight[1] - friction + sliding[1]) / (1.0 + drive)
    np.testing.assert_allclose(bench.torque, [up, down], rtol=0.005)


def test_friction_that_should_hold_does_not_creep(cell):
    bench = Bench(cell, [0.6], {**IDEAL, "motor_friction_nm": 0.35}, switched=True)
    path = bench.run(np.zeros(3000), enabled=np.zeros(1))
    assert abs(path[-1, 0] - 0.6) < 1e-4


def test_a_servo_that_is_off_swings_as_a_free_pendulum_without_back_emf(cell):
    bench = Bench(cell, [0.05], {**IDEAL, "motor_back_emf_nms_rad": 0.3}, switched=True)
    path = bench.run(np.ones(3000), enabled=np.zeros(1))[:, 0]
    inertia = 0.49 * 0.01 + 1e-6 + 0.001814
    period_s = 2.0 * np.pi * np.sqrt(inertia / WEIGHT_NM)
    downward = np.flatnonzero((path[:-1] > 0.0) & (path[1:] <= 0.0)) * 0.001
    np.testing.assert_allclose(np.diff(downward), period_s, atol=0.002)
    assert path[-700:].max() == pytest.approx(0.05, rel=0.02)


def test_stiction_falls_with_speed_as_declared(cell):
    extra, stribeck = 0.1, 0.5
    values = {
        **IDEAL,
        "motor_friction_nm": 0.05,
        "motor_stiction_extra_nm": extra,
        "motor_stribeck_speed_rad_s": stribeck,
        "load_mass_kg": 1e-4,
    }
    bench = Bench(cell, np.zeros(3), values, switched=True)
    speeds = np.array([0.0, 0.5, 1.5])
    bench.engine.qvel[:, 0] = speeds
    bench.drive.before_step(bench.ids, np.zeros((3, 1)), np.zeros(3))
    written = np.asarray(bench.batch.expand("dof_frictionloss"))[:, 0]
    np.testing.assert_allclose(written, 0.05 + extra * np.exp(-((speeds / stribeck) ** 2)))


def test_a_parameter_for_all_servos_reaches_every_driven_joint(cell):
    arm = make_cell(load_twin("so101"))
    values = {"servo_stiction_extra_nm": np.array([0.2])}
    engine = MujocoBatch(arm, 1, 1, tuple(values))
    engine.load(np.arange(1), values, make_task("excite", arm.twin).start(values, np.arange(1)))
    engine._drive.before_step(np.arange(1), np.array(engine.ctrl))
    np.testing.assert_allclose(engine._batch.expand("dof_frictionloss")[0], 0.0524 + 0.2)
