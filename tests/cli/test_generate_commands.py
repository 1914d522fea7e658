"""The commands around generation, as a user types them."""

import json

import pytest
import yaml

from tests.twins.test_user_model import MJCF, URDF, write_stl
from twinloop.datasets.reader import open_dataset
from twinloop.workspace import find_workspace, first_config


def test_twins_are_listed_and_shown_with_units_and_bounds(twinloop):
    code, out, _ = twinloop("twin", "ls", "--json")
    assert code == 0 and "franka_pick_place" in {twin["name"] for twin in json.loads(out)}
    code, out, _ = twinloop("twin", "show", "franka_pick_place", "--json")
    mass = next(p for p in json.loads(out)["parameters"] if p["name"] == "object_mass_kg")
    assert mass["unit"] == "kg" and mass["dimension"] == "object" and mass["bounds"][0] < mass["nominal"]
    code, out, _ = twinloop("twin", "show", "franka_pick_place", "--dimension", "latency")
    assert code == 0 and "action_delay_s" in out and "object_mass_kg" not in out
    code, _, err = twinloop("twin", "show", "franka_pick_plaice")
    assert code == 2 and "did you mean 'franka_pick_place'" in err


def test_from_an_empty_folder_to_a_data_set_and_a_replay(twinloop, tmp_path, monkeypatch):
    bench = tmp_path / "bench"
    assert twinloop("init", bench, "--twin", "franka_pick_place")[0] == 0
    assert find_workspace(bench).twin == "twins/franka_pick_place"
    monkeypatch.chdir(bench)
    assert "twinloop generate seed.yaml" in twinloop("status")[1]
    code, out, _ = twinloop("generate", "seed.yaml", "--explain")
    assert code == 0 and "object_mass_kg" in out and not list((bench / "data").iterdir())
    code, out, err = twinloop("generate", "seed.yaml", "--episodes", "4", "--workers", "1", "--json")
    assert code == 0, err
    made = json.loads(out)
    assert made["episodes"] == 4 and made["out"].endswith("data/seed-v1") and 0.0 <= made["success"] <= 1.0
    code, out, _ = twinloop("replay", "data/seed-v1#2")
    assert code == 0 and "bit for bit" in out
    code, out, _ = twinloop("replay", "data/seed-v1#2", "--twin", "franka_push", "--json")
    assert code == 0 and json.loads(out)["twin"] == "franka_push"
    code, _, err = twinloop("generate", "seed.yaml", "--episodes", "4", "--out", "data/seed-v1")
    assert code == 1 and "complete with 4 of 4 episodes" in err
    again = twinloop("generate", "seed.yaml", "--episodes", "4", "--resume", "--json")
    assert json.loads(again[1])["out"].endswith("data/seed-v1")


def test_wrong_words_are_refused_with_the_right_ones(twinloop, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(
        yaml.safe_dump({"twin": "franka_pick_place", "randomization": {"object_mas_kg": [0, 1]}})
    )
    code, _, err = twinloop("generate", config, "--out", tmp_path / "out")
    assert code == 2 and "object_mass_kg" in err
    config.write_text(yaml.safe_dump({"twin": "franka_pick_place"}))
    code, _, err = twinloop("generate", config, "--out", tmp_path / "out", "--cameras", "front,nose")
    assert code == 2 and "available: front, wrist" in err
    assert twinloop("replay", tmp_path / "out")[0] == 2
    assert not (tmp_path / "out").exists()
    assert twinloop("init", tmp_path / "w", "--twin", "cube_toss", "--model", "x.xml")[0] == 2


def test_every_built_in_twin_gets_a_first_config_that_loads(tmp_path):
    from twinloop.randomization import load_generate_config, load_randomization
    from twinloop.twins import list_twins

    for twin in list_twins():
        config = load_generate_config(yaml.safe_load(first_config(twin, twin.name)))
        assert load_randomization(config, twin).names, f"nothing varies in the first config of {twin.name}"


@pytest.mark.parametrize("kind", ["urdf", "mjcf"])
def test_a_users_own_model_with_meshes_becomes_a_workspace_that_generates(
    twinloop, tmp_path, monkeypatch, kind
):
    write_stl(tmp_path / "two_links/meshes/part.stl")
    write_stl(tmp_path / "parts/part.stl")
    model = tmp_path / f"my_arm.{'urdf' if kind == 'urdf' else 'xml'}"
    model.write_text(
        URDF if kind == "urdf" else MJCF.replace("<body><joint axis", '<body><joint name="joint_1" axis')
    )
    code, out, err = twinloop("init", tmp_path / "cell", "--model", model)
    name = "two_links" if kind == "urdf" else "my_cell"
    assert code == 0 and f"twin {name}" in out, err
    model.unlink()
    monkeypatch.chdir(tmp_path / "cell")
    code, out, _ = twinloop("twin", "show", name, "--json")
    joint = "shoulder" if kind == "urdf" else "joint_1"
    listed = {p["name"]: p for p in json.loads(out)["parameters"]}
    assert code == 0 and {"unit", "nominal", "bounds", "dimension"} <= set(listed[f"{joint}_friction_nm"])
    code, out, _ = twinloop("generate", "seed.yaml", "--explain")
    assert code == 0 and f"{joint}_damping_nms_rad" in out
    code, out, err = twinloop("generate", "seed.yaml", "--episodes", "2", "--workers", "1", "--json")
    assert code == 0, err
    assert json.loads(out)["episodes"] == 2 and json.loads(out)["success"] == 1.0
    code, out, _ = twinloop("replay", "data/seed-v1#1")
    assert code == 0 and "bit for bit" in out
    if kind == "mjcf":
        rows = open_dataset("data/seed-v1").episode(0)["observation.gyro"]
        assert rows.shape[1] == 3 and rows.std() > 0.0


def test_a_config_is_generated_in_its_own_workspace_from_anywhere(twinloop, tmp_path, monkeypatch):
    assert twinloop("init", tmp_path / "cell", "--twin", "servo_pendulum")[0] == 0
    monkeypatch.chdir(tmp_path)
    code, out, err = twinloop("generate", "cell/seed.yaml", "--episodes", "1", "--workers", "1", "--json")
    assert code == 0, err
    assert json.loads(out)["out"].endswith("cell/data/seed-v1")
    (tmp_path / "lost.yaml").write_text("twin: servo_pendulum\n")
    code, _, err = twinloop("generate", "lost.yaml", "--episodes", "1")
    assert code == 2 and "--out DATASET" in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("twin: servo_pendulum\nrandomization: defualt", "or the word default"),
        ("twin: servo_pendulum\nrandomization: {from: defualt}", "did you mean 'default'"),
        ("twin: servo_pendulum\nrandomization: {load_mass_kg: [2, 1]}", "load_mass_kg"),
        ("twin: servo_pendulum\nrandomization: {load_mass_kg: [0.1, 9]}", "exceeds its bounds"),
        ("twin: servo_pendulum\nrollouts: {}", "did you mean 'rollout'"),
        ("randomization: default", "scene: {robot"),
        ("- a list", "is not a config"),
        ("{", "is not YAML"),
    ],
)
def test_a_bad_config_is_wrong_use(twinloop, tmp_path, text, said):
    (tmp_path / "bad.yaml").write_text(text)
    code, _, err = twinloop("generate", tmp_path / "bad.yaml", "--out", tmp_path / "out")
    assert code == 2 and said in err and not (tmp_path / "out").exists()


def test_the_default_randomization_can_be_changed_in_part(twinloop, tmp_path):
    (tmp_path / "seed.yaml").write_text(
        "twin: servo_pendulum\nrandomization: {from: default, load_mass_kg: [0.3, 0.6]}\n"
    )
    code, out, _ = twinloop("generate", tmp_path / "seed.yaml", "--explain", "--json")
    rows = {row["parameter"]: row for row in json.loads(out)}
    assert code == 0 and rows["load_mass_kg"]["distribution"] == "uniform 0.3 to 0.6"
    assert {row["dimension"] for row in rows.values()} == {
        "object", "actuation", "latency", "sensing", "visual"
    }  # fmt: skip
