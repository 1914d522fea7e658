"""A staged release: shadow (runs but does not act), canary (acts in a fraction of the episodes), full.

Every stage has its own stop rule, valid after every episode: the stage stops as soon as bets refute that the success rate
is high enough, and advances as soon as they refute that it is not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from twinloop.datasets.jsonl import append_jsonl, read_jsonl
from twinloop.datasets.reader import Dataset
from twinloop.episode import Actor, Array
from twinloop.errors import GateError, UnknownName, WrongUse
from twinloop.promotion.state import Stage
from twinloop.records import Record
from twinloop.robots.controllers import Controller
from twinloop.robots.protocol import Description, Observation
from twinloop.stats.betting import SINGLE, confidence_sequence, log_e_value, raw_outcomes

Step = Literal["advance", "stop", "go on"]

NEXT: dict[Stage, Stage | None] = {"shadow": "canary", "canary": "full", "full": None}


@dataclass(frozen=True)
class StopRule:
    """Requirement of a stage: the minimum fraction of good episodes, and the error probability of each decision.

    For a shadow, an episode is good if every proposed action was executable and close to the executed one; for a canary
    or champion, if it succeeded.
    """

    min_success_rate: float
    alpha: float = 0.05

    def __post_init__(self) -> None:
        if not 0.0 < self.min_success_rate < 1.0:
            raise WrongUse("min_success_rate must lie between 0 and 1", got=self.min_success_rate)


RULES: dict[Stage, StopRule] = {
    "shadow": StopRule(0.8),
    "canary": StopRule(0.7, alpha=0.05),
    "full": StopRule(0.7, alpha=0.01),
}
"""Defaults; rolling back a champion needs stronger evidence than stopping a canary."""


@dataclass(frozen=True)
class StageVerdict(Record):
    """The next step for the policy at a stage, after a number of episodes."""

    stage: Stage
    step: Step
    episodes: int
    good: int
    low: float
    high: float
    rule: StopRule
    reason: str


def judge_stage(stage: Stage, good: Sequence[bool], rule: StopRule | None = None) -> StageVerdict:
    """Judge a stage by its episodes so far, in chronological order."""
    if stage not in RULES:
        raise UnknownName("stage", stage, RULES)
    rule = rule or RULES[stage]
    if not good:
        return StageVerdict(stage, "go on", 0, 0, 0.0, 1.0, rule, "no episodes yet")
    outcomes = raw_outcomes(np.array(good, dtype=np.float64), SINGLE)
    enough = np.log(1.0 / rule.alpha)
    worse = bool(log_e_value(outcomes, rule.min_success_rate, upward=False).max() >= enough)
    better = bool(log_e_value(outcomes, rule.min_success_rate).max() >= enough)
    low, high = confidence_sequence(outcomes, rule.alpha, points=101)
    summary = f"{sum(good)} of {len(good)} good, {100 * low[-1]:.0f} to {100 * high[-1]:.0f} %"
    step: Step = "go on"
    if worse:
        step, reason = "stop", f"shown to be below {100 * rule.min_success_rate:g} %: {summary}"
    elif better and NEXT[stage] is not None:
        step, reason = "advance", f"shown to be above {100 * rule.min_success_rate:g} %: {summary}"
    else:
        reason = summary
    return StageVerdict(stage, step, len(good), sum(good), float(low[-1]), float(high[-1]), rule, reason)


def read_outcomes(dataset: Dataset, policy_id: str) -> list[bool]:
    """Outcomes of the episodes in which a policy acted, in order; unlabelled ones are skipped."""
    outcomes = []
    for number in dataset.numbers:
        episode = dataset.episode(number)
        actor = episode.provenance.actor_id or ""
        if actor.endswith(f"@{policy_id}") and episode.success is not None:
            outcomes.append(episode.success)
    return outcomes


def is_canary(number: int, fraction: float, salt: str) -> bool:
    """Whether the canary acts in an episode: deterministic, and true for `fraction` of all episodes."""
    digest = hashlib.blake2b(f"{salt}:{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") < fraction * 2.0**64


@dataclass(frozen=True)
class ShadowEpisode:
    """How a shadow did in one episode: `away` is the mean distance of its actions from the sent ones."""

    shadow: str
    good: bool
    away: float
    within_limits: bool


class ShadowController:
    """Runs an acting and a shadow controller; the shadow's actions are compared and never sent.

    An episode is good if every action of the shadow was finite and within the robot's limits, and on average no farther
    from the sent action than `near`, as a fraction of the range of each element.
    """

    def __init__(
        self, acting: Controller, shadow: Controller, description: Description, near: float = 0.1
    ) -> None:
        self._acting, self._shadow, self._near = acting, shadow, near
        self._low, self._high = np.array(description.limits.low), np.array(description.limits.high)
        self.actor: Actor = acting.actor
        self.actor_id = acting.actor_id
        self.shadow_id = shadow.actor_id
        self.cameras = tuple(dict.fromkeys((*acting.cameras, *shadow.cameras)))
        self._watching = [c for c in (acting, shadow) if c.cameras]
        self._away: list[float] = []
        self._allowed = True
        self._done: list[ShadowEpisode] = []

    def needs_images(self) -> bool:
        """Whether either controller needs frames with the next observation."""
        return any(getattr(controller, "needs_images", lambda: True)() for controller in self._watching)

    def restart(self, observation: Observation, seed: int) -> None:
        """Judge the previous episode and begin a new one."""
        self._close()
        self._acting.restart(observation, seed)
        self._shadow.restart(observation, seed)

    def act(self, observation: Observation) -> Array:
        """Return the acting controller's action."""
        sent = self._acting.act(observation)
        proposed = np.asarray(self._shadow.act(observation), dtype=np.float64)
        if not np.isfinite(proposed).all():
            self._allowed = False
            return sent
        wide = np.maximum(self._high - self._low, 1e-9)
        outside = (proposed < self._low - 1e-6 * wide) | (proposed > self._high + 1e-6 * wide)
        self._allowed &= not bool(outside.any())
        self._away.append(float(np.mean(np.abs(proposed - sent) / wide)))
        return sent

    def finish(self) -> list[ShadowEpisode]:
        """One record for every episode so far."""
        self._close()
        return list(self._done)

    def _close(self) -> None:
        if self._away or not self._allowed:
            away = float(np.mean(self._away)) if self._away else float("inf")
            good = self._allowed and away <= self._near
            self._done.append(ShadowEpisode(self.shadow_id, good, round(away, 6), self._allowed))
        self._away, self._allowed = [], True


def save_shadow(episodes: Sequence[ShadowEpisode], path: Path) -> None:
    """Append a shadow's episodes to a file, one per line."""
    append_jsonl(path, [asdict(episode) for episode in episodes])


def load_shadow(path: Path, policy_id: str) -> list[bool]:
    """Which episodes of a shadow were good."""
    if not path.is_file():
        raise GateError(f"{path} is not a record of a shadow", remedy="twinloop record --shadow")
    episodes = read_jsonl(path, ShadowEpisode, "an episode of a shadow")
    return [episode.good for episode in episodes if episode.shadow.endswith(f"@{policy_id}")]
