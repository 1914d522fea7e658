"""Evidence: the outcomes of trials by scene, before any judgement.

A `PairedTrial` is one scene in which the candidate acted and, if there is one, the champion. `Evidence` holds the
simulated trials, one for each scene of a list, and the real ones in chronological order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.errors import GateError
from twinloop.records import SavedRecord, load_record, parse_record, read_json
from twinloop.stats.betting import PAIRED, SINGLE, Span


@dataclass(frozen=True)
class PairedTrial:
    """One scene: its number in the list, its values, the outcomes, and the number of simulation artefacts while the
    candidate acted (None: unknown). The champion's are not counted: a failing policy may throw objects about."""

    scene: int
    candidate: bool
    champion: bool | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    artefacts: int | None = 0

    @property
    def difference(self) -> float:
        """Candidate minus champion, or the candidate's success if there is no champion."""
        return float(self.candidate) - float(self.champion or 0)


@dataclass(frozen=True)
class Contender:
    """A policy by name and by the id derived from its weights."""

    name: str
    id: str


@dataclass(frozen=True)
class Evidence(SavedRecord):
    """Trials of a candidate, alone or paired with a champion in the same scenes.

    `drawn_with` is the seed that drew the scenes of the real trials from the list; None: they were not drawn, so
    simulated and real trials cannot be combined.
    """

    FILE, COMMAND = "evidence.json", "twinloop gate --out FOLDER"

    candidate: Contender
    champion: Contender | None
    twin: Mapping[str, str | None]
    simulated: tuple[PairedTrial, ...] = ()
    real: tuple[PairedTrial, ...] = ()
    robot: str | None = None
    standin: bool = False
    drawn_with: int | None = None
    recordings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        paired = self.champion is not None
        for trial in (*self.simulated, *self.real):
            if (trial.champion is not None) != paired:
                raise GateError(
                    f"scene {trial.scene} has no outcome of the champion"
                    if paired
                    else f"scene {trial.scene} has an outcome of a champion, but the evidence names none",
                    remedy="evaluate both policies in the same scenes, or the candidate alone",
                )

    @property
    def span(self) -> Span:
        """The range of an outcome."""
        return SINGLE if self.champion is None else PAIRED

    @property
    def combinable(self) -> bool:
        """Whether every real scene was drawn from a list of which every scene was simulated."""
        if self.drawn_with is None or not self.simulated or not self.real:
            return False
        scenes = [trial.scene for trial in self.simulated]
        chosen = draw_scenes(scenes, self.drawn_with, len(self.real))
        return [trial.scene for trial in self.real] == chosen

    def with_real(self, trial: PairedTrial) -> Evidence:
        """Return a copy with one more real trial."""
        return replace(self, real=(*self.real, trial))


def draw_scenes(scenes: Sequence[int], seed: int, count: int) -> list[int]:
    """Scenes of the first `count` real trials: independent draws from the list, so they may repeat."""
    chosen = np.random.default_rng(np.random.PCG64(seed)).random(count)
    return [scenes[int(u * len(scenes))] for u in chosen]


def differences(trials: Sequence[PairedTrial]) -> Array:
    """Outcomes (n,)."""
    return np.array([trial.difference for trial in trials], dtype=np.float64)


def load_evidence(path: str | Path) -> Evidence:
    """Read the evidence of a gate from its folder or file."""
    return load_record(Evidence, path)


@dataclass(frozen=True)
class EvaluatedPolicy:
    """What a gate needs of an evaluation, as `twinloop evaluate --json` prints it."""

    policy: str
    policy_id: str
    where: str
    seed: int
    standin: bool
    outcomes: tuple[bool | None, ...]
    scenes: tuple[Mapping[str, float | str], ...] | None = None
    artefacts: tuple[int, ...] | None = None
    twin: Mapping[str, str | None] | None = None

    def __post_init__(self) -> None:
        if any(part and len(part) != len(self.outcomes) for part in (self.scenes, self.artefacts)):
            raise ValueError("outcomes, scenes and artefacts differ in number")

    @property
    def series(self) -> tuple[Any, ...]:
        """Two policies can be paired if these are equal."""
        return self.where, self.seed, self.standin, self.twin, len(self.outcomes)


@dataclass(frozen=True)
class Evaluated:
    """Trials of one file, and the robot or twin (name, version, hash) they ran on."""

    trials: tuple[PairedTrial, ...]
    where: str
    standin: bool
    twin: Mapping[str, str | None] | None


def make_evidence(
    candidate: Contender,
    champion: Contender | None,
    twin: Mapping[str, str | None],
    *,
    simulated: str | Path | None = None,
    real: str | Path | None = None,
) -> Evidence:
    """Build evidence from the output of `twinloop evaluate --json`: simulated trials, and trials on a robot or stand-in."""
    evidence = Evidence(candidate, champion, twin)
    if simulated is not None:
        evaluated = load_trials(simulated, candidate, champion)
        if evaluated.twin is None:
            raise GateError(
                f"{simulated} was not simulated in a twin",
                got=f"{'stand-in' if evaluated.standin else 'robot'} {evaluated.where}",
                remedy="give it as --real-evidence",
            )
        evidence = replace(evidence, simulated=evaluated.trials, twin=evaluated.twin)
    if real is not None:
        evaluated = load_trials(real, candidate, champion)
        if evaluated.twin is not None:
            raise GateError(
                f"{real} was simulated",
                got=f"trials in twin {evaluated.where}",
                expected="trials on a robot",
                remedy="give it as --sim-evidence, or run twinloop evaluate --robot ... --json",
            )
        evidence = replace(evidence, real=evaluated.trials, robot=evaluated.where, standin=evaluated.standin)
    return evidence


def load_trials(path: str | Path, candidate: Contender, champion: Contender | None) -> Evaluated:
    """Read the trials of these two policies from the output of `twinloop evaluate --json`."""
    file, expected = Path(path), "what `twinloop evaluate --json` prints"
    content = read_json(file, expected)
    entries = content.get("evaluations") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise GateError(f"{path} holds no evaluations", remedy="twinloop evaluate ... --json > FILE")
    by_id = {
        one.policy_id: one for one in (parse_record(EvaluatedPolicy, e, file, expected) for e in entries)
    }
    for contender in (candidate, champion) if champion else (candidate,):
        if contender.id not in by_id:
            raise GateError(
                f"{path} has no evaluation of {contender.name} ({contender.id})",
                available=[f"{one.policy} ({one.policy_id})" for one in by_id.values()],
            )
    if any("twin" not in entry and not entry["standin"] for entry in entries):
        raise GateError(
            f"{path} does not state whether it was simulated",
            expected='"twin": null for a robot',
            remedy="evaluate again: twinloop evaluate ... --json",
        )
    first, second = by_id[candidate.id], by_id[champion.id] if champion else None
    if second is not None and first.series != second.series:
        raise GateError(
            f"{path}: the two policies were evaluated in different scenes", remedy="evaluate them together"
        )
    pairs = list(
        zip(first.outcomes, second.outcomes if second else [None] * len(first.outcomes), strict=True)
    )
    # An unjudged trial says nothing about either policy.
    judged = [
        number
        for number, (own, other) in enumerate(pairs)
        if own is not None and (not second or other is not None)
    ]
    trials = tuple(
        PairedTrial(
            scene=number + (first.seed if first.standin else 0),
            candidate=pairs[number][0] is True,
            champion=pairs[number][1],
            values={n: v for n, v in first.scenes[number].items() if not isinstance(v, str)}
            if first.scenes
            else {},
            artefacts=None if first.artefacts is None else first.artefacts[number],
        )
        for number in judged
    )
    return Evaluated(trials, first.where, first.standin, first.twin)
