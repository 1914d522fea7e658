"""Which policy acts in which scene, and in which order: drawn, so that nobody beside the robot can know it, and kept beside the recordings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from twinloop.errors import WrongUse
from twinloop.records import SavedRecord, load_record, save_record


@dataclass(frozen=True)
class PlannedTrial:
    """One trial of a series: its number, its scene, and the policy's place in the list of policies."""

    number: int
    scene: int
    policy: int


@dataclass(frozen=True)
class Schedule(SavedRecord):
    """The trials of a series in the order in which they are made.

    Every policy acts once in every scene, one right after the other, in an order drawn for each scene: whatever changes over a day
    changes for all of them.

    Args:
        policies: Ids of the policies.
        robot: Serial of the robot.
        seed: Random seed of the order.
        trials: In order.
        skipped: Scenes that the person left out.
    """

    FILE, COMMAND = "schedule.json", "twinloop evaluate --robot"

    policies: tuple[str, ...]
    robot: str
    seed: int
    trials: tuple[PlannedTrial, ...]
    skipped: tuple[int, ...] = ()

    def without(self, scene: int) -> Schedule:
        """The same without a scene."""
        return replace(self, skipped=tuple(sorted({*self.skipped, scene})))


def draw_order(policies: int, seed: int, scene: int) -> list[int]:
    """The order in which policies act in a scene: drawn, the same for the same seed and scene."""
    return [int(k) for k in np.random.default_rng([seed, scene]).permutation(policies)]


def draw_schedule(policies: Sequence[str], robot: str, first: int, scenes: int, seed: int = 0) -> Schedule:
    """Draw the order of a series.

    Args:
        policies: Ids of the policies.
        robot: Serial of the robot.
        first: Number of the first scene.
        scenes: How many scenes.
        seed: Random seed.

    Returns:
        The schedule.
    """
    pairs = [
        (scene, policy)
        for scene in range(first, first + scenes)
        for policy in draw_order(len(policies), seed, scene)
    ]
    trials = tuple(PlannedTrial(number, scene, policy) for number, (scene, policy) in enumerate(pairs))
    return Schedule(tuple(policies), robot, seed, trials)


def keep_schedule(drawn: Schedule, file: Path) -> Schedule:
    """The schedule in a file, which is the drawn one as far as it goes; a new or longer one is written.

    Args:
        drawn: The schedule of this command.
        file: Where it is kept.

    Returns:
        The schedule, with the scenes that were left out earlier.

    Raises:
        WrongUse: If the file is about other policies, another robot or other scenes.
    """
    if not file.exists():
        save_record(drawn, file)
        return drawn
    kept = load_record(Schedule, file)
    shorter = min(len(kept.trials), len(drawn.trials))
    same = (kept.policies, kept.robot, kept.seed) == (drawn.policies, drawn.robot, drawn.seed)
    if not same or kept.trials[:shorter] != drawn.trials[:shorter]:
        raise WrongUse(
            f"{file} is the schedule of another series",
            got=f"{len(kept.policies)} policies on {kept.robot}",
            expected=f"these {len(drawn.policies)} policies on {drawn.robot}, from the same first scene",
            remedy="another --out",
        )
    merged = replace(drawn, skipped=kept.skipped)
    if len(kept.trials) < len(drawn.trials):
        save_record(merged, file)
    return merged
