"""The thresholds of all checks, with units and reasons; none is tuned to a recording.

What they can and cannot detect is in docs/how-to/quality.md, measured by benchmarks/bench_quality.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from twinloop.episode import Episode

Purpose = Literal["identify", "train", "any"]

RATES_HZ = {"joint_dynamics": 30.0, "delay": 30.0, "friction": 100.0, "contact": 100.0, "electrical": 500.0}
"""Lowest rate for identifying each. Below 30 Hz, joint parameters were wrong by 40 to 56 %."""


@dataclass(frozen=True)
class Settings:
    """Thresholds of the checks; change one with `dataclasses.replace`."""

    purpose: Purpose = "any"
    asked: tuple[str, ...] = ()
    """What is to be identified, names in `RATES_HZ`; default for the purpose identify: joint_dynamics."""
    checks: tuple[str, ...] = ()
    """Names of the checks to run; empty means all registered ones."""
    frames: bool = True
    """Whether camera frames are decoded; by far the slowest part."""

    constants: tuple[str, ...] = ()
    """Signals that are declared to be constant; `check_dataset` adds those of the dataset's log maps."""

    # Time. The period is the median difference of an episode's true time stamps.
    dropped_periods: float = 1.6
    """At least one sample is lost if consecutive stamps are more periods apart."""
    dropped_blocking: float = 0.1
    """Fraction of lost samples."""
    gap_s: float = 0.2
    gap_periods: float = 5.0
    """A gap is longer than both."""
    gap_blocking_s: float = 1.0
    jitter_periods: float = 0.2
    """95th percentile of the deviation from the median period."""
    rate_tolerance: float = 0.02
    """Relative difference between the declared and the true rate."""
    duplicated: float = 0.02
    """Fraction of moving rows that repeat the row before."""
    duplicated_blocking: float = 0.3
    drift_periods: float = 0.5
    """A stream's clock may drift from the row time by this much over an episode."""
    drift_blocking_periods: float = 5.0

    # Channels.
    stuck_s: float = 0.5
    """A channel that does not change for this long while its command moves is stuck."""
    stuck_travel: float = 0.1
    """... by this fraction of the command's range,"""
    stuck_errors: float = 3.0
    """... and its error exceeds this multiple of the usual error (95th percentile of the other rows)."""
    stuck_blocking: float = 0.2
    """Fraction of the episode."""
    clipped: float = 0.01
    """Fraction of rows exactly at the channel's highest or lowest value during a motion."""
    clipped_blocking: float = 0.1
    saturated: float = 0.05
    """The same for commands, where it may be intended."""
    spike_scales: float = 8.0
    """A spike exceeds this multiple of the 90th percentile of the signal's second differences."""
    spike_blocking: float = 0.02
    """Fraction of rows."""
    quantization_levels: float = 32.0
    """A moving channel should cover at least this many steps of its resolution."""
    angle_rad: float = 12.6
    """Joint angles beyond two turns either way are probably degrees."""
    speed_rad_s: float = 60.0
    """Joints faster than this (570 rpm) are probably in degrees."""
    length_m: float = 20.0
    """Positions beyond this are probably millimetres."""
    unit_ratio_tolerance: float = 0.15
    """Relative tolerance around 57.3 or 1000 for the ratio of response and command to indicate a wrong unit."""

    # Cameras.
    frozen_s: float = 0.3
    """An image that does not change for this long while the robot moves is frozen."""
    frozen_blocking: float = 0.2
    """Fraction of the moving rows."""
    frozen_fraction: float = 0.05
    """Unchanged: the mean difference to the previous frame is below this fraction of the episode's median."""
    frozen_level: float = 0.02
    """... or below this, of 255."""
    dark_level: float = 4.0
    """An image is dead if its mean is within this of black or white, of 255."""

    # Command and response.
    pairs: tuple[tuple[str, str], ...] = ()
    """(command channel, response channel), for example ("action[0]", "observation.state[3]"); empty: discovered."""
    pair_correlation: float = 0.9
    """Minimum correlation to pair channels without matching names."""
    lag_correlation: float = 0.8
    """Minimum correlation of response and command for a lag to be meaningful."""
    longest_lag_s: float = 1.0
    lag_s: float = 0.25
    """The largest lag that popular identification tools assume."""
    lag_blocking_s: float = 0.8
    lag_uncertainty_s: float = 0.03
    """A lag with a larger uncertainty is measured but not reported: slow motions reveal little about delay."""
    offset_rad: float = 0.1
    offset_blocking_rad: float = 0.2
    offset_m: float = 0.01
    offset_blocking_m: float = 0.05
    offset_fraction: float = 0.2
    """For other units: fraction of the command's range."""

    # Outcome.
    success_of: Callable[[Episode], bool | None] | None = field(default=None, compare=False)
    """The task's own test of the final state; it returns None if undecided."""
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
        """The rate needed for everything in `asked`; 0 if empty."""
        asked = self.asked or (("joint_dynamics",) if self.purpose == "identify" else ())
        return max((RATES_HZ[name] for name in asked), default=0.0)
