"""Does simulation rank policies as reality does? Mean maximum rank violation (MMRV) and Pearson's correlation.

A pair of policies that simulation ranks the wrong way round violates the ranking by the difference of their real success.
MMRV is the mean over policies of each one's worst violation: 0 when the order is right, in points of real success otherwise.
Both as Li et al., "Evaluating Real-World Robot Manipulation Policies in Simulation", CoRL 2024, define them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.errors import WrongUse
from twinloop.gap.conditions import read_csv
from twinloop.records import Record
from twinloop.stats.bootstrap import RESAMPLES, Difference, of_draws

ONE_TASK = "all"
"""The name of the task where a file does not name one."""

FEWEST_POLICIES = 5
"""Fewer policies than this are too few to resample: two of them always correlate perfectly."""

NEARLY_ONE = 0.9995


@dataclass(frozen=True)
class Rated:
    """Success rate (0 to 1) of a policy at a task, and its number of trials if known."""

    success_rate: float
    trials: int | None = None


Ratings = Mapping[str, Mapping[str, Rated]]
"""By task, then by policy."""


@dataclass(frozen=True)
class Ranking:
    """How well simulation ranks the policies of one task; intervals are None with fewer than 5 policies.

    Without numbers of trials, intervals cover the choice of policies only, not the randomness of trials.

    `mean_gap` is simulation minus reality, averaged over policies; `mean_absolute_gap` without its sign.
    """

    task: str
    policies: tuple[str, ...]
    real: tuple[float, ...]
    sim: tuple[float, ...]
    mmrv: float
    mmrv_interval: tuple[float, float] | None
    pearson: float | None
    pearson_interval: tuple[float, float] | None
    mean_gap: float
    mean_absolute_gap: float


@dataclass(frozen=True)
class Rankings(Record):
    """Task by task, and over all of them: MMRV averaged over tasks, Pearson over all pairs of policy and task."""

    tasks: tuple[Ranking, ...]
    pairs: int
    mmrv: float
    mmrv_interval: tuple[float, float] | None
    pearson: float | None
    pearson_interval: tuple[float, float] | None
    seed: int


def rank_policies(real: Ratings, sim: Ratings, *, seed: int = 0, resamples: int = RESAMPLES) -> Rankings:
    """Compare how simulation and reality rank policies, by MMRV and Pearson correlation.

    Both statistics are those of SIMPLER (Li et al., 2024). Intervals resample policies and, where numbers of trials are
    known, outcomes.

    Args:
        real: Success rate (0 to 1) of each policy, by task, on the robot.
        sim: The same in simulation.
        seed: Random seed for the resampling.
        resamples: Number of resamples.

    Returns:
        Both statistics for each task and over all tasks, with 95 % intervals.

    Raises:
        WrongUse: The two have no task with two policies in common.
    """
    tasks = {task: [p for p in real[task] if p in sim[task]] for task in real if task in sim}
    tasks = {task: policies for task, policies in tasks.items() if len(policies) >= 2}
    if not tasks:
        raise WrongUse(
            "nothing to rank: no task has success rates of two policies in both",
            got=f"real: {_names(real)}; sim: {_names(sim)}",
            expected="the same names of tasks and policies in both",
        )
    made, tables = [], []
    for task, policies in tasks.items():
        table = _table([real[task][p] for p in policies], [sim[task][p] for p in policies])
        tables.append(table)
        made.append(_rank(task, policies, table, seed, resamples))
    mmrv = float(np.mean([one.mmrv for one in made]))
    pearson = _pearson(np.concatenate(tables))
    fewest = min(map(len, tables))
    return Rankings(
        tasks=tuple(made),
        pairs=sum(map(len, tables)),
        mmrv=mmrv,
        mmrv_interval=_clipped(
            of_draws(
                mmrv,
                lambda rng: float(np.mean([_mmrv(_again(table, rng)) for table in tables])),
                max(fewest, len(tables)),
                seed,
                resamples,
            ),
            0.0,
        ),
        pearson=_number(pearson),
        pearson_interval=_pearson_interval(np.concatenate(tables), seed, resamples),
        seed=seed,
    )


def mean_maximum_rank_violation(real: Array, sim: Array) -> float:
    """MMRV of success rates (policies,)."""
    real, sim = np.asarray(real, np.float64), np.asarray(sim, np.float64)
    wrong = (sim[:, None] < sim[None, :]) != (real[:, None] < real[None, :])
    violation = np.where(wrong, np.abs(real[:, None] - real[None, :]), 0.0)
    return float(violation.max(axis=1).mean())


def load_ratings(source: str | Path, trials: int | None = None) -> dict[str, dict[str, Rated]]:
    """Success rates by task and policy from FILE or FILE:KEY; `trials` is used where the file has no number of trials.

    JSON: `{task: {policy: rate}}` or `{policy: rate}`, under KEY if there is one; or the output of
    `twinloop evaluate --json`. CSV: columns policy and success, optionally task and episodes.
    """
    name, key = _split(str(source))
    path = Path(name)
    if path.suffix == ".csv":
        return _with_trials(_from_rows(read_csv(path), name), trials)
    try:
        content = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise WrongUse(f"{name} is neither JSON nor a .csv file ({error})") from error
    if key:
        if not isinstance(content, dict) or key not in content:
            available = list(content) if isinstance(content, dict) else []
            raise WrongUse(f"{name} has nothing called {key!r}", available=available)
        content = content[key]
    return _with_trials(_from_json(content, name), trials)


def _with_trials(ratings: dict[str, dict[str, Rated]], trials: int | None) -> dict[str, dict[str, Rated]]:
    return {
        task: {name: Rated(one.success_rate, one.trials or trials) for name, one in policies.items()}
        for task, policies in ratings.items()
    }


def _rank(task: str, policies: Sequence[str], table: Array, seed: int, resamples: int) -> Ranking:
    mmrv, pearson, count = _mmrv(table), _pearson(table), len(table)
    gaps = table[:, 1] - table[:, 0]
    return Ranking(
        task=task,
        policies=tuple(policies),
        real=tuple(table[:, 0].tolist()),
        sim=tuple(table[:, 1].tolist()),
        mmrv=mmrv,
        mmrv_interval=_clipped(
            of_draws(mmrv, lambda rng: _mmrv(_again(table, rng)), count, seed, resamples), 0.0
        ),
        pearson=_number(pearson),
        pearson_interval=_pearson_interval(table, seed, resamples),
        mean_gap=float(np.mean(gaps)),
        mean_absolute_gap=float(np.mean(np.abs(gaps))),
    )


def _table(real: Sequence[Rated], sim: Sequence[Rated]) -> Array:
    """One row per policy: real and simulated success rate, real and simulated trials (0: not known)."""
    pairs = zip(real, sim, strict=True)
    return np.array(
        [(a.success_rate, b.success_rate, a.trials or 0, b.trials or 0) for a, b in pairs], np.float64
    )


def _again(table: Array, rng: np.random.Generator) -> Array:
    """Policies drawn anew and, where the number of trials is known, their outcomes too."""
    drawn = table[rng.integers(0, len(table), len(table))]
    for side in (0, 1):
        trials = drawn[:, 2 + side].astype(np.int64)
        again = rng.binomial(np.maximum(trials, 1), drawn[:, side]) / np.maximum(trials, 1)
        drawn[:, side] = np.where(trials > 0, again, drawn[:, side])
    return drawn


def _mmrv(table: Array) -> float:
    return mean_maximum_rank_violation(table[:, 0], table[:, 1])


def _pearson(table: Array) -> float:
    real, sim = table[:, 0] - table[:, 0].mean(), table[:, 1] - table[:, 1].mean()
    scale = float(np.sqrt((real @ real) * (sim @ sim)))
    return float(real @ sim) / scale if scale > 1e-12 else float("nan")


def _pearson_interval(table: Array, seed: int, resamples: int) -> tuple[float, float] | None:
    """On Fisher's scale, where a correlation near one has room on both sides."""

    def fisher(rows: Array) -> float:
        return float(np.arctanh(np.clip(_pearson(rows), -NEARLY_ONE, NEARLY_ONE)))

    found = of_draws(fisher(table), lambda rng: fisher(_again(table, rng)), len(table), seed, resamples)
    if found is None or found.real_count < FEWEST_POLICIES:
        return None
    return float(np.tanh(found.low)), float(np.tanh(found.high))


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _clipped(found: Difference | None, low: float) -> tuple[float, float] | None:
    if found is None or found.real_count < FEWEST_POLICIES:
        return None
    return max(found.low, low), min(found.high, 1.0)


def _names(ratings: Ratings) -> str:
    return ", ".join(f"{task} ({', '.join(policies)})" for task, policies in ratings.items()) or "none"


def _split(source: str) -> tuple[str, str]:
    """FILE and KEY; a file whose name has a colon wins."""
    if Path(source).exists() or ":" not in source:
        return source, ""
    name, _, key = source.rpartition(":")
    return name, key


def _from_json(content: Any, name: str) -> dict[str, dict[str, Rated]]:
    if isinstance(content, dict) and isinstance(content.get("evaluations"), list):
        found: dict[str, Rated] = {}
        for one in content["evaluations"]:
            found[str(one["policy"])] = Rated(float(one["success"]), int(one["episodes"]))
        return {ONE_TASK: found}
    if isinstance(content, dict) and content:
        if all(isinstance(value, dict) for value in content.values()):
            return {
                str(task): {str(p): Rated(_success_rate(value, name)) for p, value in policies.items()}
                for task, policies in content.items()
            }
        return {ONE_TASK: {str(p): Rated(_success_rate(value, name)) for p, value in content.items()}}
    raise WrongUse(
        f"{name} holds no success rates",
        expected="{task: {policy: rate}}, {policy: rate}, or the output of `twinloop evaluate --json`",
    )


def _from_rows(rows: Sequence[Mapping[str, str]], name: str) -> dict[str, dict[str, Rated]]:
    made: dict[str, dict[str, Rated]] = {}
    for row in rows:
        if not row.get("policy") or not row.get("success"):
            raise WrongUse(
                f"{name} lacks a column or a value", got=", ".join(map(str, row)), expected="policy, success"
            )
        trials = row.get("episodes")
        if trials and not trials.isdigit():
            raise WrongUse(f"{name}: episodes is not a number", got=trials)
        task = made.setdefault(row.get("task") or ONE_TASK, {})
        task[row["policy"]] = Rated(_success_rate(row["success"], name), int(trials) if trials else None)
    return made


def _success_rate(value: Any, name: str) -> float:
    try:
        rate = float(value)
    except (TypeError, ValueError):
        rate = float("nan")
    if not 0.0 <= rate <= 1.0:
        raise WrongUse(f"{name}: not a success rate", got=value, expected="a number from 0 to 1")
    return rate
