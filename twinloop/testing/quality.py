"""Conformance check for quality checks; the built-in ones pass it too."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from twinloop.episode import Camera, Episode, Schema, Signal, make_episode
from twinloop.quality.registry import Check
from twinloop.quality.settings import Settings
from twinloop.quality.view import View


def assert_quality_check(name: str, check: Check, episodes: Sequence[Episode] = ()) -> None:
    """Assert that a quality check is pure and repeatable, and that its findings are complete.

    It runs on edge cases (one row, constant signals, with a camera) and on `episodes`.
    """
    assert (check.__doc__ or "").strip(), f"{name} has no docstring: one sentence on what it finds"
    for episode in (*awkward_episodes(), *episodes):
        before = {signal: values.tobytes() for signal, values in episode.signals.items()}
        first, second = (list(check(View(episode, Settings()))) for _ in range(2))
        assert first == second, f"{name} gives another answer on the second call"
        for signal, values in episode.signals.items():
            assert values.tobytes() == before[signal], f"{name} changes {signal}"
        for finding in first:
            assert finding.code == name, f"code: got {finding.code!r}, expected {name!r}"
            assert math.isfinite(finding.value), f"{name}: value is {finding.value}"
            assert math.isfinite(finding.threshold), f"{name}: threshold is {finding.threshold}"
            for part in ("channel", "unit", "message", "remedy"):
                assert getattr(finding, part).strip(), f"{name}: a finding without {part}"
            assert finding.start_s <= finding.end_s, f"{name}: ends before it starts"
            inside = episode.time_s[0] <= finding.start_s and finding.end_s <= episode.time_s[-1]
            assert inside, f"{name}: {finding.start_s} s to {finding.end_s} s is outside the episode"


def awkward_episodes() -> list[Episode]:
    """Small valid episodes that are edge cases for a check."""
    schema = Schema(
        (Signal("observation.state", (2,), ("rad",)), Signal("action", (2,), ("rad",))),
        rate_hz=50.0,
        cameras=(Camera("front", 8, 8),),
    )
    episodes = []
    for rows in (1, 2, 3, 20):
        ramp = np.linspace(0, 1, rows)
        for values in (np.zeros((rows, 2)), np.stack([ramp, np.sin(9 * ramp)], axis=1)):
            episodes.append(
                make_episode(
                    schema,
                    np.arange(rows) / 50,
                    {"observation.state": values, "action": values},
                    frames={"front": np.full((rows, 8, 8, 3), 99, np.uint8)},
                    success=True,
                )
            )
    return episodes
