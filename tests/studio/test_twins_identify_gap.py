"""Twin, Identify and Gap rooms over HTTP: the library's answers on a real workspace, and decisions that the commands then show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.terminal import twinloop_json
from twinloop.identification.result import load_identification
from twinloop.twins import load_twin

NOMINAL, CALIBRATED = "twins/franka_pick_place", "twins/calibrated"


def ask(studio: Any, address: str, status: int = 200, /, **params: Any) -> Any:
    answer = studio.client.get(address, params=params)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def diagnosis(studio) -> str:
    return str(ask(studio, "/api/gap/results")["diagnoses"][0]["path"])


@pytest.fixture(scope="module")
def excitation(studio) -> str:
    names = [one["name"] for one in ask(studio, "/api/identify/datasets")]
    return next(name for name in names if "excite" in name)


def test_every_twin_is_listed_with_its_state(studio):
    found = ask(studio, "/api/twins")
    states = {one["twin"]: one["state"] for one in found["versions"]}
    assert states[NOMINAL] == "current" and found["current"] == NOMINAL
    assert states[CALIBRATED] in ("candidate", "rejected")
    assert found["history"][0]["reason"] == "made with the workspace"


def test_parameters_carry_estimates_in_words(studio):
    found = ask(studio, "/api/twins/detail", twin=CALIBRATED)
    (delay,) = [one for one in found["parameters"] if one["name"] == "action_delay_s"]
    identified = load_identification(studio.workspace / CALIBRATED)
    assert delay["interval"] == pytest.approx(
        [identified["action_delay_s"].low, identified["action_delay_s"].high]
    )
    assert delay["words"].startswith(("Identified", "Weakly", "Not")) and delay["unit"] == "s"
    assert {"nominal", "posterior", "default", "training", "seed.yaml"} <= {
        one["name"] for one in found["sources"]
    }


def test_a_scene_follows_samples_draws_and_values_of_ones_own(studio):
    nominal = ask(studio, "/api/twins/scene")
    assert nominal["values"] == {} and nominal["geometry"]["shapes"]
    sample = ask(studio, "/api/twins/scene", twin=CALIBRATED, source="posterior", number=2)
    identified = load_identification(studio.workspace / CALIBRATED)
    column = identified.names.index("action_delay_s")
    assert sample["values"]["action_delay_s"] == pytest.approx(float(identified.samples[2, column]))
    drawn = ask(studio, "/api/twins/scene", source="seed.yaml", number=5)
    assert drawn["geometry"]["lights"] != nominal["geometry"]["lights"], "the randomized look"
    assert drawn == ask(studio, "/api/twins/scene", source="seed.yaml", number=5)
    moved = ask(studio, "/api/twins/scene", set='{"object_size_m": 0.05}')
    assert moved["geometry"]["shapes"] != nominal["geometry"]["shapes"]


@pytest.mark.parametrize(
    ("params", "status"),
    [
        ({"twin": "../elsewhere"}, 400),
        ({"twin": "/etc"}, 400),
        ({"source": "../secret.yaml"}, 404),
        ({"source": "posterior"}, 404),
        ({"set": '{"no_such": 1}'}, 404),
        ({"set": '{"object_size_m": 99}'}, 422),
        ({"set": '{"object_size_m": 1e999}'}, 422),
        ({"set": "[" * 5000}, 400),
        ({"set": '{"object_size_m": [1]}'}, 400),
        ({"source": "default", "number": 1000}, 400),
        ({"source": "default", "number": -1}, 422),
    ],
)
def test_a_scene_that_makes_no_sense_is_refused_in_one_shape(studio, params, status):
    error = ask(studio, "/api/twins/scene", status, **params)["error"]
    assert error["what"] and error["kind"] and "Traceback" not in str(error)


def test_a_parameters_spreads_have_one_histogram_each(studio):
    found = ask(
        studio,
        "/api/twins/parameter",
        twin=CALIBRATED,
        name="action_delay_s",
        sources=["posterior", "default"],
    )
    assert [one["source"] for one in found["spreads"]] == ["posterior", "default"]
    for one in found["spreads"]:
        assert sum(one["fractions"]) == pytest.approx(1.0) and len(one["edges"]) == len(one["fractions"]) + 1
        assert one["low"] <= one["middle"] <= one["high"]


def test_versions_are_compared_parameter_by_parameter(studio):
    rows = ask(studio, "/api/twins/compare", first=NOMINAL, second=CALIBRATED)
    assert "action_delay_s" in {row["name"] for row in rows}


def test_candidates_are_accepted_and_rejected_with_name_and_reason(own_studio):
    folder = str(CALIBRATED)
    decide = {"twin": folder, "by": "ann", "reason": "replays better", "override": True}
    unsigned = own_studio.client.post("/api/twins/accept", json=decide | {"by": " "})
    assert unsigned.status_code == 400 and "a name and a reason" in unsigned.json()["error"]["what"]
    assert own_studio.client.post("/api/twins/accept", json=decide).json()["twin"] == folder
    assert own_studio.client.post("/api/twins/accept", json=decide).status_code == 409
    shown = twinloop_json("twin", "versions", cwd=own_studio.workspace)
    assert (shown["history"][-1]["by"], shown["history"][-1]["reason"]) == ("ann", "replays better")
    back = own_studio.client.post("/api/twins/rollback", json={"by": "bo", "reason": "drops the cube"}).json()
    assert back["twin"] == NOMINAL and back["by"] == "bo"
    rejected = own_studio.client.post(
        "/api/twins/reject", json={"twin": folder, "by": "bo", "reason": "slips"}
    )
    assert rejected.json()["by"] == "bo"
    states = {one["twin"]: one["state"] for one in ask(own_studio, "/api/twins")["versions"]}
    assert states == states | {NOMINAL: "current", CALIBRATED: "rejected"}
    outside = own_studio.client.post("/api/twins/reject", json=decide | {"twin": "../x"})
    assert outside.status_code == 400


def test_run_is_possible_only_where_the_check_passes(studio, excitation):
    found = ask(studio, "/api/identify/check", dataset=excitation)
    assert found["ready"] and found["out"] == "twins/franka_pick_place-2"
    assert "action_delay_s" in next(iter(found["models"].values())) and ["joint1", "rad"] in found["channels"]
    chosen = ask(studio, "/api/identify/check", dataset=excitation, parameters=["*_friction_nm"])
    assert chosen["models"]["chosen"][0] == "joint1_friction_nm"
    unknown = ask(studio, "/api/identify/check", dataset=excitation, parameters=["no_such"])
    assert not unknown["ready"] and "no_such" in unknown["reasons"][0]
    simulated = ask(studio, "/api/identify/check", dataset="data/sim")
    assert not simulated["ready"] and "simulated" in " ".join(simulated["reasons"])
    assert ask(studio, "/api/identify/check", 404, dataset="data/none")["error"]["kind"] == "NoDataset"


def test_a_result_says_what_is_identifiable_and_shows_held_out_replays(studio):
    found = ask(studio, "/api/identify/result", twin=CALIBRATED)
    names = [one["name"] for one in found["estimates"]]
    assert len(found["correlation"]) == len(names) and found["gate"]["reason"]
    assert np.allclose(np.diag(found["correlation"])[np.diag(found["correlation"]) > 0], 1.0)
    (replay, *_) = ask(studio, "/api/identify/replays", twin=CALIBRATED)
    line = replay["channels"][0]
    assert len(line["real"]) == len(line["after"]) == len(line["low"]) == len(replay["time_s"]) <= 600
    assert replay["place"]["dataset"].endswith("data") and np.all(
        np.array(line["low"]) <= np.array(line["high"])
    )
    pair = ask(studio, "/api/identify/posterior", twin=CALIBRATED, x=names[0], y=names[-1])
    assert 100 < len(pair["points"]) <= 500


def test_bars_add_up_to_the_drop_and_name_the_runs_behind_them(studio, diagnosis):
    found = ask(studio, "/api/gap/diagnosis", path=diagnosis)
    lost = sum(bar["lost"]["value"] for bar in found["bars"] if bar["kind"] == "cost")
    assert lost + found["unknown"]["value"] == pytest.approx(found["drop"]["value"], abs=0.02)
    assert [one["dataset"] for one in found["episodes"]] == ["data/runs"] * 3 and found[
        "episodes_missing"
    ] == 0
    assert {bar["kind"] for bar in found["bars"]} <= {"cost", "equal", "not measured"}


def test_the_replay_behind_a_bar_comes_closer_with_what_was_measured(studio, diagnosis):
    bars = ask(studio, "/api/gap/diagnosis", path=diagnosis)["bars"]
    assert "action_delay_s" in next(bar for bar in bars if bar["dimension"] == "latency")["parameters"]
    found = ask(
        studio, "/api/gap/evidence", path=diagnosis, dimension="latency", dataset="data/runs", episode=0
    )
    (joint,) = [one for one in found["errors"] if one["name"] == "joint2"]
    assert joint["measured"] < joint["nominal"] and found["values"]["action_delay_s"] > 0.05
    assert len(found["recorded"]["time_s"]) == len(found["signals"][0]["measured"])
    assert ask(
        studio, "/api/gap/evidence", 404, path=diagnosis, dimension="luck", dataset="data/runs", episode=0
    )


def test_a_gap_lists_differences_by_dimension_and_what_is_missing(studio):
    path = ask(studio, "/api/gap/results")["gaps"][0]["path"]
    found = ask(studio, "/api/gap/gap", path=path)
    assert [one["dimension"] for one in found["dimensions"]][:3] == ["contact", "visual", "sensing"]
    assert any(one["headlines"] for one in found["dimensions"]) and found["success"]["overall"]["real"]
    assert any(one["needs"] for line in found["dimensions"] for one in line["not_evaluated"])
    assert found["episodes"] and found["episodes"][0]["dataset"] == "data/runs"
    assert ask(studio, "/api/gap/gap", 400, path="twinloop.yaml")["error"]["expected"]


def test_values_of_the_command_line_are_those_of_the_room(studio):
    place = Path(CALIBRATED)
    printed = twinloop_json(
        "twin", "draw", place, "--from", "posterior", "--number", "2", cwd=studio.workspace
    )["values"]
    assert printed == ask(studio, "/api/twins/scene", twin=CALIBRATED, source="posterior", number=2)["values"]
    said = twinloop_json("twin", "explain", place, cwd=studio.workspace)
    assert said.keys() == set(load_identification(studio.workspace / CALIBRATED).names)
    assert load_twin(studio.workspace / CALIBRATED).has(next(iter(said)))
