"""Every threshold of every check, with its unit and why it is what it is. None is tuned to a recording.

What each of them can and cannot detect is in docs/how-to/quality.md, measured by benchmarks/bench_quality.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from twinloop.episode import Episode

Purpose = Literal["identify", "train", "any"]

RATES_HZ = {"joint_dynamics": 30.0, "delay": 30.0, "friction": 100.0, "contact": 100.0, "electrical": 500.0}
"""The lowest rate at which each can be identified. 30 Hz: below it joint parameters came out wrong by 40 to 56 %."""


@dataclass(frozen=True)
class Settings:
    """Thresholds of the checks; change one with `dataclasses.replace`."""

    purpose: Purpose = "any"
    asked: tuple[str, ...] = ()
    """What should be identified, names of `RATES_HZ`; for the purpose identify and nothing named: joint_dynamics."""
    checks: tuple[str, ...] = ()
    """Names of the checks to run; empty means all that are registered."""
    frames: bool = True
    """Whether camera frames are decoded; by far the slowest part."""

    # Time. Periods are the median distance of an episode's true time stamps.
    dropped_periods: float = 1.6
    """A distance of more than this many periods lost at least one sample."""
    dropped_blocking: float = 0.1
    """Share of lost samples."""
    gap_s: float = 0.2
    gap_periods: float = 5.0
    """A gap is longer than both."""
    gap_blocking_s: float = 1.0
    jitter_periods: float = 0.2
    """95th percentile of the distance from the median period."""
    rate_tolerance: float = 0.02
    """Relative difference between the declared and the true rate."""
    duplicated: float = 0.02
    """Share of moving rows that repeat the row before."""
    duplicated_blocking: float = 0.3
    drift_periods: float = 0.5
    """A stream's clock may run away from the row's time by this much over an episode."""
    drift_blocking_periods: float = 5.0

    # Channels.
    stuck_s: float = 0.5
    """A channel that stands still this long while its command moves is stuck."""
    stuck_travel: float = 0.1
    """... by this share of the command's range,"""
    stuck_errors: float = 3.0
    """... and ends up further from it than this many times the usual distance (95th percentile of the other rows)."""
    stuck_blocking: float = 0.2
    """Share of the episode."""
    clipped: float = 0.01
    """Share of rows that sit exactly on the channel's highest or lowest value in the middle of a motion."""
    clipped_blocking: float = 0.1
    saturated: float = 0.05
    """The same for commands, where it may be meant."""
    spike_scales: float = 8.0
    """A spike stands out by this many times the 90th percentile of the signal's own second differences."""
    spike_blocking: float = 0.02
    """Share of rows."""
    quantization_levels: float = 32.0
    """A moving channel should cross at least this many steps of its resolution."""
    angle_rad: float = 12.6
    """Joint angles beyond two turns either way are probably degrees."""
    speed_rad_s: float = 60.0
    """Joints faster than this (570 rpm) are probably in degrees."""
    length_m: float = 20.0
    """Positions beyond this are probably millimetres."""
    unit_ratio_tolerance: float = 0.15
    """How near to 57.3 or 1000 the ratio of response and command must be to call it a wrong unit."""

    # Cameras.
    frozen_s: float = 0.3
    """An image that does not change this long while the robot moves is frozen."""
    frozen_blocking: float = 0.2
    """Share of the moving rows."""
    frozen_share: float = 0.05
    """Unchanged: the mean difference to the frame before is below this share of the episode's usual difference."""
    frozen_level: float = 0.02
    """... or below this, of 255."""
    dark_level: float = 4.0
    """An image is dead when its mean is this near to black or white, of 255."""

    # Command and response.
    pairs: tuple[tuple[str, str], ...] = ()
    """(command channel, response channel), for example ("action[0]", "observation.state[3]"); empty: discovered."""
    pair_correlation: float = 0.9
    """Channels without matching names are a pair from this correlation on."""
    lag_correlation: float = 0.8
    """Below it, the response does not follow the command well enough to speak of a lag."""
    longest_lag_s: float = 1.0
    lag_s: float = 0.25
    """The bound popular identification tools assume."""
    lag_blocking_s: float = 0.8
    lag_uncertainty_s: float = 0.03
    """A lag known no better than this is measured but never called wrong: slow motions say little about delay."""
    offset_rad: float = 0.1
    offset_blocking_rad: float = 0.2
    offset_m: float = 0.01
    offset_blocking_m: float = 0.05
    offset_share: float = 0.2
    """For other units: share of the command's range."""

    # Outcome.
    success_of: Callable[[Episode], bool | None] | None = field(default=None, compare=False)
    """The task's own judgement of the final state; None is "cannot say"."""
    success_events: tuple[str, ...] = ("success", "goal_reached", "placed", "task_done")
    failure_events: tuple[str, ...] = ("failure", "dropped", "timeout", "aborted", "emergency_stop")
    artefact_events: tuple[str, ...] = (
        "artefact",
        "penetration",
        "tunnelling",
        "jitter_artefact",
        "solver_warning",
    )
    divergence_events: tuple[str, ...] = ("diverged", "instability", "nan")

    @property
    def needed_rate_hz(self) -> float:
        """The highest rate that what is asked needs; 0 when nothing is asked."""
        asked = self.asked or (("joint_dynamics",) if self.purpose == "identify" else ())
        return max((RATES_HZ[name] for name in asked), default=0.0)
