"""`twinloop demo`: the whole loop on embedded defaults, small enough for ten minutes on two cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from twinloop.loop import LoopConfig, run_loop
from twinloop.stages import Done, Listener
from twinloop.steps import reach
from twinloop.twins import Twin, load_twin
from twinloop.workspace import MARKER, find_workspace, init_workspace

TWIN, REALITY = "franka_pick_place", "remote"

SMALL = LoopConfig(
    by="demo",
    sim_episodes=300,
    steps=1200,
    in_twin=100,
    trials=10,
    excitations=4,
    identified_s=12.0,
    diagnosed=400,
    demonstrations=12,
    anchored_episodes=400,
    finetune_steps=3000,
    gate_scenes=100,
    gate_trials=60,
    deployed=10,
)
"""Less of everything than a loop that is meant."""


def run_demo(
    out: Path, reality: str = REALITY, seed: int = 0, listener: Listener | None = None
) -> tuple[Twin, Mapping[str, Done]]:
    """Make a workspace in `out`, or go on in one that a demo made, and take a policy through the loop on a stand-in."""
    robot = f"standin:{reality}"
    twin = load_twin(reach(robot).twin or TWIN)
    workspace = find_workspace(out) if (out / MARKER).is_file() else init_workspace(out, twin)
    return twin, run_loop(twin, robot, workspace.root / "loop", replace(SMALL, seed=seed), listener)
