"""A randomization as code for other simulators writes what the twin itself would."""

import ast
import json
import math

import numpy as np
import pytest
from scipy.special import ndtri

import twinloop as tl
from benchmarks.peers.environment import Peer
from tests.terminal import run_command as twinloop_command
from twinloop.errors import UnknownName, WrongUse
from twinloop.interchange.plan import row_name
from twinloop.interchange.randomizer import PEERS
from twinloop.randomization import draw_many, make_randomization
from twinloop.randomization.distribution import (
    Categorical,
    Constant,
    LogUniform,
    Mixture,
    Normal,
    Schedule,
    Uniform,
)

PUSH = tl.load_twin("franka_push")
EVERY_KIND = {
    "object_friction": Normal(0.5, 0.2, 0.3, 0.9),
    "object_mass_kg": LogUniform(0.05, 0.4),
    "object_center_x_m": Categorical((-0.01, 0.0, 0.01), (1.0, 2.0, 1.0)),
    "object_center_y_m": Mixture((Constant(0.0), Uniform(0.001, 0.005)), (0.75, 0.25)),
    "joint1_friction_nm": Uniform(0.1, 0.4),
    "servo_stiffness_scale": Uniform(0.8, 1.2),
    "object_inertia_scale": Schedule(Constant(1.0), Constant(2.0), 0, 10),
    "action_delay_s": Uniform(0.0, 0.05),
}
TOGETHER = [
    (["joint2_damping_nms_rad", "joint2_armature_kgm2"], [1.0, 0.1], [[0.01, 0.0008], [0.0008, 0.0001]])
]


def make_every_kind():
    return make_randomization(PUSH, EVERY_KIND, correlated=TOGETHER, name="every_kind")


def shared_part(text):
    """The part of exported code that draws and computes, run with NumPy: it needs nothing of the simulator."""
    tree = ast.parse(text)
    tree.body = [
        node for node in tree.body
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.ClassDef)
        and not (isinstance(node, ast.FunctionDef) and node.decorator_list)
        and not (isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "EVENTS")
    ]  # fmt: skip
    space = {"xp": np, "np": np, "math": math, "ndtri": ndtri, "SceneEntityCfg": str}
    exec(compile(tree, "randomization.py", "exec"), space)
    return space


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """(code as text, its shared part, what was left out) for every simulator."""
    folder = tmp_path_factory.mktemp("exports")
    config = folder / "every_kind.yaml"
    config.write_text(make_every_kind().to_yaml())
    made = {}
    for peer in PEERS:
        done = tl.export_twin(PUSH, peer, folder / peer, randomization=config)
        text = (folder / peer / "randomization.py").read_text()
        made[peer] = (text, shared_part(text), {one.name: one.reason for one in done.left_out})
    return made


@pytest.mark.parametrize("peer", PEERS)
def test_it_draws_as_the_randomization_does(exported, peer):
    _, code, _ = exported[peer]
    u = np.random.default_rng(0).uniform(1e-6, 1 - 1e-6, (500, code["COUNT"], 2))
    values = code["draw_values"](u)
    for i, name in enumerate(code["DRAWS"]):
        expected = EVERY_KIND[name].quantile(u[:, i], np.zeros(500))
        np.testing.assert_allclose(values[name], np.clip(expected, *PUSH.parameter(name).bounds), rtol=1e-9)
    (names, mean, covariance), many = (
        TOGETHER[0],
        np.random.default_rng(1).uniform(0, 1, (40_000, code["COUNT"], 2)),
    )
    drawn = code["draw_values"](many)
    kept = [i for i, name in enumerate(names) if name in drawn]
    together = np.stack([drawn[names[i]] for i in kept])
    np.testing.assert_allclose(together.mean(axis=1), np.array(mean)[kept], rtol=0.01)
    np.testing.assert_allclose(
        np.cov(together), np.squeeze(np.array(covariance)[np.ix_(kept, kept)]), rtol=0.05
    )


@pytest.mark.parametrize("peer", PEERS)
def test_it_writes_the_numbers_that_the_twin_would(exported, peer):
    _, code, _ = exported[peer]
    drawn = draw_many(make_every_kind(), 3, range(7))
    values = {name: drawn[name] for name in code["BOUNDS"]}
    model, rows = PUSH.patch.model, PUSH.patch.rows(values, 7)
    assert set(code["FIELDS"]) == set(PUSH.patch.fields(values))
    for field, (names, width, _, _) in code["FIELDS"].items():
        found = code["field_rows"](field, values)
        at = [
            next(i for i in range(len(rows[field][0])) if row_name(model, field, i) == name) for name in names
        ]
        np.testing.assert_allclose(found, rows[field].reshape(7, -1, width)[:, at], rtol=1e-12)


@pytest.mark.parametrize("peer", ["isaaclab", "maniskill"])
def test_joints_and_bodies_get_the_sums_that_physx_needs(exported, peer):
    _, code, _ = exported[peer]
    drawn = draw_many(make_every_kind(), 5, range(3))
    values = {name: drawn[name] for name in code["BOUNDS"]}
    found = code["quantities"](values)
    for i in range(3):
        model = PUSH.make_model({name: float(v[i]) for name, v in values.items()})
        joint, actuator, body = model.joint("joint2"), model.actuator("joint2"), model.body("object")
        damping = -actuator.biasprm[2] + (joint.damping[0] if peer == "maniskill" else 0.0)
        expected = {
            ("joint_stiffness", "joint2"): actuator.gainprm[0],
            ("joint_armature", "joint2"): joint.armature[0],
            ("joint_damping", "joint2"): damping,
            ("mass_kg", "object"): body.mass[0],
            ("com_x_m", "object"): body.ipos[0],
            ("friction", "object"): model.geom("object_face_top").friction[0],
            ("inertia_ratio", "object"): body.inertia[0] / PUSH.patch.model.body("object").inertia[0],
        }
        if peer == "isaaclab":
            expected |= {
                ("joint_viscous", "joint2"): joint.damping[0],
                ("joint_friction", "joint1"): model.joint("joint1").frictionloss[0],
            }
        for key, number in expected.items():
            np.testing.assert_allclose(found[key][i], number, rtol=1e-9, err_msg=str(key))


def test_what_a_simulator_cannot_express_is_listed_and_in_the_head(exported):
    everywhere = {"object_inertia_scale": "changes over episodes", "action_delay_s": "hardware around"}
    for peer, (text, code, left_out) in exported.items():
        assert set(code["BOUNDS"]) | set(left_out) == {*make_every_kind().names, *left_out}
        assert not set(code["BOUNDS"]) & set(left_out), "nothing is both drawn and left out"
        for name, reason in everywhere.items():
            assert reason in left_out[name]
        head = [line for line in text.splitlines() if line.startswith("#")]
        for name, reason in left_out.items():
            assert any(f"  {name}: " in line and reason in line for line in head), (peer, name)
    assert "dof_frictionloss" in exported["maniskill"][2]["joint1_friction_nm"]
    assert "no single joint" in exported["isaaclab"][2]["gripper"]


def test_the_command_takes_the_twin_from_the_config_and_lists_what_is_left_out(tmp_path):
    config = tmp_path / "anchored.yaml"
    values = make_every_kind().plain() | {"twin": "franka_push"}
    config.write_text(json.dumps(values))
    code, out, _ = twinloop_command("twin", "export", tmp_path / "a", "--to", "mjlab", "--config", config)
    assert code == 0 and "left out: action_delay_s: " in out and "wrote franka_push for mjlab" in out
    code, out, _ = twinloop_command(
        "twin", "export", tmp_path / "b", "--to", "mjlab", "--config", config, "--json"
    )
    assert {one["name"] for one in json.loads(out)["left_out"]} == {"object_inertia_scale", "action_delay_s"}
    code, _, err = twinloop_command(
        "twin", "export", tmp_path / "c", "--to", "mujoco", "--twin", "franka_push"
    )
    assert code == 2 and "isaaclab, lerobot-env, maniskill" in err


def test_a_randomization_that_says_nothing_about_the_model_is_refused(tmp_path):
    config = tmp_path / "delays.yaml"
    config.write_text(make_randomization(PUSH, {"action_delay_s": (0.0, 0.05)}).to_yaml())
    with pytest.raises(WrongUse, match="nothing that randomization"):
        tl.export_twin(PUSH, "playground", tmp_path / "out", randomization=config)
    with pytest.raises(UnknownName, match="playground"):
        tl.export_twin(PUSH, "playgrounds", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def in_peer(peer, script, twin, folder, rows=5):
    """Run exported code in its simulator: what it printed, and the values that it was to write."""
    here = Peer(peer, peer)
    if reason := here.install():
        pytest.skip(reason)
    tl.save_twin(twin, folder / "twin")
    done = tl.export_twin(twin, peer, folder / "code")
    left_out = {one.name for one in done.left_out}
    drawn = draw_many(tl.default_randomization(twin), 3, range(rows))
    values = {name: v for name, v in drawn.items() if name not in left_out}
    (folder / "values.json").write_text(json.dumps({name: v.tolist() for name, v in values.items()}))
    model = [] if peer == "maniskill" else [folder / "twin/model.xml"]
    return here.run(script, *model, folder / "code/randomization.py", folder / "values.json"), values


def vary(numbers):
    """How many numbers differ between environments."""
    return int((np.ptp(np.array(numbers), axis=0) > 0).sum())


@pytest.mark.slow
def test_playground_writes_the_same_fields(tmp_path):
    twin = tl.load_twin("franka_pick_place")
    found, values = in_peer("playground", "write_fields.py", twin, tmp_path)
    rows = twin.patch.rows(values, 5)
    for field, numbers in found["written"].items():
        np.testing.assert_allclose(numbers, rows[field], rtol=1e-6, atol=1e-12)
    assert found["batched"] == 256 and vary(found["drawn"]["dof_frictionloss"]) == 7


@pytest.mark.slow
def test_mjlab_draws_at_reset_and_writes_the_same_fields(tmp_path):
    twin = tl.load_twin("servo_pendulum")
    found, values = in_peer("mjlab", "write_fields.py", twin, tmp_path)
    rows = twin.patch.rows(values, 5)
    assert {"body_mass", "dof_damping", "actuator_gainprm"} <= set(found["written"])
    for field, numbers in found["written"].items():
        np.testing.assert_allclose(
            numbers, rows[field][:, -np.array(numbers).shape[1] :], rtol=1e-5, atol=1e-7
        )
    assert vary(found["drawn"]["body_mass"]) == 1 and len(found["drawn"]["body_mass"]) == 64


@pytest.mark.slow
def test_maniskill_holds_the_values_that_were_written(tmp_path):
    twin = tl.load_twin("franka_pick_place")
    found, values = in_peer("maniskill", "write_quantities.py", twin, tmp_path)
    model = twin.make_model({name: float(v[0]) for name, v in values.items()})
    for name, (armature, stiffness, damping, effort) in found["joints"].items():
        joint, actuator = model.joint(name), model.actuator(name)
        expected = (joint.armature[0], actuator.gainprm[0], joint.damping[0] - actuator.biasprm[2])
        np.testing.assert_allclose((armature, stiffness, damping), expected, rtol=1e-5)
        np.testing.assert_allclose(effort, actuator.forcerange[1], rtol=1e-5)
    body = model.body("object")
    np.testing.assert_allclose(found["mass_kg"], body.mass[0], rtol=1e-5)
    np.testing.assert_allclose(found["com_m"], body.ipos, atol=1e-7)
    ratio = body.inertia / twin.patch.model.body("object").inertia
    np.testing.assert_allclose(found["inertia_ratio"], ratio, rtol=1e-4)
    np.testing.assert_allclose(found["friction"], model.geom("object_face_top").friction[0], rtol=1e-5)
    assert found["repeats"] and found["differs"]
