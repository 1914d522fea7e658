"""Evidence: what happened in which scene, before anybody judges it.

A `PairedTrial` is one scene in which the candidate acted and, where there is one, the champion too. `Evidence` holds the
simulated trials, one for each scene of a list, and the real ones in the order they were made.
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
    """One scene: its number in the list, its values, how it ended, and how many artefacts the simulator showed
    while the candidate acted (None: nobody counted): a champion that fails may throw things about."""

    scene: int
    candidate: bool
    champion: bool | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    artefacts: int | None = 0

    @property
    def difference(self) -> float:
        """Candidate minus champion, or the candidate's success where there is no champion."""
        return float(self.candidate) - float(self.champion or 0)


@dataclass(frozen=True)
class Contender:
    """A policy by name and by the id that follows from its weights."""

    name: str
    id: str


@dataclass(frozen=True)
class Evidence:
    """Trials of a candidate, with a champion in the same scenes or alone.

    `drawn_with` is the seed that drew the scenes of the real trials from the list; None says that they were not drawn, so
    that simulated and real trials cannot be combined.
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
                    f"scene {trial.scene} does not say how the champion did"
                    if paired
                    else f"scene {trial.scene} has a champion that nobody named",
                    remedy="evaluate both policies in the same scenes, or the candidate alone",
                )

    @property
    def span(self) -> Span:
        """The range of an outcome."""
        return SINGLE if self.champion is None else PAIRED

    @property
    def combinable(self) -> bool:
        """Whether every real scene was drawn from a list that was simulated whole."""
        if self.drawn_with is None or not self.simulated or not self.real:
            return False
        scenes = [trial.scene for trial in self.simulated]
        chosen = draw_scenes(scenes, self.drawn_with, len(self.real))
        return [trial.scene for trial in self.real] == chosen

    def with_real(self, trial: PairedTrial) -> Evidence:
        """The same with one more real trial."""
        return replace(self, real=(*self.real, trial))

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"format": FORMAT, **asdict(self)}


def draw_scenes(scenes: Sequence[int], seed: int, count: int) -> list[int]:
    """Scenes of the first `count` real trials: independent draws from the list, so that they may repeat."""
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
    words = _read(Path(path))
    try:
        if words["format"] > FORMAT:
            raise NewerFormat(
                f"{path} was written by a newer Twinloop", remedy="pip install --upgrade twinloop"
            )
        return Evidence(
            candidate=Contender(**words["candidate"]),
            champion=Contender(**words["champion"]) if words["champion"] else None,
            twin=words["twin"],
            simulated=tuple(PairedTrial(**line) for line in words["simulated"]),
            real=tuple(PairedTrial(**line) for line in words["real"]),
            robot=words["robot"],
            standin=bool(words["standin"]),
            drawn_with=words["drawn_with"],
            recordings=tuple(words["recordings"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise GateError(
            f"{path} is no evidence of a gate ({error})", remedy="twinloop gate ... --out FOLDER writes it"
        ) from error


@dataclass(frozen=True)
class Evaluated:
    """Trials of one file: on which robot, or in which twin (name, version, hash)."""

    trials: tuple[PairedTrial, ...]
    where: str
    standin: bool
    twin: Mapping[str, str | None] | None


def evidence_of(
    candidate: Contender,
    champion: Contender | None,
    twin: Mapping[str, str | None],
    *,
    simulated: str | Path | None = None,
    real: str | Path | None = None,
) -> Evidence:
    """Evidence from files of `twinloop evaluate --json`: one of a twin, one of a robot or a stand-in for one."""
    found = Evidence(candidate, champion, twin)
    if simulated is not None:
        made = load_trials(simulated, candidate, champion)
        if made.twin is None:
            raise GateError(
                f"{simulated} was not simulated in a twin",
                got=f"{'stand-in' if made.standin else 'robot'} {made.where}",
                remedy="give it as --real-evidence",
            )
        found = replace(found, simulated=made.trials, twin=made.twin)
    if real is not None:
        made = load_trials(real, candidate, champion)
        if made.twin is not None:
            raise GateError(
                f"{real} was simulated",
                got=f"trials in twin {made.where}",
                expected="trials on a robot",
                remedy="give it as --sim-evidence, or run twinloop evaluate --robot ... --json",
            )
        found = replace(found, real=made.trials, robot=made.where, standin=made.standin)
    return found


def load_trials(path: str | Path, candidate: Contender, champion: Contender | None) -> Evaluated:
    """Trials from the JSON of `twinloop evaluate --json`, for these two policies; numbered as they were evaluated."""
    words = _read(Path(path))
    evaluations = words.get("evaluations") if isinstance(words, dict) else None
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
                    f"{path} does not say whether it was simulated",
                    expected='"twin": null for a robot',
                    remedy="evaluate again: twinloop evaluate ... --json",
                )
        if second and _scenes_of(first) != _scenes_of(second):
            raise GateError(f"{path}: the two policies met different scenes", remedy="evaluate them together")
        theirs = second["outcomes"] if second else [None] * len(first["outcomes"])
        if len(theirs) != len(first["outcomes"]):
            raise GateError(f"{path}: the two policies met different numbers of scenes")
        start = int(first["seed"]) if first["standin"] else 0
        scenes = first.get("scenes") or [{} for _ in first["outcomes"]]
        told = first.get("artefacts")
        counts = [None] * len(theirs) if told is None else [int(count) for count in told]
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
