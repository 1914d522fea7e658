"""LeRobot's own commands, unmodified, with a stand-in or a twin in the place of a robot: demonstrate, replay, train, try the policy."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pybullet", reason="needs Bullet: pip install 'twinloop[bullet]'")

from benchmarks.peers import lerobot
from twinloop.datasets.reader import open_dataset
from twinloop.twins import load_twin

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TWIN = "so101_pick_place"
EPISODE_S, RESET_S = 20, 2
"""The operator needs 6 s of the stand-in's time, which is slower than the clock on a busy machine."""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """The folder into which pip installed the plug-in, from its source."""
    if reason := lerobot.install():
        pytest.skip(reason)
    source, target = (
        tmp_path_factory.mktemp("source") / "lerobot_robot_twinloop",
        tmp_path_factory.mktemp("installed"),
    )
    shutil.copytree(ROOT / "lerobot_robot_twinloop", source, ignore=shutil.ignore_patterns("__pycache__"))
    pip = [
        lerobot.VENV / "bin/python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
    ]
    subprocess.run([*pip, "--target", target, source], check=True, capture_output=True, timeout=300)
    return target


@contextmanager
def serving(twin=TWIN):
    """The address of a stand-in in a process of its own; time passes there with each command."""
    words = ["standin", "--reality", "ideal", "--twin", twin, "--port", "0", "--lockstep", "--json"]
    process = subprocess.Popen(
        [Path(sys.executable).with_name("twinloop"), *words], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        said = ""
        while "}" not in said:
            line = process.stdout.readline()
            assert line, "the stand-in did not start"
            said += line
        yield json.loads(said)["robot"]
    finally:
        process.terminate()
        process.communicate(timeout=60)


def run(plugin, folder, program, *words, also=()):
    """Run a command of LeRobot with the plug-in installed."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, (plugin, *also))),
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "home"),
        "HF_DATASETS_CACHE": str(folder / "cache"),
        "OMP_NUM_THREADS": "1",
        "MUJOCO_GL": "egl",
    }
    done = subprocess.run(
        [str(lerobot.VENV / "bin" / program), *words],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout + done.stderr


def robot_words(address, folder, name):
    return ["--robot.type=twinloop", f"--robot.address={address}", f"--robot.outcomes={folder / name}.jsonl"]


def dataset_words(folder, name, episodes=2, episode_s=EPISODE_S, reset_s=RESET_S):
    return [
        f"--dataset.repo_id=local/{name}", f"--dataset.root={folder / name}", "--dataset.fps=50",
        f"--dataset.num_episodes={episodes}", f"--dataset.episode_time_s={episode_s}",
        f"--dataset.reset_time_s={reset_s}", "--dataset.single_task=Put the cube on the disc",
        "--dataset.push_to_hub=false", "--dataset.vcodec=h264", "--play_sounds=false",
    ]  # fmt: skip


def outcomes(folder, name):
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def demonstrated(plugin, tmp_path_factory):
    """A folder with two demonstrations that `lerobot-record` made with the stand-in's own operator."""
    folder = tmp_path_factory.mktemp("rehearsal")
    with serving() as address:
        run(
            plugin, folder, "lerobot-record", *robot_words(address, folder, "demos"), "--robot.views=[front]",
            f"--robot.episode_time_s={EPISODE_S}", f"--robot.reset_time_s={RESET_S}",
            "--teleop.type=twinloop", f"--teleop.address={address}", *dataset_words(folder, "demos"),
        )  # fmt: skip
    return folder


def test_lerobot_record_makes_demonstrations_on_a_stand_in(demonstrated):
    data, twin = open_dataset(demonstrated / "demos"), load_twin(TWIN)
    assert len(data) == 2 and {one.name for one in data.schema.cameras} == {"front"}
    first, second = data.episode(0), data.episode(1)
    names = next(signal for signal in data.schema.signals if signal.name == "observation.state").elements
    assert names[0] == "shoulder_pan.pos" and names[-1] == "gripper.pos" and len(names) == 6
    for episode in (first, second):
        state, action = episode["observation.state"], episode["action"]
        assert 5.0 < np.ptp(state[:, :5], axis=0).max() < 200.0, "degrees"
        assert state[:, 5].min() >= -1.0 and state[:, 5].max() <= 101.0, "per cent"
        assert np.abs(state[3:, :5] - action[:-3, :5]).mean() < 5.0, "the arm follows its commands"
        assert np.asarray(episode.frames["front"][0]).shape == (128, 128, 3)
    assert np.abs(first["observation.state"][0] - second["observation.state"][0]).max() < 3.0, (
        "both begin at home"
    )
    assert [one["scene"] for one in outcomes(demonstrated, "demos")] == [0, 1]
    assert outcomes(demonstrated, "demos")[0]["success"] is True and twin.control_hz == 50


def test_lerobot_replay_succeeds_again_in_the_same_scene(plugin, demonstrated):
    with serving() as address:
        run(
            plugin, demonstrated, "lerobot-replay", *robot_words(address, demonstrated, "replay"), "--robot.views=[]",
            "--dataset.repo_id=local/demos", f"--dataset.root={demonstrated / 'demos'}", "--dataset.episode=0",
            "--dataset.fps=50", "--play_sounds=false",
        )  # fmt: skip
    assert outcomes(demonstrated, "replay") == [{"scene": 0, "success": True, "failure": None}]


def test_a_policy_that_lerobot_trained_is_rehearsed_on_the_stand_in(plugin, demonstrated):
    run(
        plugin, demonstrated, "lerobot-train", "--dataset.repo_id=local/demos",
        f"--dataset.root={demonstrated / 'demos'}", "--dataset.video_backend=pyav", "--policy.type=act",
        "--policy.push_to_hub=false", "--policy.device=cpu", "--policy.dim_model=32", "--policy.n_heads=2",
        "--policy.dim_feedforward=64", "--policy.chunk_size=20", "--policy.n_action_steps=20",
        "--policy.pretrained_backbone_weights=null", "--steps=2", "--batch_size=2", "--num_workers=0",
        "--output_dir=out", "--eval_freq=0",
    )  # fmt: skip
    policy = f"--policy.path={demonstrated / 'out/checkpoints/last/pretrained_model'}"
    with serving() as address:
        run(
            plugin, demonstrated, "lerobot-record", *robot_words(address, demonstrated, "eval_act"),
            "--robot.views=[front]", policy, "--teleop.type=twinloop", f"--teleop.address={address}",
            *dataset_words(demonstrated, "eval_act", 2, 1.0, 0.5),
        )  # fmt: skip
    tried = outcomes(demonstrated, "eval_act")
    assert [one["scene"] for one in tried] == [0, 1] and not any(one["success"] for one in tried)
    data = open_dataset(demonstrated / "eval_act")
    starts = [data.episode(number)["observation.state"][0] for number in (0, 1)]
    assert len(data) == 2 and np.abs(starts[0] - starts[1]).max() < 3.0, "the second one began anew"


def test_a_demonstration_is_replayed_on_the_twin_where_twinloop_is_installed(plugin, demonstrated):
    run(
        plugin, demonstrated, "lerobot-replay", *robot_words(f"gym:twinloop/{TWIN}-v0", demonstrated, "twin"),
        "--robot.views=[]", "--dataset.repo_id=local/demos", f"--dataset.root={demonstrated / 'demos'}",
        "--dataset.episode=0", "--dataset.fps=50", "--play_sounds=false", also=(ROOT,),
    )  # fmt: skip
    (only,) = outcomes(demonstrated, "twin")
    assert only["scene"] == 0 and only["success"] in (True, False)


def test_what_is_wrong_with_an_address_or_a_name_is_said(plugin, demonstrated):
    def complaint(*words):
        with pytest.raises(AssertionError) as caught:
            run(plugin, demonstrated, "lerobot-replay", "--robot.type=twinloop", *words, *replayed)
        return str(caught.value)

    replayed = [
        "--dataset.repo_id=local/demos",
        f"--dataset.root={demonstrated / 'demos'}",
        "--dataset.episode=0",
    ]
    assert "no robot answers at tcp:127.0.0.1:9" in complaint("--robot.address=tcp:127.0.0.1:9")
    with serving() as address:
        assert "the robot has no camera 'nose'; there are front, wrist" in complaint(
            f"--robot.address={address}", "--robot.views=[nose]"
        )
