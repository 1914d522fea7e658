"""`twinloop twin show`: a hundred parameters that a person can read."""

import pytest

from tests.terminal import twinloop, twinloop_json
from twinloop.cli import console
from twinloop.twins import load_twin
from twinloop.twins.joint_parameters import describe_group, group_by_joint, list_joints, name_group


def test_what_several_joints_have_is_one_row(monkeypatch, tmp_path):
    monkeypatch.setattr(console.out, "width", 120)
    said = twinloop("twin", "show", "so101", cwd=tmp_path)
    assert "joints shoulder_pan, shoulder_lift, elbow_flex" in said
    (row,) = [line for line in said.splitlines() if "friction_nm" in line]
    assert row.split()[:2] == ["<joint>_friction_nm", "0.0524"] and "dry friction of <joint>, N·m" in row
    assert "elbow_flex_friction_nm" not in said


def test_values_that_differ_stand_in_the_order_of_the_joints(monkeypatch, tmp_path):
    monkeypatch.setattr(console.out, "width", 160)
    said = twinloop("twin", "show", "franka_pick_place", "--dimension", "actuation", cwd=tmp_path)
    (row,) = [line for line in said.splitlines() if "<joint>_force_limit_nm" in line]
    values = row.split()[1:]
    twin = load_twin("franka_pick_place")
    joints = list_joints(twin)
    assert (
        len(joints) > 7 and values[joints.index("joint5")] == "12" and values[joints.index("joint1")] == "87"
    )


def test_one_joint_is_shown_with_the_names_of_its_parameters(tmp_path):
    rows = twinloop_json("twin", "show", "so101", "--joint", "elbow_flex", cwd=tmp_path)["parameters"]
    assert len(rows) > 5 and all(row["name"].startswith("elbow_flex_") for row in rows)
    assert "available: elbow_flex" in twinloop(
        "twin", "show", "so101", "--joint", "knee", cwd=tmp_path, code=2
    )


def test_without_a_name_the_workspaces_twin_is_shown(tmp_path):
    twinloop("init", "bench", "--twin", "servo_pendulum", cwd=tmp_path)
    assert twinloop_json("twin", "show", cwd=tmp_path / "bench/data")["name"] == "servo_pendulum"
    assert "no twin is named" in twinloop("twin", "show", cwd=tmp_path, code=2)


@pytest.mark.parametrize("name", ["so101", "franka_pick_place", "cube_toss"])
def test_every_parameter_is_in_one_group(name):
    twin = load_twin(name)
    groups = group_by_joint(twin, twin.parameters)
    assert sorted(p.name for group in groups for p in group.values()) == sorted(
        p.name for p in twin.parameters
    )
    for group in groups:
        assert name_group(group) and describe_group(group)
