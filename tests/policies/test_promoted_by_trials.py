"""Foreign policies that earn their promotion: from a fresh workspace to a champion, by commands, and no check is waived."""

import json
import os
import shlex
import sys
from pathlib import Path

import pytest
import yaml

from benchmarks.peers import lerobot
from tests.policies.servers import started
from tests.terminal import twinloop, twinloop_json

pytestmark = pytest.mark.slow

TWIN = "franka_reach"
SPAN_M = (-0.04, 0.04)
SCENES = {
    "twin": TWIN,
    "randomization": {"environment": {f"target_offset_{axis}_m": list(SPAN_M) for axis in "xyz"}},
}
REALITY = {
    "twin": TWIN,
    "seed": 11,
    "actuation": {"dry_friction_share": 0.005, "stiction_share": 0.003, "backlash_rad": 0.0005},
    "latency": {"action_delay_s": 0.012, "action_jitter_s": 0.002, "observation_delay_s": 0.008},
    "sensing": {"encoder_noise_rad": 0.0002, "encoder_bias_rad": 0.001, "pose_noise_m": 0.001},
    "environment": {"target_scatter_m": 0.04},
}
"""The built-in reality `mild`, for this twin and with targets that move."""
ROBOT = "standin:mild-reach.yaml"
JOINTS = [*(f"joint{number}.target" for number in range(1, 8)), "gripper.target"]


ACT = (
    "--dataset.repo_id=local/sim --dataset.root=data/sim --policy.type=act --policy.device=cpu --policy.push_to_hub=false "
    """--policy.input_features='{"observation.state": {"type": "STATE", "shape": [8]}, """
    """"observation.environment_state": {"type": "ENV", "shape": [3]}}' """
    "--policy.chunk_size=60 --policy.n_action_steps=60 --policy.dim_model=64 --policy.n_heads=4 "
    "--policy.dim_feedforward=256 --policy.n_encoder_layers=1 --policy.use_vae=false --policy.dropout=0 "
    "--policy.optimizer_lr=1e-3 --output_dir=policies/act --steps=3000 --batch_size=32 --num_workers=0 --eval_freq=0"
)
"""Its chunks are as long as the motion: with short ones it stops on the way, where every reading asks it to stay."""


@pytest.fixture
def cell(tmp_path):
    """A workspace with simulated demonstrations and a twin that replays the stand-in's recordings better than before."""
    folder = tmp_path / "cell"
    twinloop("init", "cell", "--twin", TWIN, cwd=folder.parent)
    (folder / "reach.yaml").write_text(yaml.safe_dump(SCENES))
    (folder / "mild-reach.yaml").write_text(yaml.safe_dump(REALITY))
    words = ("--episodes", 200, "--expert-noise", 0.5, "--seed", 5, "--workers", 1, "--out", "data/sim")
    twinloop("generate", "reach.yaml", *words, cwd=folder)
    excite = ("--excite", "multisine", "--episodes", 4, "--seconds", 4, "--out", "data/excited")
    twinloop("record", "--robot", ROBOT, *excite, cwd=folder)
    twinloop("identify", "--real", "data/excited", "--seconds", 8, cwd=folder)
    return folder


def earn(
    folder: Path, address: str, name: str, signals: tuple[str, ...], threshold: float, **more: object
) -> None:
    """Evaluate, diagnose, gate and promote the policy at an address."""
    inputs = {f"observation.{signal}": {"from": f"observation.{signal}"} for signal in signals}
    described = {"policy": address, "twin": "franka_reach-2", "inputs": inputs}
    described |= {"actions": [{"elements": JOINTS}], "n_action_steps": 10, **more}
    file = f"{name}.yaml"
    (folder / file).write_text(
        yaml.safe_dump(described, default_flow_style=None, sort_keys=False, width=1000)
    )
    assert len((folder / file).read_text().splitlines()) <= 10
    assert twinloop_json("policy", "check", file, "--dataset", "data/sim", cwd=folder)["found"] is None
    (found,) = twinloop_json("evaluate", file, "--episodes", 40, "--config", "reach.yaml", cwd=folder)[
        "evaluations"
    ]
    assert found["successes"] >= 40 * threshold and not found["void"], found["failures"]
    tried = f"data/{name}-tried"
    twinloop("evaluate", file, "--robot", ROBOT, "--episodes", 8, "--out", tried, cwd=folder)
    small = ("--scenes", 8, "--budget", 60, "--excitation", "data/excited", "--out", f"{name}-why")
    diagnosis = twinloop_json("diagnose", "--policy", file, "--real", tried, *small, cwd=folder)
    assert diagnosis["policy"] == found["policy"]
    words = ("--robot", ROBOT, "--config", "reach.yaml", "--scenes", 160, "--max-trials", 40)
    gate = (*words, "--threshold", threshold, "--out", f"{name}-gate")
    verdict = twinloop_json("gate", file, *gate, cwd=folder)
    assert verdict["decision"] == "promote", verdict["sentence"]
    assert not any(check["accepted"] for check in verdict["checks"])
    twinloop("promote", file, "--verdict", f"{name}-gate/verdict.json", "--by", "ann", cwd=folder)
    entries = json.loads(twinloop("registry", "ls", "--json", cwd=folder))["versions"]
    assert entries[-1]["policy_id"] == found["policy_id"] and "champion" in entries[-1]["aliases"]
    assert entries[-1]["decision"] == "promote"
    (again,) = twinloop_json("evaluate", "champion", "--config", "reach.yaml", "--episodes", 2, cwd=folder)[
        "evaluations"
    ]
    assert again["policy_id"] == found["policy_id"]


def test_a_policy_behind_openpis_protocol_is_promoted_by_its_own_trials(cell):
    words = ("--sim", "data/sim", "--recipe", "sim-only", "--steps", 500, "--tracking", "off")
    twinloop("train", *words, "--out", "policies/own", cwd=cell)
    command = [sys.executable, "-m", "twinloop", "serve", "policies/own", "--port", "0", "--json"]
    with started(command, cwd=cell) as said:
        observed = ("state", "velocity", "environment_state")
        earn(cell, said["policy"], "behind-openpi", observed, 0.7, history=[-5, 0])


def test_a_checkpoint_that_lerobot_trained_on_our_dataset_is_promoted_by_its_own_trials(cell):
    if reason := lerobot.install():
        pytest.skip(reason)
    lerobot.train(cell, *shlex.split(ACT))
    twinloop("policy", "lerobot-server", "--out", "lerobot_server.py", cwd=cell)
    checkpoint = "policies/act/checkpoints/last/pretrained_model"
    words = ("lerobot_server.py", checkpoint, "--port", "0", "--dataset", "data/sim", "--device", "cpu")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with started([lerobot.VENV / "bin/python", *words], cwd=cell, env=environment) as said:
        earn(cell, said["policy"], "lerobot-act", ("state", "environment_state"), 0.7, n_action_steps=60)
