"""Which joint of a twin an element of a signal means: one rule, for ingest, identification and the checks.

Robots, drivers and models spell one joint in many ways: `shoulder_pan_joint` (ROS), `shoulder_pan.pos` (LeRobot, and our
own recordings), `panda_joint1`, `Shoulder-Pan`. Names are compared as recorded, by spelling, then without words for the kind of
part, then without a prefix that they all share, and last by words that no other joint shares. Elements without names are taken in the twin's order, if there are as
many as the twin has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import mujoco
import numpy as np

from twinloop.episode import Array, Signal
from twinloop.tasks.cell import Cell

ROLE_WORDS = frozenset(
    "pos position vel velocity effort cmd command target goal desired meas measured actual".split()
)
"""Words that say which quantity of a joint is meant, or whether it is a command or a reading."""

PART_WORDS = frozenset("joint joints jnt j q actuator act motor servo".split())
"""Words that say only that it is a joint or what drives it."""


@dataclass(frozen=True)
class JointNames:
    """Names of what a twin commands and reads: its actuators, then the joints that no actuator drives alone.

    `aliases` are other names of the same: an actuator is also called like the joint it drives. `orders` maps a number of
    elements without names to the places that they take.
    """

    names: tuple[str, ...]
    aliases: Mapping[str, int] = field(default_factory=dict)
    orders: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def match(self, elements: Sequence[str], size: int) -> tuple[int | None, ...]:
        """Match the elements of a signal to places in `names`; None for what the twin does not have.

        Args:
            elements: Names of the elements; empty if they have none, then the order counts.
            size: Number of elements.
        """
        if not elements:
            return self.orders.get(size, (None,) * size)
        if size == 1 and len(self.names) == 1:
            return (0,)
        known = [*enumerate(self.names), *((place, alias) for alias, place in self.aliases.items())]
        matched: dict[int, int] = {}
        for rule in (_as_recorded, _spellings, _without_part_words, _without_prefix):
            left = [i for i in range(size) if i not in matched]
            keys = dict(zip(left, rule([elements[i] for i in left]), strict=True))
            targets = _unambiguous(rule, known)
            matched |= _assign(keys, targets, set(matched.values()))
        matched |= _assign_by_words(elements, known, matched)
        for stem in _counted_from_zero(elements, matched):
            matched = {i: place for i, place in matched.items() if _stem(elements[i])[0] != stem}
        return tuple(matched.get(i) for i in range(size))

    def find(self, name: str) -> int | None:
        """Return the place of what is called `name`, whatever its spelling."""
        return self.match([name], 1)[0] if len(self.names) > 1 else self._find_only(name)

    def _find_only(self, name: str) -> int | None:
        known = {
            key for rule in (_spellings, _without_part_words) for key in rule([*self.names, *self.aliases])
        }
        return 0 if {*_spellings([name]), *_without_part_words([name])} & known else None


@lru_cache(maxsize=32)
def find_joint_names(cell: Cell) -> JointNames:
    """Find the names of a twin's actuators and joints, and in which orders logs may have them."""
    model = cell.model
    driven: dict[str, int] = {}
    for place in range(model.nu):
        if model.actuator_trntype[place] == mujoco.mjtTrn.mjTRN_JOINT:
            driven.setdefault(str(model.joint(int(model.actuator_trnid[place, 0])).name), place)
    moving = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
    home = cell.twin.home
    joints = [str(model.joint(i).name) for i in range(model.njnt) if int(model.jnt_type[i]) in moving]
    joints = [name for name in joints if not home or name in home]
    names = (*cell.actuators, *(name for name in joints if name not in driven))
    place_of = {name: place for place, name in enumerate(names)} | driven
    every_joint = tuple(place_of[name] for name in joints)
    direct = tuple(sorted(set(driven.values())))
    # The twin's own recordings have one element per actuator, which counts before any other order of that size.
    orders = {len(order): order for order in (every_joint, direct, tuple(range(model.nu))) if order}
    return JointNames(names, driven, orders)


def actuator_rows(cell: Cell, signal: Signal, rows: Array, rest: Array) -> Array | None:
    """Return a signal in the order of the twin's actuators, (T, actuators); None if it does not fit them.

    A recording of an arm may lack its gripper: servos that hold a position and are not recorded stay at rest, as long as
    most actuators are recorded.

    Args:
        cell: The twin's cell.
        signal: Commands, or positions of joints.
        rows: Its values (T, size).
        rest: Values of all actuators at rest, (actuators,).
    """
    places = find_joint_names(cell).match(signal.elements, signal.size)
    column_of = {place: column for column, place in enumerate(places) if place is not None}
    every = range(len(cell.actuators))
    missing = [place for place in every if place not in column_of]
    holds = np.asarray(cell.model.actuator_biasprm)[:, 1] < 0
    if 2 * len(missing) > len(cell.actuators) or not holds[missing].all():
        return None
    made = np.tile(np.asarray(rest, np.float64), (len(rows), 1))
    for place in every:
        if place in column_of:
            made[:, place] = rows.reshape(len(rows), -1)[:, column_of[place]]
    return made


def _assign_by_words(
    elements: Sequence[str], known: Sequence[tuple[int, str]], matched: Mapping[int, int]
) -> dict[int, int]:
    """Match by shared words what is left: `base` means `base_yaw` if no other joint has that word, and `wrist` none of two wrists."""
    free = [(place, set(_words(name))) for place, name in known if place not in matched.values()]
    fits = {}
    for i, element in enumerate(elements):
        if i not in matched:
            mine = set(_words(element))
            inside = {place: mine & theirs for place, theirs in free if mine <= theirs or theirs <= mine}
            fits[i] = {place for place, shared in inside.items() if any(map(str.isalpha, shared))}
    wanted = Counter(place for places in fits.values() for place in places)
    return {i: min(places) for i, places in fits.items() if len(places) == 1 and wanted[min(places)] == 1}


def bare_name(name: str) -> str:
    """Return an element's name without words for its role: `elbow` for `elbow.pos`, `target_elbow` and `elbow_cmd`."""
    kept = [word for word in re.split(r"[._\-/ ]+", name) if word.lower() not in ROLE_WORDS and word]
    return "_".join(kept) or name


def _as_recorded(names: Sequence[str]) -> list[str]:
    """The names without the suffix that our own recordings add, which alone may tell two actuators apart."""
    return [re.sub(r"\.(pos|vel|effort|target)$", "", name) for name in names]


def _spellings(names: Sequence[str]) -> list[str]:
    return [re.sub(r"[\W_]", "", bare_name(name).lower()) for name in names]


def _words(name: str) -> list[str]:
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", bare_name(name)).lower()
    words = re.findall(r"[a-z]+|\d+", apart)
    return [word for word in words if word not in PART_WORDS] or words


def _without_part_words(names: Sequence[str]) -> list[str]:
    return ["".join(_words(name)) for name in names]


def _without_prefix(names: Sequence[str]) -> list[str]:
    words = [_words(name) for name in names]
    while len(words) > 1 and min(map(len, words)) > 1 and len({own[0] for own in words}) == 1:
        words = [own[1:] for own in words]
    return ["".join(own) for own in words]


def _unambiguous(
    rule: Callable[[Sequence[str]], list[str]], known: Sequence[tuple[int, str]]
) -> dict[str, int]:
    """Return the place of each key of the twin's names, without keys of several places."""
    places: dict[str, set[int]] = {}
    for (place, _), key in zip(known, rule([name for _, name in known]), strict=True):
        places.setdefault(key, set()).add(place)
    return {key: next(iter(several)) for key, several in places.items() if len(several) == 1}


def _assign(keys: Mapping[int, str], targets: Mapping[str, int], taken: set[int]) -> dict[int, int]:
    """Assign elements to places by equal keys; numbers alone count only if the twin has them all."""
    counts = Counter(keys.values())
    strange_number = any(key.isdigit() and key not in targets for key in keys.values())
    return {
        element: targets[key]
        for element, key in keys.items()
        if key in targets
        and counts[key] == 1
        and targets[key] not in taken
        and not (key.isdigit() and strange_number)
    }


def _stem(name: str) -> tuple[str, str]:
    """Split a name into what comes before its last number, and the number."""
    match = re.fullmatch(r"(.*?)(\d+)\D*", bare_name(name))
    return (match[1], match[2]) if match else (name, "")


def _counted_from_zero(elements: Sequence[str], matched: Mapping[int, int]) -> set[str]:
    """Return stems of elements counted from 0 (`joint0 ... joint5`) where the twin has no 0: `joint1` is another joint."""
    unknown = [_stem(name) for i, name in enumerate(elements) if i not in matched]
    return {stem for stem, number in unknown if number and int(number) == 0}
