"""`twinloop identify` as a user types it: a workspace whose logs come from a cell with other values than its twin."""

import json
from pathlib import Path

import pytest

from tests.terminal import twinloop, twinloop_json
from twinloop.datasets.writer import make_dataset
from twinloop.identification.replays import load_replays
from twinloop.twins import load_twin

from .worlds import record

TRUTH = {"motor_damping_nms_rad": 0.02, "action_delay_s": 0.031}


def write_logs(folder, truth, count=4, first=0):
    twin = load_twin("servo_pendulum")
    episodes = [record(twin, truth, first + seed, seconds=2.0) for seed in range(count)]
    with make_dataset(folder, episodes[0].schema) as writer:
        for episode in episodes:
            writer.add(episode)


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    root = tmp_path_factory.mktemp("identify")
    twinloop("init", "bench", "--twin", "servo_pendulum", cwd=root)
    write_logs(root / "bench/data/logs", TRUTH)
    write_logs(root / "bench/data/same", {"motor_damping_nms_rad": 0.00366}, first=20)
    return root / "bench"


def test_a_calibrated_twin_becomes_current_and_can_be_rolled_back(bench):
    text = twinloop(
        "identify", "--real", "data/logs", "--parameters", "motor_damping*,action_delay_s", cwd=bench,
    )  # fmt: skip
    assert "accepted" in text and "identifiable" in text
    assert (bench / "twins/servo_pendulum-2/report.html").stat().st_size > 20_000
    history = json.loads(twinloop("twin", "versions", "--json", cwd=bench))["history"]
    assert [use["twin"] for use in history] == ["twins/servo_pendulum", "twins/servo_pendulum-2"]
    changed = json.loads(
        twinloop("twin", "compare", "twins/servo_pendulum", "twins/servo_pendulum-2", "--json", cwd=bench)
    )
    assert {row["name"] for row in changed} == set(TRUTH)
    anchored = (
        "anchor",
        "--identification",
        "twins/servo_pendulum-2",
        "--out",
        "anchored.yaml",
        "--pilot",
        "8",
    )
    assert "twinloop generate anchored.yaml" in twinloop(*anchored, cwd=bench)
    printed = twinloop("generate", "anchored.yaml", "--explain", cwd=bench)
    assert "correlated" in printed and "motor_armature_kgm2" in printed, (
        "what was not asked about varies as usual"
    )
    twinloop("twin", "rollback", "--reason", "test", cwd=bench)
    history = json.loads(twinloop("twin", "versions", "--json", cwd=bench))["history"]
    assert history[-1]["twin"] == "twins/servo_pendulum" and "rolled back" in history[-1]["reason"]


def test_a_candidate_waits_until_a_person_accepts_or_rejects_it(bench):
    fit = ("identify", "--real", "data/logs", "--parameters", "motor_damping*,action_delay_s", "--candidate")
    folder = twinloop_json(*fit, cwd=bench)["out"]
    place = str(Path(folder).relative_to(bench)) if Path(folder).is_absolute() else folder
    shown = twinloop_json("twin", "versions", cwd=bench)
    assert {one["twin"]: one["state"] for one in shown["versions"]}[place] == "candidate"
    assert shown["history"][-1]["twin"] != place, "nothing became current"
    signed = ("--by", "ann", "--reason", "replays better")
    assert "current" in twinloop("twin", "accept", place, *signed, cwd=bench)
    assert "current twin already" in twinloop("twin", "accept", place, *signed, cwd=bench, code=1)
    history = twinloop_json("twin", "versions", cwd=bench)["history"]
    assert (history[-1]["twin"], history[-1]["by"], history[-1]["reason"]) == (place, "ann", "replays better")
    assert "rejected" in twinloop("twin", "reject", place, "--by", "bo", "--reason", "slips", cwd=bench)
    shown = twinloop_json("twin", "versions", cwd=bench)
    assert shown["history"][-1]["twin"] == history[-2]["twin"], "the twin before is current again"
    (one,) = [one for one in shown["versions"] if one["twin"] == place]
    assert (one["state"], one["by"], one["reason"]) == ("rejected", "bo", "slips")
    replays = load_replays(bench / place)
    assert replays and replays[0].real.shape == replays[0].half_width.shape


def test_a_decision_needs_a_name_a_reason_and_a_candidate(bench, tmp_path):
    assert "a name and a reason" in twinloop(
        "twin", "accept", "twins/servo_pendulum-2", "--by", " ", "--reason", "x", cwd=bench, code=2
    )
    signed = ("--by", "ann", "--reason", "x")
    assert "holds no identification" in twinloop(
        "twin", "reject", "twins/servo_pendulum", *signed, cwd=bench, code=2
    )
    assert "outside the workspace" in twinloop("twin", "accept", tmp_path, *signed, cwd=bench, code=2)


def test_a_twin_that_replays_no_better_is_rejected_and_kept(bench):
    text = twinloop(
        "identify", "--real", "data/same", "--parameters", "motor_damping_nms_rad", "--json", "--out",
        "twins/again", cwd=bench, code=1,
    )  # fmt: skip
    printed = json.loads(text)
    assert not printed["accepted"] and printed["out"] == "twins/again-rejected"
    assert (bench / "twins/again-rejected/report.html").exists()
    anchored = ("anchor", "--identification", "twins/again-rejected", "--pilot", "0", "--out", "none.yaml")
    assert "parameters vary" in twinloop(*anchored, cwd=bench), "around the nominal twin"
    assert "twin: servo_pendulum\n" in (bench / "none.yaml").read_text()
    assert "again-rejected" in twinloop("twin", "versions", cwd=bench)
    accept = ("twin", "accept", "twins/again-rejected", "--by", "ann", "--reason", "sure")
    assert "held-out replay rejected" in twinloop(*accept, cwd=bench, code=1)
    assert "current: twins/again-rejected" in twinloop(*accept, "--override", cwd=bench)
    twinloop("twin", "rollback", "--by", "ann", "--reason", "not so sure", cwd=bench)


def test_wrong_use_says_what_is_wrong(bench, tmp_path):
    def refused(*words, cwd=bench, code=2):
        return twinloop("identify", *words, cwd=cwd, code=code)

    assert "motor_friction_nm" in refused("--real", "data/logs", "--parameters", "motor_fricton_nm")
    assert "LOW:HIGH" in refused("--real", "data/logs", "--prior", "action_delay_s=0.1")
    assert "NAME=" in refused("--real", "data/logs", "--given", "oops")
    assert "no twin is named" in refused("--real", bench / "data/logs", cwd=tmp_path)
    assert "exists already" in refused("--real", "data/logs", "--out", "data")
    both = ("--parameters", "action_delay_s", "--model", "a=action_delay_s", "--out", "x")
    assert "exclude" in refused("--real", "data/logs", *both)
    assert "data/nothing" in refused("--real", "data/nothing", code=2)
