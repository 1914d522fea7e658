"""What a plan is made from: points lost by dimension, regions that simulation does not cover, parameters nobody knows.

Read from files that other commands wrote, or the folders they are in: `diagnose --out`, `coverage --out`, `identify --out` and
items of the coverage map.
A diagnosis may also be written by hand, in points:
`{"losses": [{"dimension", "points", "low", "high"}], "failures": [{"condition", "failed", "episodes"}], "successes", "trials"}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinloop.coverage.result import Coverage
from twinloop.diagnosis.result import Cost, Diagnosis, load_diagnosis
from twinloop.errors import WrongUse, describe_read_error
from twinloop.identification.result import Identification

FORCE_WORDS = ("force", "torque", "effort", "contact", "wrench")
"""A region in one of these cannot be filled by simulation alone."""

_ROBOTS_OWN = re.compile(r"^(action|state|velocity) |\.(target|pos|vel)$")


@dataclass(frozen=True)
class Loss:
    """Success points that a dimension costs, with the 95 % interval."""

    dimension: str
    points: float
    low: float
    high: float


@dataclass(frozen=True)
class Slice:
    """How often episodes under one condition failed."""

    condition: str
    failed: int
    episodes: int


@dataclass(frozen=True)
class Span:
    """A variable within a range, or a field that says a word; an open end is None."""

    name: str
    unit: str = "1"
    low: float | None = None
    high: float | None = None
    word: str | None = None
    seen: tuple[float, float] | None = None

    @property
    def reach(self) -> tuple[float, float] | None:
        """Finite ends: the range's own, or where real data was seen; None where neither is known."""
        low, high = (
            (self.low, self.high)
            if self.seen is None
            else (
                self.seen[0] if self.low is None else self.low,
                self.seen[1] if self.high is None else self.high,
            )
        )
        return None if low is None or high is None else (low, max(low, high))

    @property
    def forced(self) -> bool:
        """Whether it is regulated by force."""
        return any(word in self.name for word in FORCE_WORDS)

    @property
    def arranged(self) -> bool:
        """Whether somebody can set it before an episode: not what a robot does on the way, nor how high things lie."""
        plain = self.name.removesuffix(" at the start")
        if self.word is not None or self.forced:
            return True
        return not plain.endswith(".z") and (plain != self.name or _ROBOTS_OWN.search(plain) is None)

    def __str__(self) -> str:
        if self.word is not None:
            return f"{self.name} is {self.word!r}"
        unit = "" if self.unit in ("1", "unknown") else f" {self.unit}"
        if self.low is None:
            return f"{self.name} below {self.high:.3g}{unit}"
        if self.high is None:
            return f"{self.name} above {self.low:.3g}{unit}"
        return f"{self.name} between {self.low:.3g} and {self.high:.3g}{unit}"


@dataclass(frozen=True)
class Hole:
    """A region of real data without simulated data. `share` of real data in it; failures inside and elsewhere, of known ones."""

    name: str
    level: str
    spans: tuple[Span, ...]
    query: str
    share: float
    episodes: int
    failed_inside: int = 0
    known_inside: int = 0
    failed_elsewhere: int = 0
    known_elsewhere: int = 0


@dataclass(frozen=True)
class Unidentified:
    """A parameter that the data so far do not tell well enough; `vague` is its half width over its size."""

    name: str
    dimension: str
    unit: str
    status: str
    vague: float


@dataclass(frozen=True)
class Needs:
    """Everything that speaks for recording something. `successes` of `trials` real episodes, where somebody counted.

    `identified` are dimensions whose parameters are all known already.
    """

    losses: tuple[Loss, ...] = ()
    slices: tuple[Slice, ...] = ()
    holes: tuple[Hole, ...] = ()
    unidentified: tuple[Unidentified, ...] = ()
    identified: frozenset[str] = frozenset()
    successes: int | None = None
    trials: int | None = None
    twin: str | None = None

    def loss(self, dimension: str) -> Loss | None:
        """What the diagnosis says about a dimension."""
        return next((one for one in self.losses if one.dimension == dimension), None)


def read_needs(
    diagnosis: Diagnosis | str | Path | None = None,
    coverage: Coverage | str | Path | None = None,
    identification: Identification | str | Path | None = None,
    items: Sequence[str | Path] = (),
) -> Needs:
    """Needs from results, or from the files that other commands wrote."""
    losses: tuple[Loss, ...] = ()
    slices: tuple[Slice, ...] = ()
    successes = trials = twin = None
    holes: list[Hole] = []
    unidentified: tuple[Unidentified, ...] = ()
    identified: frozenset[str] = frozenset()
    if diagnosis is not None:
        words = {} if isinstance(diagnosis, Diagnosis) else _load(diagnosis, "a diagnosis", "costs", "losses")
        if not isinstance(diagnosis, Diagnosis) and "losses" in words:
            losses = tuple(_each(diagnosis, words["losses"], _loss))
            slices = tuple(_each(diagnosis, words.get("failures") or [], _slice))
            successes, trials, twin = words.get("successes"), words.get("trials"), words.get("twin")
        else:
            found = diagnosis if isinstance(diagnosis, Diagnosis) else load_diagnosis(diagnosis)
            losses = tuple(_loss_of(cost) for cost in found.named)
            slices = tuple(half for part in found.slices for half in _halves(part))
            successes, trials, twin = found.successes, found.trials, found.twin
    if coverage is not None:
        words = _load(coverage, "a coverage", "regions")
        holes += _each(coverage, words["regions"], _hole)
        if trials is None and words.get("real", {}).get("known"):
            successes, trials = words["real"]["succeeded"], words["real"]["known"]
        twin = words.get("twin") or twin
    for item in items:
        holes.append(_each(item, [_load(item, "a plan item", "conditions")], _item)[0])
    if identification is not None:
        words = _load(identification, "an identification", "estimates")
        unidentified = tuple(u for u in _each(identification, words["estimates"], _unidentified) if u)
        known = {str(e["dimension"]) for e in words["estimates"] if e["status"] == "identifiable"}
        identified = frozenset(known - {u.dimension for u in unidentified})
        twin = words.get("twin") or twin
    return Needs(losses, slices, tuple(holes), unidentified, identified, successes, trials, twin)


def _load(source: Coverage | Identification | str | Path, what: str, *keys: str) -> dict[str, Any]:
    """A result's JSON, or a JSON mapping with one of the keys; in a folder, the file that is called like what it holds."""
    if not isinstance(source, str | Path):
        return source.as_json()
    file = Path(source)
    file = file / f"{what.split()[-1]}.json" if file.is_dir() else file
    try:
        words = json.loads(file.read_text())
    except OSError as error:
        raise WrongUse(
            f"cannot read {file}",
            got=error.strerror,
            expected=what,
            remedy="give the file or folder that the command's --out wrote",
        ) from error
    except ValueError as error:
        raise WrongUse(f"{file} is not JSON", got=str(error), expected=what) from error
    if not isinstance(words, dict) or not any(key in words for key in keys):
        raise WrongUse(f"{file} is not {what}", expected=f"a mapping with {' or '.join(map(repr, keys))}")
    return words


def _each(path: object, entries: Any, read: Any) -> list[Any]:
    try:
        return [read(entry) for entry in entries]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WrongUse(
            f"{path} cannot be read",
            got=describe_read_error(error),
            remedy="write it again with this version",
        ) from error


def _loss_of(cost: Cost) -> Loss:
    lost = cost.lost
    return Loss(cost.dimension, 100.0 * lost.value, 100.0 * lost.low, 100.0 * lost.high)


def _loss(entry: Mapping[str, Any]) -> Loss:
    """A loss that was written by hand, in points."""
    return Loss(str(entry["dimension"]), *(float(entry[name]) for name in ("points", "low", "high")))


def _slice(entry: Mapping[str, Any]) -> Slice:
    """A condition that was written by hand."""
    return Slice(str(entry["condition"]), int(entry["failed"]), int(entry["episodes"]))


def _halves(entry: Mapping[str, Any]) -> list[Slice]:
    """The two halves into which `diagnose` cuts a condition."""
    made = []
    for half, word in (("lower", "below"), ("upper", "above")):
        won, of = entry[half]
        made.append(
            Slice(f"{entry['condition']} {word} {entry['split_at']:.3g}", int(of) - int(won), int(of))
        )
    return made


def _span(entry: Mapping[str, Any]) -> Span:
    if "field" in entry:
        return Span(str(entry["field"]), word=str(entry["word"]))
    return Span(
        str(entry["variable"]),
        str(entry.get("unit") or "1"),
        entry["low"],
        entry["high"],
        seen=tuple(entry["seen"]) if entry.get("seen") else None,
    )


def _hole(entry: Mapping[str, Any]) -> Hole:
    """A region, or the part of it in which episodes fail: the rest does not need more data."""
    entry = entry.get("worst") or entry
    ended = entry["outcomes"]
    return Hole(
        str(entry["name"]),
        str(entry["level"]),
        tuple(_span(one) for one in entry["conditions"]),
        str(entry["query"]),
        float(entry["fraction"]),
        len(entry["episodes"]),
        *(
            int(ended[name])
            for name in ("failed_inside", "known_inside", "failed_elsewhere", "known_elsewhere")
        ),
    )


def _item(entry: Mapping[str, Any]) -> Hole:
    """What the lasso of the coverage map downloads: chosen by hand, so its share is not known."""
    return Hole(
        str(entry["name"]),
        str(entry["level"]),
        tuple(_span(one) for one in entry["conditions"]),
        str(entry["query"]),
        0.0,
        len(entry["episodes"]),
        failed_inside=int(entry.get("failed", 0)),
        known_inside=len(entry["episodes"]),
    )


def _unidentified(entry: Mapping[str, Any]) -> Unidentified | None:
    if entry["status"] == "identifiable":
        return None
    half = 0.5 * (float(entry["high"]) - float(entry["low"]))
    prior = entry.get("prior") or (entry["low"], entry["high"])
    size = max(abs(float(entry["value"])), 0.02 * (float(prior[1]) - float(prior[0])), 1e-12)
    return Unidentified(
        str(entry["name"]), str(entry["dimension"]), str(entry["unit"]), str(entry["status"]), half / size
    )
