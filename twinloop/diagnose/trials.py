"""The policy in the twin with imperfections put in: one row per scene, kept on disk so that a stopped run goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.dataset.commit import write_atomically
from twinloop.diagnose.attribute import Coalition
from twinloop.diagnose.evidence import Run, read_evidence
from twinloop.diagnose.imperfection import MISJUDGED, Measured
from twinloop.diagnose.inject import DisturbedPolicy
from twinloop.episode import Episode
from twinloop.experts import Setup
from twinloop.generate.job import Job, episode_seed
from twinloop.generate.rollout import rollout_drawn
from twinloop.learn.policy import Policy
from twinloop.twin import Twin

Array = NDArray[Any]
Progress = Callable[[int, int], None]


@dataclass
class Trials:
    """Evaluates combinations of dimensions; `base` are the scenes (rows,) by parameter, `twin` is an extended one."""

    policy: Policy
    twin: Twin
    base: Mapping[str, Array]
    rows: int
    seed: int
    keep: Path | None = None
    progress: Progress = lambda done, total: None
    measured: dict[str, Measured] = field(default_factory=dict)
    failures: dict[Coalition, list[str | None]] = field(default_factory=dict)
    done: int = 0

    def evaluate(self, coalitions: Sequence[Coalition]) -> dict[Coalition, Array]:
        """Outcomes (rows,) of each combination; what was evaluated before is not evaluated again."""
        made = {}
        for number, coalition in enumerate(coalitions):
            self.progress(number, len(coalitions))
            made[coalition] = self._outcomes(coalition)
        self.progress(len(coalitions), len(coalitions))
        return made

    def runs(self, values: Mapping[str, Array], rows: int) -> tuple[Run, ...]:
        """Episodes with these values (rows,) on top of the first scenes, read as evidence."""
        scenes = {name: np.resize(column, rows) for name, column in self.base.items()}
        episodes = self._rollout({**scenes, **values}, rows)
        return read_evidence(self.twin, episodes).runs

    def values(self, coalition: Coalition) -> dict[str, Array]:
        """What is drawn when these dimensions are put in."""
        drawn = dict(self.base)
        for dimension in sorted(coalition):
            drawn |= self.measured[dimension].values
        return drawn

    def _outcomes(self, coalition: Coalition) -> Array:
        drawn = self.values(coalition)
        path = None if self.keep is None else self.keep / f"{self._name(drawn)}.json"
        if path is not None and path.exists():
            kept = json.loads(path.read_text())
            self.failures[coalition] = kept["failures"]
            return np.array(kept["outcomes"], np.float64)
        flips = drawn.pop(MISJUDGED, None)
        won, failures = [], []
        for episode in self._rollout(drawn, self.rows):
            won.append(float(episode.success is True))
            failures.append(episode.outcome.failure)
        outcomes = np.array(won)
        if flips is not None:
            wrong = np.random.default_rng([self.seed, 77]).random(self.rows) < flips
            outcomes = np.where(wrong, 1.0 - outcomes, outcomes)
            failures = [
                "misjudged" if w and not o else f for w, o, f in zip(wrong, outcomes, failures, strict=True)
            ]
        failures = [None if o else f for o, f in zip(outcomes, failures, strict=True)]
        self.done += self.rows
        self.failures[coalition] = failures
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps({"outcomes": outcomes.tolist(), "failures": failures}).encode())
        return outcomes

    def _rollout(self, drawn: Mapping[str, Array], rows: int) -> Iterator[Episode]:
        seeds = np.array([episode_seed(self.seed, row) for row in range(rows)], dtype=np.int64)
        job = Job(self.twin, self.twin.task, f"{self.policy.name}@{self.policy.id}")

        def make(setup: Setup) -> DisturbedPolicy:
            return DisturbedPolicy(self.policy, setup, seeds, drawn)

        return rollout_drawn(job, seeds.tolist(), drawn, 1, make)

    def _name(self, drawn: Mapping[str, Array]) -> str:
        digest = hashlib.blake2b(digest_size=12)
        digest.update(f"{self.policy.id} {self.twin.content_hash} {self.rows} {self.seed}".encode())
        for name in sorted(drawn):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(drawn[name], np.float64).tobytes())
        return digest.hexdigest()
