"""Candidates for signals of a proposed map: single channels, and bundles of channels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from twinloop.episode import Array
from twinloop.logs.bundle import Bundle, find_bundles, split_unit
from twinloop.logs.guess import Guess, guess_role, is_of_joints, match_joints
from twinloop.logs.joints import Joints
from twinloop.logs.reader import Block, Channel
from twinloop.logs.units import LOG_UNITS, family_of

MAX_ROW_SIZE = 512
"""Elements per row; larger arrays are images or point clouds, not signals."""


@dataclass(frozen=True)
class Candidate:
    """Channels (`sources`) as one signal: `values` (n, k), element names and unit, and the twin's joints they match.

    `columns` selects and orders the elements of a row; `place` is the number of a single column of a table; `bundled`, `matched` and `ordered` give the reasons.
    """

    name: str
    sources: tuple[str, ...]
    values: Array
    time_s: Array | None
    elements: tuple[str, ...] = ()
    unit: Guess | None = None
    joints: Joints | None = None
    columns: tuple[int | str, ...] | None = None
    place: int | None = None
    bundled: Guess | None = None
    matched: Guess | None = None
    ordered: Guess | None = None

    @property
    def role(self) -> str | None:
        """The kind of quantity, from its name."""
        return guess_role(self.name)


def find_candidates(
    samples: Mapping[str, Block], channels: Mapping[str, Channel], start: str, joints: Joints | None
) -> list[Candidate]:
    """Find candidates among the numeric channels, in the log's order; clocks are not bundled."""
    usable = {
        name: sample
        for name, sample in samples.items()
        if sample.values.dtype.kind in "biuf" and int(np.prod(sample.values.shape[1:])) <= MAX_ROW_SIZE
    }
    candidates: dict[str, Candidate] = {}
    for name, sample in usable.items():
        values = sample.values.reshape(len(sample.values), -1)
        channel = channels.get(start + name)
        elements = channel.elements if channel else ()
        if len(elements) == values.shape[1] and _is_table(elements):
            candidates |= _columns(name, values, sample.time_s, elements)
            continue
        single = Candidate(name, (name,), values, sample.time_s, elements, _declared_unit(name, channel))
        candidates[name] = _with_joints(single, joints)
    scalars = [n for n, c in candidates.items() if c.values.shape[1] == 1 and c.role != "time"]
    for group in find_bundles(scalars, joints):
        members = [candidates[name] for name in group.sources]
        if _same_times(members):
            joined = _join(group, members, joints)
            first = group.sources[0]
            candidates = {
                n: joined if n == first else c for n, c in candidates.items() if n not in group.sources[1:]
            }
    return list(candidates.values())


def _is_table(elements: tuple[str, ...]) -> bool:
    """Return whether columns hold several quantities, by their names."""
    roles = {guess_role(element) for element in elements} - {None}
    return "time" in roles or len(roles) > 1


def _columns(
    name: str, values: Array, time_s: Array | None, elements: tuple[str, ...]
) -> dict[str, Candidate]:
    """Return each column of a table as a candidate."""
    return {
        element: Candidate(
            element,
            (name,),
            values[:, [place]],
            time_s,
            unit=_declared_unit(element, None),
            columns=(element,),
            place=place,
        )
        for place, element in enumerate(elements)
    }


def _declared_unit(name: str, channel: Channel | None) -> Guess | None:
    if channel is not None and channel.unit in LOG_UNITS:
        return Guess(str(channel.unit), 0.95, "declared in the log")
    unit = split_unit(name)[1]
    if unit is None or (family_of(unit) == "time" and guess_role(name) != "time"):
        return None
    return Guess(unit, 0.97, "from its name")


def _with_joints(candidate: Candidate, joints: Joints | None) -> Candidate:
    matched = match_joints(candidate.elements, joints)
    if matched is not None:
        columns, those, why = matched
        return replace(
            candidate,
            values=candidate.values[:, columns],
            columns=tuple(columns),
            elements=those.names,
            joints=those,
            matched=why,
        )
    count = candidate.values.shape[1]
    if joints is None or candidate.elements or count < 2:
        return candidate
    return _in_order(candidate, joints)


def _in_order(candidate: Candidate, joints: Joints) -> Candidate:
    """Take elements without names, or with numbers only, for the twin's joints in order, if it has as many."""
    places = [place for place in joints.known.match((), candidate.values.shape[1]) if place is not None]
    if not places or not is_of_joints(candidate.name):
        return candidate
    those = joints.select(places)
    why = Guess("", 0.7, "as many as the twin has, taken in its order")
    return replace(candidate, joints=those, elements=those.names, ordered=why)


def _same_times(members: list[Candidate]) -> bool:
    """Return whether channels have the same number of samples at the same times."""
    counts = {len(member.values) for member in members}
    stamped = [member.time_s for member in members if member.time_s is not None]
    if len(counts) > 1 or len(stamped) not in (0, len(members)):
        return False
    one_table = len({member.sources for member in members if member.columns is not None}) <= 1
    return one_table and all(np.array_equal(stamped[0], time_s) for time_s in stamped)


def _join(group: Bundle, members: list[Candidate], joints: Joints | None) -> Candidate:
    values = np.hstack([member.values for member in members])
    declared = next((member.unit for member in members if member.unit is not None), None)
    numbers = joints.known.match(group.elements, len(group.elements)) if joints is not None else (None,)
    known = [number for number in numbers if number is not None]
    joined = Candidate(
        group.label,
        tuple(dict.fromkeys(source for member in members for source in member.sources)),
        values,
        members[0].time_s,
        group.elements,
        declared,
        joints.select(known) if joints is not None and len(known) == len(numbers) else None,
        columns=group.sources if members[0].columns is not None else None,
        bundled=group.guess,
    )
    return _in_order(joined, joints) if joints is not None and group.numbered and not known else joined
