"""The commands of docs/how-to/lerobot-training.md, as they stand there: LeRobot's own trainer on data of ours, for a few steps."""

import json
import math
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from benchmarks.peers import lerobot
from twinloop.generation.run import generate

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs/how-to/lerobot-training.md"
COMMANDS = {
    re.search(r"--policy\.type=(\w+)", text).group(1): shlex.split(text.replace("\\\n", " "), comments=True)
    for text in re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
}
SMALLER = {
    "act": ["--policy.dim_model=32", "--policy.n_heads=2", "--policy.dim_feedforward=64"],
    "diffusion": ["--policy.down_dims=[32, 64]"],
}
"""Said again at the end of a command, where the last word counts."""


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    if reason := lerobot.install():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("lerobot")
    (folder / "cell.yaml").write_text(
        "twin: franka_pick_place\nrandomization: {environment: {object_offset_x_m: [-0.05, 0.05]}}\n"
    )
    generate(folder / "cell.yaml", out=folder / "sim", episodes=3, seed=3, workers=1)
    return folder


def test_the_page_shows_both_policies():
    assert set(COMMANDS) == {"act", "diffusion"}


@pytest.mark.parametrize("policy", sorted(COMMANDS))
def test_lerobot_trains_by_the_documented_command(workplace, policy):
    program, *words = COMMANDS[policy]
    assert program == "lerobot-train"
    few = ["--steps=3", "--batch_size=4", "--num_workers=0", "--log_freq=1", *SMALLER[policy]]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(workplace / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [str(lerobot.VENV / "bin" / program), *words, *few],
        cwd=workplace, env=environment, capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-2000:]
    losses = [float(number) for number in re.findall(r"loss:([-\w.]+)", said)]
    assert len(losses) == 3 and all(math.isfinite(loss) for loss in losses), losses
    last = workplace / "runs" / policy / "checkpoints/last"
    assert json.loads((last / "training_state/training_step.json").read_text())["step"] == 3
    config = json.loads((last / "pretrained_model/config.json").read_text())
    assert config["type"] == policy
    assert set(config["input_features"]) >= {"observation.state", "observation.environment_state"}
    assert not any(name.startswith("simulation.") for name in config["input_features"])
    assert config["output_features"]["action"]["shape"] == [8]
