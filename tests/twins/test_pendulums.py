"""The pendulum twins move by the equations of motion that were published with their figures."""

import mujoco
import numpy as np
import pytest

from twinloop.twins import load_twin

RNG = np.random.default_rng(11)
STATES = [RNG.uniform(-2.0, 2.0, 5) for _ in range(20)]
"""Two positions, two speeds and a command."""


def accelerations(model, state, commands):
    """What MuJoCo makes of a state; friction that needs a solver is left out."""
    model.dof_frictionloss[:] = 0.0
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = state[:2], state[2:4]
    data.ctrl[:] = commands
    mujoco.mj_forward(model, data)
    return data.qacc.copy()


@pytest.mark.parametrize("state", STATES)
def test_the_double_pendulum_moves_as_published_with_the_rotor_that_turns_with_the_upper_link(state):
    values = {
        "upper_mass_kg": 0.5, "upper_center_m": 0.18, "upper_inertia_kgm2": 0.012,
        "lower_mass_kg": 0.6, "lower_center_m": 0.25, "lower_inertia_kgm2": 0.011,
        "elbow_rotor_kgm2": 1e-4, "shoulder_armature_kgm2": 36e-4,
        "shoulder_damping_nms_rad": 0.003, "elbow_damping_nms_rad": 0.002,
    }  # fmt: skip
    torque = np.array([state[4], -0.5 * state[4]])
    made = accelerations(load_twin("double_pendulum").make_model(values), state, torque)
    q1, q2, v1, v2 = state[:4]
    m1, r1, m2, r2, l1, rotor, gear, g = 0.5, 0.18, 0.6, 0.25, 0.2, 1e-4, 6.0, 9.81
    i1, i2 = 0.012 + m1 * r1**2, 0.011 + m2 * r2**2
    coupling = m2 * l1 * r2
    mass = np.array(
        [
            [i1 + i2 + l1**2 * m2 + 2 * coupling * np.cos(q2) + gear**2 * rotor + rotor,
             i2 + coupling * np.cos(q2) - gear * rotor],
            [i2 + coupling * np.cos(q2) - gear * rotor, i2 + gear**2 * rotor],
        ]
    )  # fmt: skip
    coriolis = np.array(
        [-2 * coupling * np.sin(q2) * v1 * v2 - coupling * np.sin(q2) * v2**2, coupling * np.sin(q2) * v1**2]
    )
    gravity = -g * np.array(
        [m1 * r1 * np.sin(q1) + m2 * (l1 * np.sin(q1) + r2 * np.sin(q1 + q2)), m2 * r2 * np.sin(q1 + q2)]
    )
    drag = np.array([0.003 * v1, 0.002 * v2])
    np.testing.assert_allclose(made, np.linalg.solve(mass, torque + gravity - coriolis - drag), rtol=1e-8)


@pytest.mark.parametrize("state", STATES)
def test_the_furuta_pendulum_moves_as_published_but_for_the_rods_own_inertia_about_the_vertical(state):
    made = accelerations(load_twin("furuta_pendulum").make_model(), state, state[4])
    _, al, thd, ald = state[:4]
    mp, lp, lr, jp, own = 0.024, 0.129, 0.085, 3.3282e-5, 1e-7
    c1 = 0.25 * mp * lp**2 + jp - own
    a = 5.7198e-5 + mp * lr**2 + c1 * np.sin(al) ** 2 + own
    b = 0.5 * mp * lp * lr * np.cos(al)
    c = 0.25 * mp * lp**2 + jp
    torque = 0.042 * (state[4] - 0.042 * thd) / 8.4
    x = torque - 5e-6 * thd - c1 * np.sin(2 * al) * thd * ald + 0.5 * mp * lp * lr * np.sin(al) * ald**2
    y = -1e-6 * ald + 0.5 * c1 * np.sin(2 * al) * thd**2 - 0.5 * mp * lp * 9.81 * np.sin(al)
    np.testing.assert_allclose(made, np.linalg.solve([[a, b], [b, c]], [x, y]), rtol=1e-8)


@pytest.mark.parametrize("state", STATES)
def test_the_cart_pole_moves_as_published(state):
    made = accelerations(load_twin("cart_pole").make_model(), state, state[4])
    _, th, xd, thd = state[:4]
    m, length, g = 0.127, 0.3365 / 2, 9.81
    force = 0.81 * 3.71 * 0.00767 / (2.6 * 0.00635) * (0.9 * state[4] - 3.71 * 0.00767 * xd / 0.00635)
    heavy = 0.38 + 0.9 * 3.71**2 * 3.9e-7 / 0.00635**2
    mass = [[m + heavy, m * length * np.cos(th)], [m * length * np.cos(th), 4.0 / 3.0 * m * length**2]]
    right = [
        force - 5.4 * xd + m * length * np.sin(th) * thd**2,
        -0.0024 * thd - m * length * g * np.sin(th),
    ]
    np.testing.assert_allclose(made, np.linalg.solve(mass, right), rtol=1e-3)


def test_a_motors_constant_pushes_once_and_brakes_twice_and_its_resistance_weakens_both():
    twin = load_twin("furuta_pendulum")
    model = twin.make_model({"theta_motor_constant_vs_rad": 0.084, "theta_resistance_ohm": 16.8})
    assert model.actuator("theta").gainprm[0] == pytest.approx(0.084 / 16.8)
    assert model.actuator("theta").biasprm[2] == pytest.approx(-(0.084**2) / 16.8)


def test_a_cube_lying_flat_touches_with_a_face_and_a_tilted_one_with_its_core():
    model = load_twin("cube_toss").make_model()
    data = mujoco.MjData(model)
    for degrees, wanted in (
        (0.0, "object_face_bottom"),
        (2.0, "object_face_bottom"),
        (5.0, "object"),
        (40.0, "object"),
    ):
        half = np.radians(degrees) / 2.0
        data.qpos[:] = [0, 0, 0.2, np.cos(half), np.sin(half), 0, 0]
        mujoco.mj_forward(model, data)
        corners = {
            model.geom(g).name: (
                data.geom_xpos[g, 2] - np.abs(data.geom_xmat[g].reshape(3, 3)[2]) @ model.geom_size[g]
            )
            for g in range(model.ngeom)
            if model.geom(g).name.startswith("object")
        }
        assert min(corners, key=corners.get) == wanted
