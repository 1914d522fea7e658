"""Bundles of channels that belong together by name: `joint1 ... joint6`, `x y z`, `qw qx qy qz`, `elbow_cmd wrist_cmd`.

Pure functions of names. A unit at the end of a name is recognized: `angle_deg`, `tcp_x_mm`, `time_ms`, `speed [rad/s]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from twinloop.errors import UnknownName
from twinloop.logs.guess import Guess, guess_role
from twinloop.logs.joints import Joints
from twinloop.logs.units import known_unit

_SUFFIXES = dict(
    pair.split("=")
    for pair in (
        "deg=deg degrees=deg rad=rad radians=rad mrad=mrad mm=mm cm=cm m=m s=s sec=s ms=ms us=us ns=ns "
        "rad_s=rad/s rads=rad/s radps=rad/s deg_s=deg/s degps=deg/s dps=deg/s rpm=rpm m_s=m/s mps=m/s mm_s=mm/s "
        "nm=N·m mnm=mN·m newton=N volts=V amps=A ma=mA kg=kg hz=Hz percent=% pct=%"
    ).split()
)
"""Unit suffixes after an underscore; longer ones are tried first."""


@dataclass(frozen=True)
class Bundle:
    """Channels that form one signal; `label` is their common name."""

    label: str
    sources: tuple[str, ...]
    elements: tuple[str, ...]
    guess: Guess


def split_unit(name: str) -> tuple[str, str | None]:
    """Split a channel's name into name and unit: ("elbow", "deg") for `elbow_deg` or `elbow [deg]`."""
    bracket = re.fullmatch(r"(.*?)[\s_]*[\[(]([^\])]+)[\])]", name)
    if bracket:
        try:
            return bracket[1], known_unit(bracket[2].strip())
        except UnknownName:
            return name, None
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if name.lower().endswith(f"_{suffix}") and len(name) > len(suffix) + 1:
            return name[: -len(suffix) - 1], _SUFFIXES[suffix]
    return name, None


def find_bundles(names: Sequence[str], joints: Joints | None = None) -> list[Bundle]:
    """Find bundles among scalar channels; each channel is in at most one."""
    left = list(names)
    bundles: list[Bundle] = []
    for rule in (_by_twin, _by_letters, _by_number, _by_stem):
        for group in rule(left, joints):
            bundles.append(group)
            left = [name for name in left if name not in group.sources]
    return bundles


def _by_twin(names: Sequence[str], joints: Joints | None) -> Iterator[Bundle]:
    """Bundle channels named after the twin's joints, in the twin's order, one bundle per role."""
    if joints is None:
        return
    groups: dict[tuple[str, str | None], dict[int, str]] = {}
    for name in names:
        stem, unit = split_unit(name)
        base, role = _without_role(stem)
        number = joints.find(base)
        if number is None:
            number, role = joints.find(stem), ""
        if number is not None:
            groups.setdefault((role or "position", unit), {})[number] = name
    for (role, _), members in groups.items():
        numbers = sorted(members)
        if len(numbers) < 2 and len(joints) > 1:
            continue
        missing = [joints.names[i] for i in range(len(joints)) if i not in members]
        reason = f"named after the twin's joints{f', but for {chr(44).join(missing)}' if missing else ''}"
        why = Guess("", 0.8 if missing else 0.95, reason)
        yield Bundle(role, tuple(members[i] for i in numbers), tuple(joints.names[i] for i in numbers), why)


def _by_letters(names: Sequence[str], _: Joints | None) -> Iterator[Bundle]:
    """Bundle x, y, z, and w, x, y, z, at the end of otherwise equal names."""
    groups: dict[tuple[str, str | None], dict[str, str]] = {}
    for name in names:
        stem, unit = split_unit(name)
        match = re.fullmatch(r"(|.*[._\-/ ]|.*q|.*quat)([wxyz])", stem.lower())
        if match:
            groups.setdefault((stem[: match.end(1)], unit), {})[match[2]] = name
    for (stem, _unit), members in groups.items():
        label = stem.strip("._-/ ")
        if members.keys() == set("wxyz"):
            label = label if guess_role(label) == "quaternion" else f"{label}_quat".strip("_")
            why = Guess("", 0.95, "w, x, y and z of one rotation")
        elif members.keys() == set("xyz"):
            label = label if guess_role(label) else f"{label}_xyz".strip("_")
            why = Guess("", 0.9, "x, y and z of one vector")
        else:
            continue
        ordered = [name for name in names if name in members.values()]
        letter_of = {name: letter for letter, name in members.items()}
        yield Bundle(label, tuple(ordered), tuple(letter_of[n] for n in ordered), why)


def _by_number(names: Sequence[str], _: Joints | None) -> Iterator[Bundle]:
    """Bundle names that differ only in a number."""
    groups: dict[str, dict[int, str]] = {}
    for name in names:
        numbers = list(re.finditer(r"\d+", split_unit(name)[0]))
        if numbers:
            last = numbers[-1]
            groups.setdefault(f"{name[: last.start()]}#{name[last.end() :]}", {})[int(last[0])] = name
    for pattern, members in groups.items():
        if len(members) < 2:
            continue
        order = sorted(members)
        stem = split_unit(pattern)[0]
        gapless = order == list(range(order[0], order[0] + len(order)))
        base, _role = _without_role(stem.replace("#", "%d"))
        element = base if "%d" in base and base != "%d" else "joint%d"
        reason = f"names that differ in a number, {order[0]} to {order[-1]}"
        yield Bundle(
            re.sub(r"[._\-/ ]*#", "", stem).strip("._-/ ") or "values",
            tuple(members[i] for i in order),
            tuple(element.replace("%d", str(i)) for i in order),
            Guess("", 0.9, reason) if gapless else Guess("", 0.7, f"{reason}, with some missing"),
        )


def _by_stem(names: Sequence[str], _: Joints | None) -> Iterator[Bundle]:
    """Bundle `elbow, wrist` and `elbow_cmd, wrist_cmd`: the same names with two or more roles."""
    groups: dict[tuple[str, str | None], dict[str, str]] = {}
    for name in names:
        stem, unit = split_unit(name)
        base, role = _without_role(stem)
        if base:
            groups.setdefault((role, unit), {})[re.sub(r"[\W_]", "", base.lower())] = name
    for (role, unit), members in groups.items():
        others = [set(g) for key, g in groups.items() if key != (role, unit)]
        shared = [base for base in members if any(base in other for other in others)]
        if len(shared) < 2:
            continue
        sources = tuple(members[base] for base in shared)
        elements = tuple(_without_role(split_unit(name)[0])[0].strip("._-/ ") for name in sources)
        why = Guess("", 0.85, "the same names appear with another role")
        yield Bundle(role or "position", sources, elements, why)


def _without_role(name: str) -> tuple[str, str]:
    """Split a name into the name without its role, and the role: ("elbow", "cmd") for `elbow_cmd`."""
    words = re.split(r"([._\-/ ]+)", name)
    for place in (len(words) - 1, 0):
        word = words[place]
        if len(words) > 1 and word and guess_role(word) not in (None, "time"):
            rest = words[:place] + words[place + 1 :]
            return "".join(rest).strip("._-/ "), word.lower()
    return name, ""
