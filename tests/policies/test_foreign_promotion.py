"""A policy behind somebody else's address earns its promotion by trials: its fingerprint is what the registry then names."""

import pytest
import yaml

from benchmarks.bench_remote import make_map, served
from benchmarks.cells import NOMINAL, TWIN
from tests.terminal import twinloop
from twinloop.generation.run import generate
from twinloop.learning.config import TrainConfig
from twinloop.learning.train import train
from twinloop.policies.networks.policy import load_policy
from twinloop.promotion.evidence import load_evidence
from twinloop.promotion.registry import PolicyRegistry
from twinloop.promotion.verdict import load_verdict

pytestmark = pytest.mark.slow


def test_a_foreign_policy_is_promoted_by_its_trials_on_a_stand_in(tmp_path, monkeypatch):
    monkeypatch.setenv("TWINLOOP_CONFIG", str(tmp_path / "user"))
    cell = tmp_path / "cell"
    twinloop("init", "cell", "--twin", TWIN, cwd=tmp_path)
    (cell / "nominal.yaml").write_text(yaml.safe_dump({"twin": TWIN, "randomization": NOMINAL}))
    generate(cell / "nominal.yaml", out=tmp_path / "sim", episodes=250, seed=1, expert_noise=0.5, workers=1)
    theirs = train(
        tmp_path / "sim", out=tmp_path / "theirs", config=TrainConfig(recipe="sim-only", steps=1000)
    )
    with served(tmp_path / "theirs") as (address, _):
        content = make_map(load_policy(tmp_path / "theirs"), address).model_dump(
            mode="json", by_alias=True, exclude_defaults=True
        )
        (cell / "theirs.yaml").write_text(yaml.safe_dump(content))
        words = "--threshold 0.6 --robot standin:ideal --scenes 40 --max-trials 40 --out gate"
        waived = ("--accept", "replay", "--by", "ann", "--reason", "the stand-in is this twin's own robot")
        said = twinloop("gate", "theirs.yaml", *words.split(), *waived, cwd=cell)
        twinloop("promote", "theirs.yaml", "--verdict", "gate/verdict.json", "--by", "ann", cwd=cell)
        listed = twinloop("registry", "ls", cwd=cell)
    verdict = load_verdict(cell / "gate")
    registry = PolicyRegistry(cell)
    (version,) = registry.versions()
    assert verdict.decision == "promote", said
    assert verdict.standin and len(load_evidence(cell / "gate/evidence.json").real) >= 5
    assert "champion" in version.aliases and version.policy_id == verdict.candidate.id != theirs.id
    assert "champion" in listed and registry.verify().head.number == 2
