"""The commands around policies, as a user types them."""

import json
from pathlib import Path

import pytest

from tests.cli.test_generate_commands import twinloop  # noqa: F401
from tests.learn.conftest import panda_data, point, tiny_policy  # noqa: F401
from twinloop.dataset.reader import open_dataset
from twinloop.learn.policy import load_policy
from twinloop.robot.protocol import ROBOTS

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


def test_train_evaluate_show_and_export(twinloop, panda_data, tmp_path, monkeypatch):  # noqa: F811
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
    code, _, err = twinloop("train", *SMALL, "--sim", panda_data.root, "--out", "p", "--tracking", "off")
    assert code == 1 and "holds a policy already" in err


def test_wrong_words_are_answered_with_the_right_ones(twinloop, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    for words, answer in (
        (("train", "--set", "widht=3", "--out", "p"), "did you mean 'width'"),
        (("train", "--set", "width=wide", "--out", "p"), "width cannot be this"),
        (("train", "--recipe", "co-train", "--out", "p", "--tracking", "off"), "needs sim data"),
        (("train",), "this is no workspace"),
        (("train", "--mix", "auto", "--out", "p"), "only co-training has a mix"),
        (
            ("train", "--mix", "auto", "--recipe", "co-train", "--out", "p"),
            "--sim DATASET and --real DATASET",
        ),
        (("train", "--mix", "most", "--out", "p"), "or auto"),
        (("train", "--adapt", "ot", "--out", "p"), "name cameras"),
        (("train", "--cameras", "front", "--restyle", "fourrier", "--out", "p"), "did you mean 'fourier'"),
        (("evaluate", "nothing"), "is no policy"),
        (("evaluate", "nothing", "--twin", "a", "--robot", "b"), "--twin or --robot"),
    ):
        code, _, err = twinloop(*words)
        assert code == 2 and answer in err


def test_a_pace_is_found_in_a_twin(twinloop, tiny_policy, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    tiny_policy.save(tmp_path / "p")
    code, out, _ = twinloop("policy", "pace", "p", "--out", "paced", "--episodes", 1)
    assert code == 0 and "3 of 6 actions: 0 of 1  <- kept" in out, "nothing was better than its own"
    assert load_policy(tmp_path / "paced").id == tiny_policy.id
    code, _, err = twinloop("policy", "pace", "p", "--out", "paced")
    assert code == 2 and "paced exists already" in err
    code, out, _ = twinloop("policy", "pace", "p", "--out", "other", "--episodes", 5, "--json")
    assert code == 0 and [pace["execute"] for pace in json.loads(out)["paces"]] == [3, 5, 2, 4]


@pytest.mark.parametrize("look", [(), ("wrist",)])
def test_a_policy_is_recorded_on_a_robot(twinloop, tmp_path, monkeypatch, look):  # noqa: F811
    pytest.importorskip("pybullet")
    monkeypatch.chdir(tmp_path)
    assert "standin" in ROBOTS.names()
    robot = ("--robot", "standin:ideal", "--episodes", 5, "--seconds", 0.4)
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
    assert code == 0 and ("through wrist (128 x 128)" in out) == bool(look)
    code, out, err = twinloop(
        "record", "--robot", "standin:ideal", "--policy", "p", "--episodes", 1, "--seconds", 0.4, "--out", "runs", "--json"
    )  # fmt: skip
    assert code == 0 and json.loads(out)["episodes"] == 1, err
    origin = open_dataset(tmp_path / "runs").episode(0).provenance
    assert origin.actor == "policy" and origin.actor_id.startswith("p@") and origin.source == "standin"
