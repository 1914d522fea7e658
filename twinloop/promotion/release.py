"""A release in stages: shadow (runs beside, does not act), canary (acts in a share of the episodes), full.

Every stage has its own stop rule, which may be looked at after every episode: it ends as soon as bets refute that the
policy does well enough, and moves on as soon as they refute that it does not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twinloop.datasets.jsonl import append_jsonl
from twinloop.datasets.reader import Dataset
from twinloop.episode import Actor
from twinloop.errors import GateError, UnknownName, WrongUse
from twinloop.promotion.registry import Stage
from twinloop.robots.controllers import Controller
from twinloop.robots.protocol import Description, Observation
from twinloop.stats.betting import SINGLE, confidence_sequence, log_e_value, raw_outcomes

Array = NDArray[Any]
Step = Literal["advance", "stop", "go on"]

NEXT: dict[Stage, Stage | None] = {"shadow": "canary", "canary": "full", "full": None}


@dataclass(frozen=True)
class StopRule:
    """What a stage asks for: the least share of good episodes, and how often either way out may be wrong.

    Good is, as shadow, an episode in which every proposal could have been carried out and kept near what was done; as
    canary and champion, one that succeeded.
    """

    min_success_rate: float
    alpha: float = 0.05

    def __post_init__(self) -> None:
        if not 0.0 < self.min_success_rate < 1.0:
            raise WrongUse("min_success_rate asked for lies between 0 and 1", got=self.min_success_rate)


RULES: dict[Stage, StopRule] = {
    "shadow": StopRule(0.8),
    "canary": StopRule(0.7, alpha=0.05),
    "full": StopRule(0.7, alpha=0.01),
}
"""Unless somebody says otherwise; a champion is rolled back on stronger evidence than a canary is stopped."""


@dataclass(frozen=True)
class StageVerdict:
    """What to do with the policy at a stage, after so many episodes."""

    stage: Stage
    step: Step
    episodes: int
    good: int
    low: float
    high: float
    rule: StopRule
    reason: str

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def judge_stage(stage: Stage, good: Sequence[bool], rule: StopRule | None = None) -> StageVerdict:
    """Look at a stage's episodes so far, in the order they came."""
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
    share = f"{sum(good)} of {len(good)} good, {100 * low[-1]:.0f} to {100 * high[-1]:.0f} %"
    step: Step = "go on"
    if worse:
        step, reason = "stop", f"shown to be below {100 * rule.min_success_rate:g} %: {share}"
    elif better and NEXT[stage] is not None:
        step, reason = "advance", f"shown to be above {100 * rule.min_success_rate:g} %: {share}"
    else:
        reason = share
    return StageVerdict(stage, step, len(good), sum(good), float(low[-1]), float(high[-1]), rule, reason)


def episodes_of(dataset: Dataset, policy_id: str) -> list[bool]:
    """How the episodes went in which a policy acted, in order; those that nobody judged are left out."""
    made = []
    for number in dataset.numbers:
        episode = dataset.episode(number)
        actor = episode.provenance.actor_id or ""
        if actor.endswith(f"@{policy_id}") and episode.success is not None:
            made.append(episode.success)
    return made


def is_canary(number: int, share: float, salt: str) -> bool:
    """Whether the canary acts in an episode: the same answer whenever it is asked, `share` of all of them."""
    digest = hashlib.blake2b(f"{salt}:{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") < share * 2.0**64


class ShadowController:
    """Lets one controller act and another one watch; what the watcher proposes is compared and never sent.

    An episode is good where every proposal was finite and within the robot's limits, and on average no farther from what
    was sent than `near`, as a share of the range of each element.
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
        self._done: list[dict[str, Any]] = []

    def looks(self) -> bool:
        """Whether either of them needs images with the next observation."""
        return any(getattr(controller, "looks", lambda: True)() for controller in self._watching)

    def restart(self, observation: Observation, seed: int) -> None:
        """A new episode begins; the one before is judged."""
        self._close()
        self._acting.restart(observation, seed)
        self._shadow.restart(observation, seed)

    def act(self, observation: Observation) -> Array:
        """What the acting controller commands."""
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

    def finish(self) -> list[dict[str, Any]]:
        """One line for every episode so far."""
        self._close()
        return list(self._done)

    def _close(self) -> None:
        if self._away or not self._allowed:
            away = float(np.mean(self._away)) if self._away else float("inf")
            good = self._allowed and away <= self._near
            line = {
                "shadow": self.shadow_id,
                "good": good,
                "away": round(away, 6),
                "within_limits": self._allowed,
            }
            self._done.append(line)
        self._away, self._allowed = [], True


def save_shadow(lines: Sequence[dict[str, Any]], path: Path) -> None:
    """Append what a shadow did to a file of one line for each episode."""
    append_jsonl(path, lines)


def load_shadow(path: Path, policy_id: str) -> list[bool]:
    """Which episodes of a shadow were good."""
    try:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return [bool(line["good"]) for line in lines if line["shadow"].endswith(f"@{policy_id}")]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GateError(
            f"{path} tells nothing about a shadow ({error})", remedy="twinloop record --shadow"
        ) from error
