"""A workspace with everything that the studio shows, made by the library's verbs and commands on a stand-in."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

from twinloop import loop
from twinloop.coverage.result import Coverage
from twinloop.diagnosis.result import Diagnosis
from twinloop.evaluation.result import Evaluation
from twinloop.gap.result import Gap
from twinloop.identification.result import Identification
from twinloop.monitoring.run import MonitorReport
from twinloop.planning.items import Plan
from twinloop.promotion.evidence import Evidence
from twinloop.promotion.verdict import Verdict

SIZES = {
    "sim_episodes": 12,
    "train_steps": 20,
    "n_sim_trials": 3,
    "n_trials": 3,
    "excitation_runs": 4,
    "excitation_s": 3.0,
    "identification_s": 3.0,
    "n_demonstrations": 3,
    "diagnosis_budget": 64,
}
"""Of the loop: enough for every stage to have something to say."""


def make_workspace(root: Path) -> None:
    """A loop up to its plan, its datasets and twin in the workspace's folders, a gate, two promotions, a monitor, a consent."""
    from tests.terminal import run_command, twinloop
    from twinloop.twins import load_twin
    from twinloop.workspace import init_workspace

    twin = load_twin("franka_pick_place")
    init_workspace(root, twin)
    config = replace(loop.LoopConfig(), **SIZES)
    result = loop.run_loop(twin, "standin:remote", root / "loop", config, until="plan")
    made = {stage.name: stage.folder for stage in result.stages}
    for place, name in (("generate/data", "sim"), ("evaluate/runs", "runs"), ("demonstrate/data", "demos")):
        stage, _, inside = place.partition("/")
        shutil.copytree(made[stage] / inside, root / "data" / name)
    shutil.copytree(made["train"] / "nominal", root / "policies/nominal")
    shutil.copytree(made["identify"] / "twin", root / "twins/calibrated")
    (root / "form.txt").write_text("I agree.")

    def run(line: str, codes: tuple[int, ...] = (0,)) -> None:
        code, out, err = run_command(*line.split(), cwd=root)
        assert code in codes, f"{line}\n{out}\n{err}"

    run("data consent add operator-1 --scope record,train,evaluate --document form.txt --until 2035-01-01")
    run("train --sim data/sim --recipe sim-only --steps 20 --out policies/adapted --set seed=1")
    run(
        "gate policies/adapted --champion policies/nominal --robot standin:remote --twin twins/calibrated"
        " --config scenes.yaml --scenes 8 --max-trials 2 --out gate",
        (0, 1),
    )
    for name in ("nominal", "adapted"):
        twinloop("promote", f"policies/{name}", "--override", "in use before", "--by", "ann", cwd=root)
    run(
        "record --robot standin:remote --policy policies/nominal --episodes 8 --seconds 2 --first 300 --out data/deployed"
    )
    run("monitor data/deployed --baseline 5 --once", (0, 1))


KINDS = (Coverage, Diagnosis, Evaluation, Evidence, Gap, Identification, MonitorReport, Plan, Verdict)


def key_of_the_builder() -> str:
    """Changes where this file or the format of a result does; delete .pytest_cache to make the workspace anew."""
    formats = [f"{kind.__name__} {kind.FORMAT}" for kind in KINDS]
    return hashlib.sha256("\n".join([Path(__file__).read_text(), *formats]).encode()).hexdigest()[:16]
