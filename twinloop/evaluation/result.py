"""`Evaluation`: the trials of one policy in one place, its success rate with an exact interval, and paired comparison."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.datasets.commit import write_atomically
from twinloop.errors import LearnError, NewerFormat, WrongUse
from twinloop.stats.interval import Interval, exact_interval, mcnemar_p_value

FORMAT = 1
EVALUATION = "evaluation.json"


@dataclass(frozen=True)
class Trial:
    """One episode.

    `phase` is the last phase of the task that was reached, None where it is not observed; `draw` are the drawn parameters of a
    simulated scene; `artefacts` counts what the simulator did wrong.
    """

    number: int
    success: bool
    failure: str | None = None
    phase: str | None = None
    draw: Mapping[str, float | str] | None = None
    artefacts: int = 0


@dataclass(frozen=True)
class Evaluation:
    """Trials of one policy in one environment.

    `where` names the twin or the robot's serial. `seed` is the seed of the scenes in a twin, the number of the first scene on a
    robot. `standin` says that the robot was a stand-in; `twin` is name, version and hash of a simulated twin, None on a robot.
    """

    policy: str
    policy_id: str
    where: str
    seed: int
    trials: tuple[Trial, ...]
    standin: bool = False
    twin: Mapping[str, str | None] | None = None

    @property
    def successes(self) -> int:
        """The number of trials that succeeded."""
        return sum(trial.success for trial in self.trials)

    @property
    def success_rate(self) -> float:
        """The fraction of trials that succeeded."""
        return self.successes / len(self.trials)

    def interval(self, confidence: float = 0.95) -> Interval:
        """The success rate with its exact (Clopper-Pearson) interval."""
        return exact_interval(self.successes, len(self.trials), confidence)

    @property
    def failures(self) -> dict[str, int]:
        """Failures by reason, most frequent first."""
        return dict(Counter(t.failure or "unknown" for t in self.trials if not t.success).most_common())

    @property
    def failed_in(self) -> dict[str, int]:
        """Failures by the last phase that was reached, most frequent first."""
        return dict(Counter(t.phase for t in self.trials if not t.success and t.phase).most_common())

    def slices(self) -> list[tuple[str, int, int]]:
        """For each drawn parameter, successes and trials in the lower and upper half of its draws."""
        slices = []
        draws = [trial.draw or {} for trial in self.trials]
        for name in sorted(set().union(*draws)):
            values = np.array([float(d[name]) if isinstance(d.get(name), float) else np.nan for d in draws])
            if np.isnan(values).any() or np.ptp(values) == 0.0:
                continue
            median = float(np.median(values))
            for text, inside in (("<=", values <= median), (">", values > median)):
                successes = sum(t.success for t, here in zip(self.trials, inside, strict=True) if here)
                slices.append((f"{name} {text} {median:.3g}", successes, int(inside.sum())))
        return slices

    def as_json(self) -> dict[str, Any]:
        """The summary as plain values."""
        interval = self.interval()
        return {
            "policy": self.policy,
            "policy_id": self.policy_id,
            "where": self.where,
            "standin": self.standin,
            "twin": dict(self.twin) if self.twin else None,
            "seed": self.seed,
            "episodes": len(self.trials),
            "successes": self.successes,
            "success": self.success_rate,
            "interval_95": [interval.low, interval.high],
            "failures": self.failures,
            "failed_in": self.failed_in,
            "slices": [{"slice": n, "successes": won, "episodes": of} for n, won, of in self.slices()],
            "outcomes": [trial.success for trial in self.trials],
            "scenes": [dict(trial.draw or {}) for trial in self.trials],
            "artefacts": [trial.artefacts for trial in self.trials] if self.twin else None,
        }

    def save(self, folder: str | Path) -> Path:
        """Write `evaluation.json`, the summary and every trial.

        Args:
            folder: Created where it does not exist.

        Returns:
            The folder.
        """
        root = Path(folder)
        root.mkdir(parents=True, exist_ok=True)
        trials = [asdict(trial) | {"draw": dict(trial.draw) if trial.draw else None} for trial in self.trials]
        content = {"format": FORMAT, **self.as_json(), "trials": trials}
        write_atomically(root / EVALUATION, (json.dumps(content, indent=1) + "\n").encode())
        return root


def load_evaluation(folder: str | Path) -> Evaluation:
    """Read what `Evaluation.save` wrote.

    Args:
        folder: The folder with `evaluation.json`.

    Returns:
        The evaluation.

    Raises:
        WrongUse: There is no evaluation.
        NewerFormat: A newer version of Twinloop wrote it.
        LearnError: It cannot be read.
    """
    path = Path(folder) / EVALUATION
    if not path.is_file():
        raise WrongUse(f"{folder} is no evaluation", expected=f"a folder with {EVALUATION}")
    try:
        content = json.loads(path.read_text())
        if content["format"] > FORMAT:
            raise NewerFormat(
                f"{path} was written by a newer Twinloop", remedy="pip install --upgrade twinloop"
            )
        return Evaluation(
            policy=content["policy"],
            policy_id=content["policy_id"],
            where=content["where"],
            seed=content["seed"],
            trials=tuple(Trial(**trial) for trial in content["trials"]),
            standin=content["standin"],
            twin=content["twin"],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LearnError(f"{path} cannot be read ({error})", remedy="evaluate again") from error


@dataclass(frozen=True)
class Comparison:
    """Two policies in the same scenes: the difference of their success rates, with the p-value of an exact McNemar test."""

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
    only_first, only_second = pairs.count((True, False)), pairs.count((False, True))
    p_value = mcnemar_p_value(only_first, only_second)
    return Comparison(first.success_rate - second.success_rate, only_first, only_second, p_value)
