"""`twinloop demo`: the whole loop on embedded defaults, small enough for three to five minutes on two cores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from twinloop.loop import run_loop
from twinloop.loop_result import LoopResult
from twinloop.loop_status import LoopConfig
from twinloop.stages import StageListener
from twinloop.supervision.handle import find_robot
from twinloop.twins import Twin, load_twin
from twinloop.workspace import MARKER, find_workspace, init_workspace

TWIN, REALITY = "franka_pick_place", "remote"

SMALL = LoopConfig(
    by="demo",
    sim_episodes=200,
    train_steps=800,
    horizon_episodes=40,
    n_sim_trials=60,
    n_trials=8,
    excitation_runs=4,
    identification_s=9.0,
    n_demonstrations=3,
    diagnosis_budget=256,
    n_retrials=6,
    max_demonstrations=12,
    anchored_episodes=250,
    finetune_steps=2000,
    gate_scenes=60,
    gate_trials=60,
    deployed_episodes=6,
)
"""Less of everything than a loop that is meant."""


def run_demo(
    out: Path, reality: str = REALITY, seed: int = 0, listener: StageListener | None = None
) -> tuple[Twin, LoopResult]:
    """Make a workspace, or resume in one that a demo made, and run the loop on a stand-in.

    Args:
        out: The workspace.
        reality: The stand-in: a shipped one, or a file.
        seed: Random seed.
        listener: Follows the stages.

    Returns:
        The nominal twin, and the results of the stages.
    """
    robot = f"standin:{reality}"
    twin = load_twin(find_robot(robot).twin or TWIN)
    workspace = find_workspace(out) if (out / MARKER).is_file() else init_workspace(out, twin)
    return twin, run_loop(twin, robot, workspace.root / "loop", replace(SMALL, seed=seed), listener)
