"""From a LeRobot checkpoint to a diagnosis and the registry: the blocks of docs/tutorials/your-policy.md, as they stand there, at a smaller size."""

import os
import shlex
from pathlib import Path

import pytest

from benchmarks.peers import lerobot
from tests.policies.servers import started
from tests.terminal import twinloop
from tests.test_docs import BLOCK
from twinloop.generation.run import generate

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs/tutorials/your-policy.md"
SECTION = PAGE.read_text().partition("## From a LeRobot checkpoint to a diagnosis")[2].partition("\n## ")[0]
BLOCKS = {language: [] for language in ("sh", "yaml")}
for found, _, text in BLOCK.findall(SECTION):
    BLOCKS[found].append(text)
FEW = [
    "--steps=5", "--batch_size=4", "--num_workers=0", "--policy.dim_model=32", "--policy.n_heads=2",
    "--policy.dim_feedforward=64",
]  # fmt: skip
SMALLER = {
    "--episodes 100": "--episodes 2",
    "--episodes 20": "--episodes 2",
    "--out act-why": "--out act-why --scenes 8 --budget 60",
    "--out act-gate": "--out act-gate --max-trials 2 --scenes 8",
}
UNTRAINED = {"gate": 1, "promote": 1}
"""Exit codes of a policy that has learned next to nothing."""


def test_a_lerobot_checkpoint_is_evaluated_diagnosed_gated_and_promoted_by_the_page(tmp_path):
    if reason := lerobot.install():
        pytest.skip(reason)
    (tmp_path / "cell.yaml").write_text("twin: franka_pick_place\n")
    generate(tmp_path / "cell.yaml", out=tmp_path / "sim", episodes=2, seed=3, workers=1)
    trained, served, used = (block.replace("\\\n", " ") for block in BLOCKS["sh"])
    program, *words = shlex.split(trained)
    assert program == "lerobot-train"
    lerobot.train(tmp_path, *words, *FEW)
    write, serve = (shlex.split(line) for line in served.strip().splitlines())
    twinloop(*write[1:], cwd=tmp_path)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [lerobot.VENV / "bin/python", *serve[1:], "--device", "cpu"]
    command[command.index("8000")] = "0"
    (map_,) = BLOCKS["yaml"]
    assert len(map_.splitlines()) <= 10
    for size, smaller in SMALLER.items():
        assert size in used
        used = used.replace(size, smaller)
    with started(command, cwd=tmp_path, env=environment) as said:
        (tmp_path / "act.yaml").write_text(map_.replace("openpi:ws://127.0.0.1:8000", said["policy"]))
        for line in used.strip().splitlines():
            _, *words = shlex.split(line)
            said_so = twinloop(*words, cwd=tmp_path, code=UNTRAINED.get(words[0], 0))
        assert "does not promote" in said_so or "verdict" in said_so, said_so
        twinloop("promote", "act.yaml", "--by", "ann", "--override", "a test of the path", cwd=tmp_path)
        assert "openpi" in twinloop("registry", "ls", cwd=tmp_path)
    assert (tmp_path / "act-why/diagnosis.json").is_file() and (tmp_path / "act-gate/verdict.json").is_file()
