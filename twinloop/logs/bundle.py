"""Bundles of channels that belong together by name: `joint1 ... joint6`, `x y z`, `qw qx qy qz`, `elbow_cmd wrist_cmd`.

Pure functions of names. A unit at the end of a name is recognized: `angle_deg`, `tcp_x_mm`, `time_ms`, `speed [rad/s]`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from twinloop.errors import UnknownName
from twinloop.logs.guess import MEASURED, POSE, Guess, guess_role, is_cartesian, is_role, list_missing
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
    """Channels that form one signal; `label` is their common name; `numbered` if their names differ in a number only."""

    label: str
    sources: tuple[str, ...]
    elements: tuple[str, ...]
    guess: Guess
    numbered: bool = False


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
    for rule in (_by_twin, _by_letters, _by_stem, _by_number):
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
        parts = _split_name(stem)
        number, label = joints.find(parts.base), parts.label
        if number is None:
            number, label = joints.find(stem), "position"
        if number is not None:
            groups.setdefault((label, unit), {})[number] = name
    for (label, _), members in groups.items():
        numbers = sorted(members)
        if len(numbers) < 2 and len(joints) > 1:
            continue
        missing = [joints.names[i] for i in range(len(joints)) if i not in members]
        why = Guess("", 0.8 if missing else 0.95, f"named after the twin's joints{list_missing(missing)}")
        yield Bundle(label, tuple(members[i] for i in numbers), tuple(joints.names[i] for i in numbers), why)


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
        base = _split_name(stem.replace("#", "%d")).base
        bare = base.replace("%d", "")
        own_name = "%d" in base and bare and not (is_role(bare) and base != stem.replace("#", "%d"))
        element = base if own_name else "joint%d"
        reason = f"names that differ in a number, {order[0]} to {order[-1]}"
        label = re.sub(r"[._\-/ ]*#", "", stem).strip("._-/ ") or "values"
        is_pose = is_cartesian(label) and len(order) == len(POSE)
        yield Bundle(
            label,
            tuple(members[i] for i in order),
            POSE if is_pose else tuple(element.replace("%d", str(i)) for i in order),
            Guess("", 0.9, reason) if gapless else Guess("", 0.7, f"{reason}, with some missing"),
            numbered=True,
        )


def _by_stem(names: Sequence[str], _: Joints | None) -> Iterator[Bundle]:
    """Bundle `elbow, wrist` and `elbow_cmd, wrist_cmd`: the same names with two or more roles."""
    groups: dict[tuple[str, str | None], dict[str, str]] = {}
    measured = set()
    for name in names:
        stem, unit = split_unit(name)
        parts = _split_name(stem)
        if parts.base:
            groups.setdefault((parts.label, unit), {})[re.sub(r"[\W_]", "", parts.base.lower())] = name
            measured |= {(parts.label, unit)} if parts.measured else set()
    for key, members in groups.items():
        others = {other: set(group) for other, group in groups.items() if other != key}
        shared = [base for base in members if any(base in group for group in others.values())]
        # One joint is enough where a name says what is measured and another what is commanded.
        paired = key in measured or any(other in measured for other in others)
        if len(shared) < (1 if paired else 2) or _differ_in_number(shared):
            continue
        sources = tuple(members[base] for base in shared)
        elements = tuple(_split_name(split_unit(name)[0]).base for name in sources)
        yield Bundle(key[0], sources, elements, Guess("", 0.85, "the same names appear with another role"))


def _differ_in_number(names: Sequence[str]) -> bool:
    """Return whether every name has others that are the same but for a number."""
    patterns = Counter(re.sub(r"\d+", "#", name) for name in names)
    return all("#" in pattern and count > 1 for pattern, count in patterns.items())


@dataclass(frozen=True)
class _Parts:
    """A name without words for its role, the role, and whether it says that it was measured."""

    base: str
    label: str
    measured: bool = False


def _split_name(name: str) -> _Parts:
    """Split words for the role off both ends of a name: (`elbow`, `cmd`) for `elbow_cmd`."""
    words = re.split(r"([._\-/ ]+)", name)
    roles: list[str] = []
    while len(words) > 1:
        end = next((place for place in (-1, 0) if is_role(words[place])), None)
        if end is None:
            break
        roles.insert(0 if end == 0 else len(roles), words[end].lower())
        words = words[:-2] if end == -1 else words[2:]
    said = [role for role in roles if role not in MEASURED]
    return _Parts("".join(words).strip("._-/ "), "_".join(said) or "position", len(said) < len(roles))
