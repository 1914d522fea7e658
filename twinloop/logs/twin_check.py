"""Check that the joints of a recording fit a twin: number, names, units, ranges."""

from __future__ import annotations

import numpy as np

from twinloop.episode import Array, Episode, Signal
from twinloop.errors import MapError
from twinloop.logs.joints import Joints, find_joints
from twinloop.logs.units import family_of
from twinloop.twins.twin import Twin

POSITIONS = ("observation.state", "action")
"""Signals that hold joint positions if their units are angles or lengths."""

BEYOND = 1.1
MARGIN = {"rad": 0.05, "m": 0.005}
"""Tolerance beyond a joint's range, for calibration and compliance; more is noted."""

IMPOSSIBLE = 3.0
"""Multiple of the half range beyond which the unit is wrong or it is another robot."""


class TwinCheck:
    """Checks episodes against a twin; `notes` collects what is unusual but possible."""

    def __init__(self, twin: Twin) -> None:
        self._name = twin.name
        self._joints: Joints = find_joints(twin)
        self._notes: dict[str, str] = {}

    @property
    def notes(self) -> list[str]:
        """Unusual observations, each once."""
        return list(self._notes.values())

    def check(self, episode: Episode, where: str) -> None:
        """Raise `MapError` if the episode cannot be from this robot."""
        if not len(self._joints):
            return
        for name in POSITIONS:
            if name in episode.signals:
                signal = episode.schema.signal(name)
                if any(family_of(unit) in ("angle", "length") for unit in signal.units):
                    for element, joint in self._match_joints(signal):
                        self._check_element(signal, element, joint, episode.signals[name], where)

    def _match_joints(self, signal: Signal) -> list[tuple[int, int]]:
        """Match elements to joints by the rule that identification uses too."""
        places = self._joints.known.match(signal.elements, signal.size)
        found = [(element, place) for element, place in enumerate(places) if place is not None]
        if not found and not signal.elements:
            raise MapError(
                f"{signal.name} does not fit the twin {self._name}",
                got=f"{signal.size} elements without names",
                expected=self._describe_orders(),
                remedy=f"name the joints it has with `elements` (signals.{signal.name}), or omit --twin",
            )
        # An arm may be called otherwise than the twin's, and still share a name or two with it.
        direct = min(map(len, self._joints.known.orders.values()), default=1)
        if 2 * len(found) < min(signal.size, direct):
            raise MapError(
                f"{signal.name} does not have the joints of the twin {self._name}",
                got=", ".join(signal.elements),
                expected=f"names such as {', '.join(self._joints.names)}",
                remedy=self._suggest_elements(signal),
            )
        unknown = [e for e, place in zip(signal.elements, places, strict=False) if place is None]
        if unknown:
            self._add_note(
                f"{signal.name}: the twin {self._name} has no joint called {', '.join(unknown)}; "
                "identify does not use them",
                signal.name,
            )
        return found

    def _describe_orders(self) -> str:
        orders = sorted(self._joints.known.orders.items())
        return ", or ".join(
            f"{size} ({', '.join(self._joints.names[place] for place in places)})" for size, places in orders
        )

    def _suggest_elements(self, signal: Signal) -> str:
        places = self._joints.known.orders.get(signal.size)
        if places is None:
            return (
                f"name its joints as the twin does, with `elements` (signals.{signal.name}), or omit --twin"
            )
        names = ", ".join(self._joints.names[place] for place in places)
        return f"if they are in the twin's order, signals.{signal.name}.elements: [{names}]; or omit --twin"

    def _check_element(self, signal: Signal, element: int, joint: int, values: Array, where: str) -> None:
        unit = signal.units[element if len(signal.units) > 1 else 0]
        place = f"{signal.name}[{element}] ({self._joints.names[joint]})"
        wanted = self._joints.units[joint]
        if unit in ("1", "unknown"):
            self._add_note(f"{place} has no unit of length or angle, so its range is not checked", place)
            return
        if unit != wanted:
            raise MapError(
                f"{where}: {place} is stored in {unit}, but this joint of the twin {self._name} is in {wanted}",
                remedy="correct the unit or the order of the joints in the map",
            )
        low, high = self._joints.ranges[joint]
        if not np.isfinite([low, high]).all():
            return
        flat = values.reshape(len(values), -1)[:, element].astype(np.float64)
        lowest, highest = float(np.nanmin(flat)), float(np.nanmax(flat))
        middle, half = (low + high) / 2, (high - low) / 2
        reached = f"{lowest:.4g} to {highest:.4g} {unit}"
        if max(highest - middle, middle - lowest) > IMPOSSIBLE * half + MARGIN[unit]:
            raise MapError(
                f"{where}: {place} is far beyond the range of the twin {self._name}",
                got=reached,
                expected=f"{low:.4g} to {high:.4g} {unit}",
                remedy="check unit, sign, offset and order of the joints in the map, and that it is the same robot",
            )
        if max(highest - middle, middle - lowest) > BEYOND * half + MARGIN[unit]:
            self._add_note(
                f"{place} reaches {reached} in {where}, beyond the twin's {low:.4g} to {high:.4g}: "
                "check its sign and zero",
                place,
            )

    def _add_note(self, note: str, about: str) -> None:
        self._notes.setdefault(about, note)
