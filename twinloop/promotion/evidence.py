"""Evidence: the outcomes of trials by scene, before any judgement.

A `PairedTrial` is one scene in which the candidate acted and, if there is one, the champion. `Evidence` holds the
simulated trials, one for each scene of a list, and the real ones in chronological order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.datasets.commit import write_atomically
from twinloop.errors import GateError, NewerFormat, WrongUse
from twinloop.stats.betting import PAIRED, SINGLE, Span

Array = NDArray[Any]

FORMAT = 1


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
class Evidence:
    """Trials of a candidate, alone or paired with a champion in the same scenes.

    `drawn_with` is the seed that drew the scenes of the real trials from the list; None: they were not drawn, so
    simulated and real trials cannot be combined.
    """

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

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"format": FORMAT, **asdict(self)}


def draw_scenes(scenes: Sequence[int], seed: int, count: int) -> list[int]:
    """Scenes of the first `count` real trials: independent draws from the list, so they may repeat."""
    chosen = np.random.default_rng(np.random.PCG64(seed)).random(count)
    return [scenes[int(u * len(scenes))] for u in chosen]


def differences(trials: Sequence[PairedTrial]) -> Array:
    """Outcomes (n,)."""
    return np.array([trial.difference for trial in trials], dtype=np.float64)


def save_evidence(evidence: Evidence, path: str | Path) -> Path:
    """Write one JSON file."""
    target = Path(path)
    write_atomically(target, (json.dumps(evidence.as_json(), indent=1) + "\n").encode())
    return target


def load_evidence(path: str | Path) -> Evidence:
    """Read what `save_evidence` wrote."""
    content = _read(Path(path))
    try:
        if content["format"] > FORMAT:
            raise NewerFormat(
                f"{path} was written by a newer Twinloop", remedy="pip install --upgrade twinloop"
            )
        return Evidence(
            candidate=Contender(**content["candidate"]),
            champion=Contender(**content["champion"]) if content["champion"] else None,
            twin=content["twin"],
            simulated=tuple(PairedTrial(**line) for line in content["simulated"]),
            real=tuple(PairedTrial(**line) for line in content["real"]),
            robot=content["robot"],
            standin=bool(content["standin"]),
            drawn_with=content["drawn_with"],
            recordings=tuple(content["recordings"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise GateError(
            f"{path} does not hold the evidence of a gate ({error})",
            remedy="twinloop gate ... --out FOLDER writes it",
        ) from error


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
    content = _read(Path(path))
    evaluations = content.get("evaluations") if isinstance(content, dict) else None
    if not isinstance(evaluations, list):
        raise GateError(f"{path} holds no evaluations", remedy="twinloop evaluate ... --json > FILE")
    try:
        by_id = {entry["policy_id"]: entry for entry in evaluations}
        first = by_id.get(candidate.id)
        second = by_id.get(champion.id) if champion else None
        if first is None or (champion and second is None):
            missing = candidate if first is None else champion
            assert missing is not None
            raise GateError(
                f"{path} has no evaluation of {missing.name} ({missing.id})",
                available=[f"{entry['policy']} ({entry['policy_id']})" for entry in evaluations],
            )
        for entry in (first, second) if second else (first,):
            if "twin" not in entry and not entry["standin"]:
                raise GateError(
                    f"{path} does not state whether it was simulated",
                    expected='"twin": null for a robot',
                    remedy="evaluate again: twinloop evaluate ... --json",
                )
        if second and _scenes_of(first) != _scenes_of(second):
            raise GateError(
                f"{path}: the two policies were evaluated in different scenes",
                remedy="evaluate them together",
            )
        theirs = second["outcomes"] if second else [None] * len(first["outcomes"])
        if len(theirs) != len(first["outcomes"]):
            raise GateError(f"{path}: the two policies were evaluated in different numbers of scenes")
        start = int(first["seed"]) if first["standin"] else 0
        scenes = first.get("scenes") or [{} for _ in first["outcomes"]]
        artefacts = first.get("artefacts")
        counts = [None] * len(theirs) if artefacts is None else [int(count) for count in artefacts]
        rows = enumerate(zip(first["outcomes"], theirs, scenes, counts, strict=True))
        trials = tuple(
            PairedTrial(start + k, bool(won), None if other is None else bool(other), values, count)
            for k, (won, other, values, count) in rows
        )
        twin = dict(first["twin"]) if first.get("twin") is not None else None
        return Evaluated(trials, str(first["where"]), bool(first["standin"]), twin)
    except (KeyError, TypeError, ValueError) as error:
        raise GateError(f"{path} cannot be read as evaluations ({error})") from error


def _scenes_of(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return entry["where"], entry["seed"], entry["standin"], entry.get("twin")


def _read(path: Path) -> Any:
    if not path.is_file():
        raise WrongUse(f"{path} does not exist", expected="a JSON file with evidence")
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise GateError(f"{path} is not JSON ({error})") from error
