"""The commands around policies, as a user types them."""

import inspect
import json
from pathlib import Path

import pytest

from tests.learning.examples import point
from twinloop.cli.train import train
from twinloop.datasets.reader import open_dataset
from twinloop.learning.config import TrainConfig
from twinloop.policies.networks.policy import load_policy
from twinloop.robots.protocol import ROBOTS

SMALL = (
    "--steps",
    8,
    "--set",
    "width=16",
    "--set",
    "depth=1",
    "--set",
    "validate_every=4",
    "--set",
    "batch=16",
)


def test_train_evaluate_show_and_export(twinloop, panda_data, short_trials, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("--sim", panda_data.root, "--out", "p", "--tracking", "off", "--json")
    code, out, _ = twinloop("train", *SMALL, *words)
    assert code == 0 and json.loads(out)["curve"][-1]["step"] == 8
    code, out, _ = twinloop("policy", "show", "p")
    assert code == 0 and "observation.state (8)" in out and "franka_pick_place" in out
    code, out, _ = twinloop("evaluate", "p", "--episodes", 1, "--out", "runs", "--videos", "films", "--json")
    found = json.loads(out)["evaluations"][0]
    assert code == 0 and found["episodes"] == 1 and len(found["interval_95"]) == 2
    assert open_dataset(tmp_path / "runs").episode(0).provenance.actor == "policy"
    films = [Path(path).name for path in json.loads(out)["videos"]]
    assert films == [path.name for path in (tmp_path / "films").iterdir()] and films[0].startswith("p-0-")
    code, out, _ = twinloop("policy", "export", "p", "--out", "p.onnx", "--json")
    assert code == 0 and (tmp_path / "p.onnx").stat().st_size == json.loads(out)["bytes"]
    code, _, err = twinloop("policy", "export", "p", "--out", "films")
    assert code == 2 and "--out films/policy.onnx" in err
    code, _, err = twinloop("train", *SMALL, "--sim", panda_data.root, "--out", "p", "--tracking", "off")
    assert code == 1 and "holds a policy already" in err


def test_data_that_seems_to_be_on_the_wrong_side_is_pointed_out(twinloop, panda_data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    point(tmp_path / "recorded", episodes=8)
    for side, data, words in (
        ("real", panda_data.root, "is simulated throughout; it counts as real"),
        ("sim", "recorded", "was recorded on a robot; it counts as simulated"),
    ):
        recipe = (
            "--recipe",
            f"{side}-only",
            f"--{side}",
            data,
            "--tracking",
            "off",
            "--out",
            f"{side}-policy",
        )
        code, out, err = twinloop("train", *SMALL, *recipe)
        assert code == 0 and f"--{side} {data} {words}" in err and words not in out
    code, _, err = twinloop(
        "train", *SMALL, "--recipe", "real-only", "--real", "recorded", "--out", "q", "--tracking", "off"
    )
    assert code == 0 and not err


def test_wrong_words_are_answered_with_the_right_ones(twinloop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words, answer in (
        (("train", "--set", "widht=3", "--out", "p"), "did you mean 'width'"),
        (("train", "--set", "width=wide", "--out", "p"), "width cannot be this"),
        (("train", "--recipe", "co-train", "--out", "p", "--tracking", "off"), "needs sim data"),
        (("train",), "this is not a workspace"),
        (("train", "--mix", "auto", "--out", "p"), "only co-training has a mix"),
        (
            ("train", "--mix", "auto", "--recipe", "co-train", "--out", "p"),
            "--sim DATASET and --real DATASET",
        ),
        (("train", "--mix", "most", "--out", "p"), "or auto"),
        (("train", "--adapt", "ot", "--out", "p"), "name cameras"),
        (("train", "--cameras", "front", "--restyle", "fourrier", "--out", "p"), "did you mean 'fourier'"),
        (("train", "--seed", "-1", "--out", "p"), "a whole number from 0"),
        (("train", "--minutes", "0", "--out", "p"), "minutes above 0"),
        (("train", "--set", "learning_rate=.nan", "--out", "p"), "a positive number"),
        (("train", "--threads", "0", "--out", "p", "--tracking", "off"), "needs a thread"),
        (("train", "--twin", "so101", "--out", "p"), "only --mix auto"),
        (
            ("evaluate", "nothing", "--robot", "standin:mild", "--config", "a.yaml"),
            "varies a twin, not a robot",
        ),
        (("evaluate", "nothing"), "is no policy"),
        (("evaluate", "nothing", "--twin", "a", "--robot", "b"), "--twin and --robot exclude each other"),
    ):
        code, _, err = twinloop(*words)
        assert code == 2 and answer in err


def test_the_mix_is_found_as_typed(twinloop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    point(tmp_path / "sim", episodes=10)
    point(tmp_path / "real", episodes=6, first=40)
    words = ("--sim", "sim", "--real", "real", "--recipe", "co-train", "--mix", "auto", "--tracking", "off")
    code, out, err = twinloop("train", *SMALL, *words, "--out", "[/p]")
    assert code == 0 and "chose" in out and "wrote [/p]: co-train" in out, err
    assert (
        load_policy(tmp_path / "[/p]").training_record.recipe == "co-train"
        and (tmp_path / "[/p]/mix.json").exists()
    )


def test_training_that_fails_at_once_does_not_stand_in_the_way_of_the_next(twinloop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    point(tmp_path / "sim", episodes=8)
    words = ("--sim", "sim", "--tracking", "off", "--out", "p")
    code, _, err = twinloop("train", *SMALL, *words, "--set", "learning_rate=1.0e+30")
    assert code == 1 and "diverged" in err and not (tmp_path / "p").exists()
    code, _, err = twinloop("train", *SMALL, *words)
    assert code == 0, err


def test_policies_of_one_name_are_told_apart(twinloop, tiny_policy, short_trials, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny_policy.save(tmp_path / "a/p")
    late = tiny_policy.for_latency(0.02)
    late.save(tmp_path / "b/p")
    code, out, err = twinloop("evaluate", "a/p", "b/p", "--episodes", 1, "--out", "runs", "--json")
    found = json.loads(out)["evaluations"]
    assert code == 0 and [one["policy_id"] for one in found] == [tiny_policy.id, late.id], err
    names = {one["policy"] for one in found}
    assert len(names) == 2 and {path.name for path in (tmp_path / "runs").iterdir()} == names
    code, out, _ = twinloop("policy", "show", "b/p")
    assert code == 0 and "for 20 ms of delay" in out and "validation error" in out


def test_a_pace_is_found_in_a_twin(twinloop, tiny_policy, short_trials, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny_policy.save(tmp_path / "p")
    code, out, _ = twinloop("policy", "horizon", "p", "--out", "other-horizon", "--episodes", 1)
    assert code == 0 and "3 of 6 actions: 0 of 1  <- kept" in out, "nothing was better than its own"
    assert load_policy(tmp_path / "other-horizon").id == tiny_policy.id
    code, _, err = twinloop("policy", "horizon", "p", "--out", "other-horizon")
    assert code == 2 and "other-horizon exists already" in err
    code, _, err = twinloop("policy", "horizon", "p", "--out", "p/policy.json/below")
    assert code == 1 and "cannot be written (Not a directory)" in err
    code, out, _ = twinloop("policy", "horizon", "p", "--out", "other", "--episodes", 5, "--json")
    assert code == 0 and [horizon["n_action_steps"] for horizon in json.loads(out)["horizons"]] == [
        3,
        5,
        2,
        4,
    ]


@pytest.mark.parametrize("look", [(), pytest.param(("wrist",), marks=pytest.mark.slow)])
def test_a_policy_is_recorded_on_a_robot(twinloop, tmp_path, monkeypatch, look):
    pytest.importorskip("pybullet")
    monkeypatch.chdir(tmp_path)
    assert "standin" in ROBOTS.names()
    robot = ("--robot", "standin:ideal", "--episodes", 5, "--seconds", 0.2)
    filmed = [word for name in look for word in ("--camera", name)]
    code, _, err = twinloop("record", *robot, *filmed, "--operator", "person-1", "--out", "demonstrations")
    assert code == 0, err
    numbers = [str(k) for k in range(5)]
    code, _, err = twinloop("data", "label", "demonstrations", *numbers, "--success", "--by", "tester")
    assert code == 0, err
    words = ("--recipe", "real-only", "--real", "demonstrations", "--out", "p", "--tracking", "off")
    code, _, err = twinloop("train", *SMALL, *words, *(("--cameras", ",".join(look)) if look else ()))
    assert code == 0, err
    code, out, _ = twinloop("policy", "show", "p")
    assert code == 0 and ("wrist (128 x 128)" in out) == bool(look)
    code, out, err = twinloop(
        "record", "--robot", "standin:ideal", "--policy", "p", "--episodes", 1, "--seconds", 0.4, "--out", "runs", "--json"
    )  # fmt: skip
    assert code == 0 and json.loads(out)["episodes"] == 1, err
    origin = open_dataset(tmp_path / "runs").episode(0).provenance
    assert origin.actor == "policy" and origin.actor_id.startswith("p@") and origin.source == "standin"


def test_the_usual_share_of_simulation_is_the_same_on_the_command_line_and_in_python():
    assert inspect.signature(train).parameters["mix"].default == f"{TrainConfig.mix:g}"
