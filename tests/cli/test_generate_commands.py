"""The commands around generation, as a user types them."""

import json
import sys

import pytest
import yaml

from twinloop.cli import main
from twinloop.workspace import find_workspace, first_config


@pytest.fixture
def twinloop(monkeypatch, capsys):
    """Run one command; returns the exit code, standard output and standard error."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["twinloop", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


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
    assert code in (1, 2) and "object_mass_kg" in err
    config.write_text(yaml.safe_dump({"twin": "franka_pick_place"}))
    code, _, err = twinloop("generate", config, "--out", tmp_path / "out", "--cameras", "front,nose")
    assert code == 2 and "available: front, wrist" in err
    assert twinloop("replay", tmp_path / "out")[0] == 2
    assert not (tmp_path / "out").exists()
    assert twinloop("init", tmp_path / "w", "--twin", "cube_toss", "--model", "x.xml")[0] == 2


def test_every_built_in_twin_gets_a_first_config_that_loads(tmp_path):
    from twinloop.randomize import load_generate_config, load_randomization
    from twinloop.twin import list_twins

    for twin in list_twins():
        config = load_generate_config(yaml.safe_load(first_config(twin, twin.name)))
        assert load_randomization(config, twin).names, f"nothing varies in the first config of {twin.name}"
