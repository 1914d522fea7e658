"""Values written into a compiled model equal a model compiled with those values, and never compound."""

import mujoco
import mujoco.batch
import numpy as np
import pytest

from twinloop.errors import InvalidTwin, UnknownName, WrongUse
from twinloop.twins import BatchWriter, Parameter, Target, Twin, initial_state, load_twin

DRAW = {
    "object_mass_kg": 0.3,
    "object_friction": 0.4,
    "object_size_m": 0.05,
    "object_center_x_m": 0.006,
    "object_face_top_friction_scale": 0.5,
    "joint2_friction_nm": 1.5,
    "joint4_armature_kgm2": 0.25,
    "servo_stiffness_scale": 0.7,
    "gripper_force_limit_n": 25.0,
    "table_height_m": 0.02,
}


def written_by_hand(twin: Twin) -> mujoco.MjModel:
    """The MJCF with the numbers of DRAW typed in."""
    spec = mujoco.MjSpec.from_string(twin.mjcf, include=dict(twin.assets))
    body = spec.body("object")
    body.mass, body.ipos = 0.3, [0.006, 0, 0]
    body.inertia = body.inertia * (0.3 / 0.1) * (0.05 / 0.04) ** 2
    for geom in body.geoms:
        geom.size, geom.pos = geom.size * 1.25, geom.pos * 1.25
        if geom.name.startswith("object_face"):
            geom.friction[0] = 0.2 if geom.name.endswith("top") else 0.4
    spec.joint("joint2").frictionloss = 1.5
    spec.joint("joint4").armature = 0.25
    for actuator in spec.actuators:
        actuator.gainprm[0] *= 0.7
        actuator.biasprm[1] *= 0.7
    spec.actuator("gripper").forcerange = [-25, 25]
    spec.body("table").pos[2] = 0.02
    return spec.compile()


def swing(model: mujoco.MjModel, twin: Twin) -> np.ndarray:
    data = mujoco.MjData(model)
    start = initial_state(twin, DRAW, 1)
    data.qpos[:], data.ctrl[:] = start.qpos[0], start.ctrl[0]
    data.ctrl[:8] += (0.1, 0.2, 0.1, -0.1, 0.2, 0.1, 0.3, -0.03)
    data.joint("object").qvel[:] = (0.3, 0.2, 0.5, 3.0, 2.0, 1.0)
    for _ in range(300):
        mujoco.mj_step(model, data)
    return data.qpos.copy()


def test_writing_values_is_the_same_as_compiling_them():
    twin = load_twin("franka_pick_place")
    np.testing.assert_allclose(
        swing(twin.make_model(DRAW), twin), swing(written_by_hand(twin), twin), atol=1e-9
    )


def test_writing_twice_is_writing_once():
    twin = load_twin("franka_pick_place")
    once, twice = twin.make_model(DRAW), twin.make_model({"object_mass_kg": 2.0, "object_size_m": 0.03})
    for _ in range(3):
        twin.patch.apply_to_model(twice, DRAW)
    for field in twin.patch.fields(DRAW):
        np.testing.assert_array_equal(getattr(once, field), getattr(twice, field))
    twin.patch.apply_to_model(twice, {})
    np.testing.assert_array_equal(twin.make_model().body_inertia, twice.body_inertia)


def test_a_batch_gives_each_simulation_its_own_values():
    twin = load_twin("franka_pick_place")
    count = 6
    values = {name: np.linspace(0.9, 1.0, count) * value for name, value in DRAW.items()}
    batch = mujoco.batch.Batch(twin.make_model(), count, 2)
    writer = BatchWriter(twin.patch, batch, varying=values)
    writer.write({name: value[::-1] for name, value in values.items()})
    writer.write({name: value[:2] for name, value in values.items()}, ids=[0, 1])
    writer.write({name: value[2:] for name, value in values.items()}, ids=[2, 3, 4, 5])
    for index in range(count):
        alone = twin.make_model({name: float(value[index]) for name, value in values.items()})
        together = batch.get_model(index)
        for field in (*twin.patch.fields(DRAW), "body_invweight0", "geom_rbound", "geom_aabb"):
            np.testing.assert_array_equal(getattr(alone, field), getattr(together, field), err_msg=field)


def test_a_batch_steps_as_single_models_do():
    twin = load_twin("franka_pick_place")
    values = {"object_mass_kg": np.array([0.05, 0.4, 0.2]), "object_friction": np.array([0.2, 1.0, 0.6])}
    batch = mujoco.batch.Batch(twin.make_model(), 3, 2)
    BatchWriter(twin.patch, batch, varying=values).write(values)
    start = initial_state(twin, values, 3)
    batch.qpos[:], batch.ctrl[:] = start.qpos, start.ctrl
    batch.mocap_pos[:] = start.mocap_pos
    batch.ctrl[:, 1] += 0.3
    batch.step(nstep=100)
    for index in range(3):
        model = twin.make_model({name: float(v[index]) for name, v in values.items()})
        data = mujoco.MjData(model)
        data.qpos[:], data.ctrl[:] = start.qpos[index], batch.ctrl[index]
        data.mocap_pos[:] = start.mocap_pos[index]
        for _ in range(100):
            mujoco.mj_step(model, data)
        np.testing.assert_array_equal(batch.qpos[index], data.qpos)


def test_a_batch_refuses_a_parameter_that_was_not_declared_as_varying():
    twin = load_twin("franka_pick_place")
    writer = BatchWriter(twin.patch, mujoco.batch.Batch(twin.make_model(), 2, 1), varying=["object_mass_kg"])
    writer.write({"object_mass_kg": np.array([0.1, 0.2]), "action_delay_s": np.zeros(2)})
    with pytest.raises(WrongUse, match="not declared as varying"):
        writer.write({"object_friction": np.array([0.1, 0.2])})


@pytest.mark.parametrize(
    ("target", "error", "words"),
    [
        (Target("geom_frictoin", ("a",)), UnknownName, "geom_friction"),
        (Target("geom_friction", ("cube",)), InvalidTwin, "does not have"),
        (Target("geom_friction", ("object",), (7,)), InvalidTwin, "indices below 3"),
        (Target("geom_friction"), InvalidTwin, "needs the objects"),
    ],
)
def test_a_target_that_is_not_in_the_model_is_refused(target, error, words):
    twin = load_twin("franka_pick_place")
    wrong = Twin("wrong", twin.mjcf, (Parameter("wrong", 1.0, targets=(target,)),), assets=twin.assets)
    with pytest.raises(error, match=words):
        wrong.make_model()
