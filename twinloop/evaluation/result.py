"""`Evaluation`: the trials of one policy in one place, its success rate with an exact interval, and paired comparison."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.errors import WrongUse
from twinloop.records import SavedRecord, load_record
from twinloop.stats.interval import Interval, exact_interval, mcnemar_p_value


@dataclass(frozen=True)
class Trial:
    """One episode.

    `success` is None where it was not judged. `phase` is the last phase of the task that was reached, None where it is not observed; `draw` are the drawn parameters of a
    simulated scene; `artefacts` counts what the simulator did wrong. `void` is why the trial says nothing about the policy: it gave no
    answer. `interventions` counts what the safety envelope did, by kind.
    """

    number: int
    success: bool | None
    failure: str | None = None
    phase: str | None = None
    draw: Mapping[str, float | str] | None = None
    artefacts: int = 0
    void: str | None = None
    interventions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation(SavedRecord):
    """Trials of one policy in one environment.

    `where` names the twin or the robot's serial. `seed` is the seed of the scenes in a twin, the number of the first scene on a
    robot. `standin` says that the robot was a stand-in; `twin` is name, version and hash of a simulated twin, None on a robot.
    `repeated` says why each attempt was void that a person beside the robot has had repeated; it is not among the trials.
    `latency_s` are the inference times of which one was charged to each chunk, drawn by the episode's seed; empty: none was.
    """

    FILE, COMMAND = "evaluation.json", "twinloop evaluate"

    policy: str
    policy_id: str
    where: str
    seed: int
    trials: tuple[Trial, ...]
    standin: bool = False
    twin: Mapping[str, str | None] | None = None
    latency_s: tuple[float, ...] = ()
    repeated: tuple[str, ...] = ()

    @property
    def void(self) -> tuple[Trial, ...]:
        """The trials in which the policy gave no answer; they are not judged."""
        return tuple(trial for trial in self.trials if trial.void)

    @property
    def judged(self) -> tuple[Trial, ...]:
        """The trials whose outcome is known; rates and intervals are of these."""
        return tuple(trial for trial in self.trials if trial.success is not None)

    @property
    def successes(self) -> int:
        """The number of trials that succeeded."""
        return sum(trial.success is True for trial in self.trials)

    @property
    def success_rate(self) -> float:
        """The fraction of judged trials that succeeded; NaN if none was judged."""
        return self.successes / len(self.judged) if self.judged else math.nan

    def interval(self, confidence: float = 0.95) -> Interval:
        """The success rate of judged trials with its exact (Clopper-Pearson) interval: 0 to 1 if none was judged."""
        if not self.judged:
            return Interval(math.nan, 0.0, 1.0, confidence)
        return exact_interval(self.successes, len(self.judged), confidence)

    @property
    def failures(self) -> dict[str, int]:
        """Failures by reason, most frequent first."""
        return dict(Counter(t.failure or "unknown" for t in self.judged if not t.success).most_common())

    @property
    def failed_in(self) -> dict[str, int]:
        """Failures by the last phase that was reached, most frequent first."""
        return dict(Counter(t.phase for t in self.judged if not t.success and t.phase).most_common())

    @property
    def interventions(self) -> dict[str, int]:
        """What the safety envelope did in all trials, by kind, most frequent first."""
        total: Counter[str] = Counter()
        for trial in self.trials:
            total.update(trial.interventions)
        return dict(total.most_common())

    def slices(self) -> list[tuple[str, int, int]]:
        """For each drawn parameter, successes and judged trials in the lower and upper half of its draws."""
        slices = []
        draws = [trial.draw or {} for trial in self.judged]
        for name in sorted(set().union(*draws)):
            values = np.array([float(d[name]) if isinstance(d.get(name), float) else np.nan for d in draws])
            if np.isnan(values).any() or np.ptp(values) == 0.0:
                continue
            median = float(np.median(values))
            for text, inside in (("<=", values <= median), (">", values > median)):
                successes = sum(
                    t.success is True for t, here in zip(self.judged, inside, strict=True) if here
                )
                slices.append((f"{name} {text} {median:.3g}", successes, int(inside.sum())))
        return slices

    def as_json(self) -> dict[str, Any]:
        """A summary as JSON values, without the trials."""
        interval = self.interval()
        return {
            "policy": self.policy,
            "policy_id": self.policy_id,
            "where": self.where,
            "standin": self.standin,
            "twin": dict(self.twin) if self.twin else None,
            "seed": self.seed,
            "episodes": len(self.trials),
            "judged": len(self.judged),
            "successes": self.successes,
            "success": self.success_rate if self.judged else None,
            "interval_95": [interval.low, interval.high],
            "failures": self.failures,
            "failed_in": self.failed_in,
            "slices": [{"slice": n, "successes": won, "episodes": of} for n, won, of in self.slices()],
            "outcomes": [trial.success for trial in self.trials],
            "scenes": [dict(trial.draw or {}) for trial in self.trials],
            "void": {str(trial.number): trial.void for trial in self.void},
            "interventions": self.interventions,
            "repeated": list(self.repeated),
            "latency_s": list(self.latency_s),
            "artefacts": [trial.artefacts for trial in self.trials] if self.twin else None,
        }


def load_evaluation(folder: str | Path) -> Evaluation:
    """Read what `Evaluation.save` wrote.

    Args:
        folder: The folder with `evaluation.json`.

    Returns:
        The evaluation.

    Raises:
        WrongUse: There is no such file or it is not an evaluation.
        NewerFormat: A newer version of Twinloop wrote it.
    """
    return load_record(Evaluation, folder)


@dataclass(frozen=True)
class Comparison:
    """Two policies in the same scenes: the difference of their success rates, with the p-value of an exact McNemar test.

    Scenes in which a trial was not judged are left out; the difference is NaN if none is left.
    """

    difference: float
    only_first: int
    only_second: int
    p_value: float


def compare(first: Evaluation, second: Evaluation) -> Comparison:
    """Compare two evaluations trial by trial (exact McNemar test).

    Args:
        first: Trials of one policy.
        second: Trials of another policy in the same scenes.

    Returns:
        The difference of their success rates, first minus second, and its p-value.

    Raises:
        WrongUse: The evaluations did not use the same scenes.
    """
    numbers = [trial.number for trial in first.trials]
    if (first.where, first.seed, numbers) != (second.where, second.seed, [t.number for t in second.trials]):
        raise WrongUse(
            "these evaluations cannot be paired",
            got=f"{second.where}, seed {second.seed}, {len(second.trials)} trials",
            expected=f"{first.where}, seed {first.seed}, {len(first.trials)} trials",
        )
    pairs = [(a.success, b.success) for a, b in zip(first.trials, second.trials, strict=True)]
    judged = [pair for pair in pairs if None not in pair]
    only_first, only_second = judged.count((True, False)), judged.count((False, True))
    difference = (only_first - only_second) / len(judged) if judged else math.nan
    return Comparison(difference, only_first, only_second, mcnemar_p_value(only_first, only_second))
