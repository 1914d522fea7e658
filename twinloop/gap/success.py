"""Success in simulation and on the robot, overall and per slice, with exact intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from scipy import stats

from twinloop.episode import Episode
from twinloop.gap.conditions import Known, most_frequent, sliced
from twinloop.stats.interval import Interval, difference_of_rates, exact_interval

MOST_SLICES = 12
"""Values of one condition that are listed; the most frequent ones."""


@dataclass(frozen=True, kw_only=True)
class Rate(Interval):
    """Success rate of the episodes whose outcome is known, with its exact interval."""

    successes: int
    episodes: int


@dataclass(frozen=True)
class Pair:
    """Success on the robot and in simulation in one slice; None where no outcome is known.

    `difference` is simulation minus reality; `p_value` is Fisher's exact test.
    """

    condition: str
    slice: str
    real: Rate | None
    sim: Rate | None
    difference: Interval | None = None
    p_value: float | None = None


@dataclass(frozen=True)
class Success:
    """How often episodes succeed: overall, by slice of every condition, and how and when they fail."""

    overall: Pair
    slices: tuple[Pair, ...] = ()
    against: str = ""
    real_failures: dict[str, int] = field(default_factory=dict)
    sim_failures: dict[str, int] = field(default_factory=dict)
    real_failed_in: dict[str, int] = field(default_factory=dict)
    sim_failed_in: dict[str, int] = field(default_factory=dict)
    needs: str | None = None


def measure_success(
    real: Sequence[Episode],
    sim: Sequence[Episode],
    real_known: Sequence[Known],
    sim_known: Sequence[Known],
    against: str,
) -> Success:
    """Compare outcomes; slices are the conditions that differ between real episodes."""
    overall = _pair("", "all episodes", real, sim)
    slices = []
    for name, (here, there) in sliced(real_known, sim_known).items():
        for value in most_frequent(here, MOST_SLICES):
            slices.append(
                _pair(
                    name,
                    value,
                    [one for one, where in zip(real, here, strict=True) if where == value],
                    [one for one, where in zip(sim, there, strict=True) if where == value],
                )
            )
    needs = None
    if overall.real is None:
        needs = "real episodes with a known outcome (`twinloop data label`)"
    elif overall.sim is None:
        needs = "simulated episodes with a known outcome: --sim, or --policy to evaluate in the twin"
    return Success(
        overall,
        tuple(one for one in slices if one.real is not None),
        against,
        _failures(real),
        _failures(sim),
        _failed_in(real),
        _failed_in(sim),
        needs,
    )


def rate(successes: int, episodes: int) -> Rate | None:
    """The success rate with its exact interval; None of nothing."""
    if not episodes:
        return None
    exact = exact_interval(successes, episodes)
    return Rate(exact.value, exact.low, exact.high, successes=successes, episodes=episodes)


def _pair(condition: str, name: str, real: Sequence[Episode], sim: Sequence[Episode]) -> Pair:
    here, there = _rate(real), _rate(sim)
    if here is None or there is None:
        return Pair(condition, name, here, there)
    table = [
        [here.successes, here.episodes - here.successes],
        [there.successes, there.episodes - there.successes],
    ]
    p_value = float(stats.fisher_exact(table).pvalue)
    return Pair(condition, name, here, there, difference_of_rates(there, here), p_value)


def _rate(episodes: Sequence[Episode]) -> Rate | None:
    known = [episode.success for episode in episodes if episode.success is not None]
    return rate(sum(known), len(known))


def _failures(episodes: Sequence[Episode]) -> dict[str, int]:
    failed = [episode.outcome.failure or "unknown" for episode in episodes if episode.success is False]
    return dict(Counter(failed).most_common())


def _failed_in(episodes: Sequence[Episode]) -> dict[str, int]:
    """Failures by the last phase that was recorded."""
    made: Counter[str] = Counter()
    for episode in episodes:
        phases = [event.detail for event in episode.events if event.kind == "phase"]
        if episode.success is False and phases:
            made[phases[-1]] += 1
    return dict(made.most_common())
