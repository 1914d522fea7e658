"""Which features have changed since the reference, and what kind of change that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from twinloop.episode import Array
from twinloop.identification.change import FEWEST, watch
from twinloop.monitoring.features import GROUPS, Group, group_of

CHANCE, WATCHED = 0.02, 100
"""Probability of a false alarm in any feature, in this many episodes: at most one in 5,000 episodes."""
MISSING = 0.2
"""A feature that is missing in a larger fraction of the reference is ignored."""
SPREAD = "spread of "
CameraCause = Literal["moved camera", "dirty lens", "changed light"]
MOVED_PX, DULLED = 0.75, 0.1
"""Pixels by which an image has moved, and the part of its places that have lost detail, from which on that is what happened."""


@dataclass(frozen=True)
class Shift:
    """A feature that changed: since which deployed episode, when it was detected, and by how many robust standard deviations.

    `values` are those of the deployed episodes in order, without a baseline among them.
    """

    feature: str
    group: Group
    began: int
    noticed: int
    before: float
    after: float
    size: float
    values: tuple[float, ...] = ()


def find_shifts(
    reference: Sequence[Mapping[str, float]],
    deployed: Sequence[Mapping[str, float]],
    *,
    chance: float = CHANCE,
    watched: int = WATCHED,
) -> tuple[Shift, ...]:
    """Every feature that changed, the largest change first; `chance` bounds a false alarm over all features together."""
    if len(reference) < FEWEST or not deployed:
        return ()
    table = {name: _series(name, reference, deployed) for name in _watched(reference)}
    # A scene may also vary more than before around the same median.
    for name in [n for n in table if n.startswith("scene.")]:
        middle = float(np.median(table[name][: len(reference)]))
        table[f"{name}{SPREAD}"] = np.abs(table[name] - middle)
    found = []
    for name, values in table.items():
        seen = watch(
            values,
            np.ones(len(values)),
            len(reference),
            chance=chance,
            watched=watched,
            series=len(table),
        )
        if seen.alarm is None or seen.began is None:
            continue
        usual, after = values[: len(reference)], values[seen.began :]
        scatter = max(1.4826 * float(np.median(np.abs(usual - np.median(usual)))), 1e-12)
        before, now = float(np.median(usual)), float(np.median(after))
        if name.endswith(SPREAD) and now <= before:
            continue  # a scene that varies less than before does no harm
        label = f"{SPREAD}{name.removesuffix(SPREAD)}" if name.endswith(SPREAD) else name
        found.append(
            Shift(
                label,
                group_of(name),
                seen.began - len(reference),
                seen.alarm - len(reference),
                before,
                now,
                abs(now - before) / scatter,
                tuple(values[len(reference) :].tolist()),
            )
        )
    return tuple(sorted(found, key=lambda shift: -shift.size))


def kind_of(shifts: Sequence[Shift]) -> Group | None:
    """The group with the largest change; None if nothing changed."""
    if not shifts:
        return None
    sizes = {group: max((s.size for s in shifts if s.group == group), default=0.0) for group in GROUPS}
    return max(GROUPS, key=lambda group: sizes[group])


def camera_cause_of(shifts: Sequence[Shift]) -> CameraCause | None:
    """What happened to a camera; None if none of its features changed.

    A camera that moved shows the same things elsewhere; a dirty lens, or one out of focus, shows them in place with less detail; changed
    light shows them in place and in detail.
    """
    own = [shift for shift in shifts if shift.group == "camera"]
    if not own:
        return None
    if any(s.feature.startswith("camera.shift.") and abs(s.after - s.before) >= MOVED_PX for s in own):
        return "moved camera"
    if any(s.feature.startswith("camera.dulled.") and s.after - s.before >= DULLED for s in own):
        return "dirty lens"
    return "changed light"


def _watched(reference: Sequence[Mapping[str, float]]) -> list[str]:
    names = sorted(set().union(*reference))
    return [n for n in names if sum(n not in row for row in reference) <= MISSING * len(reference)]


def _series(
    name: str, reference: Sequence[Mapping[str, float]], deployed: Sequence[Mapping[str, float]]
) -> Array:
    """Values in the reference, then in deployment; missing ones are replaced by the reference median."""
    usual = float(np.median([row[name] for row in reference if name in row]))
    return np.array([row.get(name, usual) for row in (*reference, *deployed)])
