"""The policy in the twin with measured imperfections: one row per scene, kept on disk so that an interrupted run resumes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from twinloop.datasets.commit import write_atomically
from twinloop.diagnosis.attribute import Coalition
from twinloop.diagnosis.evidence import Run, read_evidence
from twinloop.diagnosis.measured import Measured
from twinloop.engines.mujoco_batch import quiet_warnings
from twinloop.episode import Array, Episode
from twinloop.generation.job import Job, episode_seed
from twinloop.generation.rollout import rollout_drawn
from twinloop.policies.act import PolicyExpert
from twinloop.policies.protocol import PolicyLike
from twinloop.twins import Twin
from twinloop.twins.images import with_assets

OnProgress = Callable[[int, int], None]

SIDE_BY_SIDE = 256
"""Episodes simulated together: the more, the less each one costs."""


@dataclass
class Trials:
    """Evaluates combinations of dimensions; `base` are the scenes (rows,) by parameter, `photographs` what a dimension puts on the
    twin, by name."""

    policy: PolicyLike
    twin: Twin
    base: Mapping[str, Array]
    rows: int
    seed: int
    keep: Path | None = None
    threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    on_progress: OnProgress = lambda done, total: None
    measured: dict[str, Measured] = field(default_factory=dict)
    photographs: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    failures: dict[Coalition, list[str | None]] = field(default_factory=dict)
    done: int = 0

    def evaluate(self, coalitions: Sequence[Coalition]) -> dict[Coalition, Array]:
        """Outcomes (rows,) of each combination, side by side; what was evaluated before is not evaluated again."""
        made = {c: kept for c in coalitions if (kept := self._kept(c)) is not None}
        missing = [c for c in coalitions if c not in made]
        together = max(1, SIDE_BY_SIDE // self.rows)
        for first in range(0, len(missing), together):
            self.on_progress(len(made), len(coalitions))
            made |= self._evaluate(missing[first : first + together])
        self.on_progress(len(coalitions), len(coalitions))
        return made

    def runs(self, values: Mapping[str, Array], rows: int) -> tuple[Run, ...]:
        """Episodes with these values (rows,) on top of the first scenes, read as evidence."""
        scenes = {name: np.resize(column, rows) for name, column in self.base.items()}
        with quiet_warnings():
            return read_evidence(self.twin, self._rollout({**scenes, **values}, rows)).runs

    def values(self, coalition: Coalition) -> dict[str, Array]:
        """What is drawn when these dimensions are put in."""
        drawn = dict(self.base)
        for dimension in sorted(coalition):
            drawn |= self.measured[dimension].values
        return drawn

    def _evaluate(self, coalitions: Sequence[Coalition]) -> dict[Coalition, Array]:
        alike: dict[tuple[str, ...], list[Coalition]] = {}
        for coalition in coalitions:
            alike.setdefault(tuple(sorted(self._assets(coalition))), []).append(coalition)
        return {c: outcome for part in alike.values() for c, outcome in self._evaluate_alike(part).items()}

    def _evaluate_alike(self, coalitions: Sequence[Coalition]) -> dict[Coalition, Array]:
        """Combinations that put the same photographs on the twin."""
        drawn = [self.values(coalition) for coalition in coalitions]
        names = sorted(set().union(*drawn))
        stacked = {n: np.concatenate([d.get(n, self._nominal(n)) for d in drawn]) for n in names}
        twin = with_assets(self.twin, self._assets(coalitions[0]))
        with quiet_warnings():
            episodes = list(self._rollout(stacked, self.rows, len(coalitions), twin=twin))
        wrong = np.random.default_rng([self.seed, 77]).random(self.rows)
        made = {}
        for index, coalition in enumerate(coalitions):
            mine = episodes[index * self.rows : (index + 1) * self.rows]
            won = np.array([float(episode.success is True) for episode in mine])
            flipped = wrong < self._wrong_verdicts(coalition)
            outcomes = np.where(flipped, 1.0 - won, won)
            reasons = [
                None if o else "misjudged" if f else episode.outcome.failure
                for o, f, episode in zip(outcomes, flipped, mine, strict=True)
            ]
            self.done += self.rows
            self.failures[coalition] = reasons
            self._save(coalition, outcomes, reasons)
            made[coalition] = outcomes
        return made

    def _kept(self, coalition: Coalition) -> Array | None:
        path = self._path(coalition)
        if path is None or not path.exists():
            return None
        kept = json.loads(path.read_text())
        self.failures[coalition] = kept["failures"]
        return np.array(kept["outcomes"], np.float64)

    def _save(self, coalition: Coalition, outcomes: Array, reasons: list[str | None]) -> None:
        path = self._path(coalition)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps({"outcomes": outcomes.tolist(), "failures": reasons}).encode())

    def _path(self, coalition: Coalition) -> Path | None:
        return None if self.keep is None else self.keep / f"{self._name(coalition)}.json"

    def _nominal(self, name: str) -> Array:
        return np.full(self.rows, float(self.twin.parameter(name).nominal))

    def _rollout(
        self,
        drawn: Mapping[str, Array],
        rows: int,
        times: int = 1,
        *,
        twin: Twin | None = None,
    ) -> Iterator[Episode]:
        """Episodes with the same seeds `times` over, so that the same row has the same chance everywhere."""
        seeds = [episode_seed(self.seed, row) for row in range(rows)] * times
        actor = f"{self.policy.name}@{self.policy.id}"
        job = Job(twin or self.twin, self.twin.task, actor)
        return rollout_drawn(job, seeds, drawn, self.threads, lambda setup: PolicyExpert(self.policy, setup))

    def _assets(self, coalition: Coalition) -> dict[str, bytes]:
        """The photographs that these dimensions put on the twin."""
        return {
            name: content
            for dimension in sorted(coalition)
            for name, content in self.photographs.get(dimension, {}).items()
        }

    def _wrong_verdicts(self, coalition: Coalition) -> float:
        return max((self.measured[dimension].wrong_verdicts for dimension in coalition), default=0.0)

    def _name(self, coalition: Coalition) -> str:
        drawn = self.values(coalition)
        digest = hashlib.blake2b(digest_size=12)
        digest.update(f"{self.policy.id} {self.twin.content_hash} {self.rows} {self.seed}".encode())
        digest.update(f" {self._wrong_verdicts(coalition)!r}".encode())
        for name, content in sorted(self._assets(coalition).items()):
            digest.update(name.encode() + content)
        for name in sorted(drawn):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(drawn[name], np.float64).tobytes())
        return digest.hexdigest()
