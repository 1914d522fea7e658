"""What may become a signal of a proposed map: single channels, and channels that belong together, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from twinloop.episode import Array
from twinloop.logs.bundle import Bundle, bundle, split_unit
from twinloop.logs.guess import Guess, guess_role, match_joints
from twinloop.logs.joints import Joints
from twinloop.logs.look import Sample
from twinloop.logs.reader import Channel
from twinloop.logs.units import LOG_UNITS, family_of

LARGEST_ROW = 512
"""Numbers a row; larger arrays are images or point clouds, not signals."""


@dataclass(frozen=True)
class Candidate:
    """Channels (`sources`) as one signal: `values` (n, k), what their names say, and which of the twin's joints they are.

    `columns` picks and orders the numbers of a row; `bundled` and `matched` say why.
    """

    name: str
    sources: tuple[str, ...]
    values: Array
    time_s: Array | None
    elements: tuple[str, ...] = ()
    unit: Guess | None = None
    joints: Joints | None = None
    columns: tuple[int, ...] | None = None
    bundled: Guess | None = None
    matched: Guess | None = None

    @property
    def role(self) -> str | None:
        """The kind of quantity its name speaks of."""
        return guess_role(self.name)


def find_candidates(
    samples: Mapping[str, Sample], channels: Mapping[str, Channel], start: str, joints: Joints | None
) -> list[Candidate]:
    """Every channel of numbers, alone or with those it belongs to, in the log's order; clocks are left alone."""
    usable = {
        name: sample
        for name, sample in samples.items()
        if sample.values.dtype.kind in "biuf" and int(np.prod(sample.values.shape[1:])) <= LARGEST_ROW
    }
    found: dict[str, Candidate] = {}
    for name, sample in usable.items():
        values = sample.values.reshape(len(sample.values), -1)
        channel = channels.get(start + name)
        elements = channel.elements if channel else ()
        single = Candidate(name, (name,), values, sample.time_s, elements, _declared(name, channel))
        found[name] = _with_joints(single, joints)
    scalars = [n for n, c in found.items() if c.values.shape[1] == 1 and c.role != "time"]
    for group in bundle(scalars, joints):
        members = [found[name] for name in group.sources]
        if _together(members):
            joined = _joined(group, members, joints)
            first = group.sources[0]
            found = {n: joined if n == first else c for n, c in found.items() if n not in group.sources[1:]}
    return list(found.values())


def _declared(name: str, channel: Channel | None) -> Guess | None:
    if channel is not None and channel.unit in LOG_UNITS:
        return Guess(str(channel.unit), 0.95, "the log says so")
    unit = split_unit(name)[1]
    if unit is None or (family_of(unit) == "time" and guess_role(name) != "time"):
        return None
    return Guess(unit, 0.97, "its name says so")


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
    arm = [i for i, unit in enumerate(joints.units) if unit == "rad"]
    if count == len(joints):
        return replace(candidate, joints=joints)
    if count == len(arm):  # an arm without its fingers
        return replace(candidate, joints=joints.only(arm))
    return candidate


def _together(members: list[Candidate]) -> bool:
    """Whether channels have the same number of samples at the same times."""
    first = members[0]
    if len({len(member.values) for member in members}) > 1:
        return False
    times = [member.time_s for member in members]
    if any(time is None for time in times):
        return all(time is None for time in times)
    return all(np.array_equal(first.time_s, time) for time in times)  # type: ignore[arg-type]


def _joined(group: Bundle, members: list[Candidate], joints: Joints | None) -> Candidate:
    values = np.hstack([member.values for member in members])
    declared = next((member.unit for member in members if member.unit is not None), None)
    numbers = [joints.find(name) for name in group.elements] if joints is not None else [None]
    known = [number for number in numbers if number is not None]
    return Candidate(
        group.label,
        group.sources,
        values,
        members[0].time_s,
        group.elements,
        declared,
        joints.only(known) if joints is not None and len(known) == len(numbers) else None,
        bundled=group.guess,
    )
