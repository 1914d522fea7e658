"""What a policy sees and does: which signals, in which order and unit, how they are scaled.

An observation is one vector of D numbers, the declared signals one after the other. A policy maps H of them, the history,
to a chunk of actions. Action elements that command what an observation element reads (`joint1.target` and `joint1.pos`)
may be predicted relative to that reading: then an offset of the encoder, which the command shares, cancels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from twinloop.datasets.images import crop_size
from twinloop.episode import Array, Camera, Schema, Signal
from twinloop.errors import LearnError

UNNAMED = "unknown"
"""The type of a robot where it is not declared."""

SMALLEST_READING = 0.02
"""Metres, radians or plain numbers. What hardly varies in the data is not blown up to unit variance: the height of a table
that was always the same must not throw a policy off where it is a few millimetres lower."""

SMALLEST_ACTION = 1e-3
"""The same for commands, which are predicted more finely."""

RELATIVE_BELOW = 0.5
"""An action is predicted relative to its reading where that leaves less than this fraction of its spread."""


@dataclass(frozen=True)
class Interface:
    """The signals and cameras a policy sees and the action it gives, at a control rate."""

    observations: tuple[Signal, ...]
    action: Signal
    rate_hz: float
    robot_type: str = UNNAMED
    cameras: tuple[Camera, ...] = ()

    @property
    def observation_size(self) -> int:
        """Numbers in one observation."""
        return sum(signal.size for signal in self.observations)

    @property
    def readings(self) -> Array:
        """For each action element the observation element that reads the same thing, or -1: (A,)."""
        place = {}
        start = 0
        for signal in self.observations:
            for index, element in enumerate(signal.elements):
                if element.endswith(".pos"):
                    place[element.removesuffix(".pos")] = start + index
            start += signal.size
        elements = self.action.elements or ("",) * self.action.size
        return np.array([place.get(element.removesuffix(".target"), -1) for element in elements], np.int64)

    def vector(self, signals: Mapping[str, Array]) -> Array:
        """One observation, (..., D), from an array (..., size) per signal."""
        return np.concatenate(
            [np.asarray(signals[s.name], np.float32) for s in self.observations], axis=-1, dtype=np.float32
        )

    def split(self, observation: Array) -> dict[str, Array]:
        """The signals (..., size) of observations (..., D)."""
        ends = np.cumsum([signal.size for signal in self.observations])
        parts = np.split(observation, ends[:-1], axis=-1)
        return {signal.name: part for signal, part in zip(self.observations, parts, strict=True)}

    def difference(self, other: Interface) -> str | None:
        """The first way in which `other` does not fit this one, in words. An undeclared type of robot fits any."""
        if UNNAMED in (self.robot_type, other.robot_type):
            other = replace(other, robot_type=self.robot_type)
        return self._schema().difference(other._schema())

    def _schema(self) -> Schema:
        return Schema((*self.observations, self.action), self.rate_hz, self.cameras, self.robot_type)

    def as_json(self) -> dict[str, Any]:
        """Plain values; without cameras, the key is left out."""
        values = asdict(self)
        return values if self.cameras else {name: part for name, part in values.items() if name != "cameras"}


def make_interface(
    schema: Schema, observations: Sequence[str], where: str, cameras: Sequence[str] = ()
) -> Interface:
    """What a policy for data of this schema would see and do; signals that the data lacks are left out, cameras not."""
    known = {signal.name: signal for signal in schema.signals}
    if "action" not in known:
        raise LearnError(f"{where} has no actions to learn", available=sorted(known))
    chosen = tuple(known[name] for name in observations if name in known)
    if not chosen:
        raise LearnError(
            f"{where} has nothing to observe", got=sorted(known), expected=", ".join(observations)
        )
    for signal in (*chosen, known["action"]):
        if len(signal.shape) != 1:
            raise LearnError(f"{where}: {signal.name} is no vector", got=signal.shape, expected="one axis")
    looks = _chosen_cameras(schema.cameras, cameras, where)
    if len({(camera.height, camera.width) for camera in looks}) > 1:
        raise LearnError(
            f"the cameras of {where} give images of different sizes",
            got=", ".join(f"{c.name} {c.width} x {c.height}" for c in looks),
            expected="one size for all cameras of a policy",
        )
    return Interface(chosen, known["action"], schema.rate_hz, schema.robot_type, looks)


def require_cameras(
    wanted: Sequence[Camera], declared: Sequence[Camera], side: int | None, where: str
) -> None:
    """Refuse where a camera that a policy looks through is missing, or its images too small.

    Images of another size than declared will do as long as the piece of the same proportions has `side` pixels each way; with
    None, they must have the declared size.
    """
    found = _chosen_cameras(declared, [camera.name for camera in wanted], where)
    for mine, theirs in zip(wanted, found, strict=True):
        piece = crop_size((theirs.height, theirs.width), (mine.height, mine.width))
        if side is None and (theirs.height, theirs.width) != (mine.height, mine.width):
            raise LearnError(
                f"images of {mine.name} of {where} have another size than the policy takes",
                got=f"{theirs.width} x {theirs.height}",
                expected=f"{mine.width} x {mine.height}",
            )
        if side is not None and min(piece) < side:
            raise LearnError(
                f"images of {mine.name} of {where} are too small for the policy",
                got=f"{theirs.width} x {theirs.height}, of which it would see {piece[1]} x {piece[0]}",
                expected=f"{side} x {side} or more",
            )


def _chosen_cameras(declared: Sequence[Camera], names: Sequence[str], where: str) -> tuple[Camera, ...]:
    """The cameras of these names; refuses names that are not there."""
    known = {camera.name: camera for camera in declared}
    for name in names:
        if name not in known:
            raise LearnError(
                f"{where} has no camera {name}",
                got=None if known else "no cameras at all",
                available=tuple(known),
                remedy="choose one that is there, or make data with it: generate --cameras, record --camera",
            )
    return tuple(known[name] for name in names)


@dataclass(frozen=True, eq=False)
class Normalisation:
    """How numbers are scaled: observations (D,) each; actions (chunk, A) after the reading was taken off.

    `reading` (A,) is the observation element that is taken off each action element, -1 where none is.
    """

    observation_mean: Array
    observation_scale: Array
    action_mean: Array
    action_scale: Array
    reading: Array

    def as_json(self) -> dict[str, Any]:
        """Plain lists."""
        return {name: values.tolist() for name, values in vars(self).items()}

    def reference(self, observation: Array) -> Array:
        """What is taken off actions, (..., 1, A), given the newest observation (..., D)."""
        taken = np.where(self.reading >= 0, observation[..., np.maximum(self.reading, 0)], 0.0)
        return np.asarray(taken[..., None, :], np.float32)


def normalisation_from_json(values: Mapping[str, Any]) -> Normalisation:
    """What `as_json` wrote."""
    numbers = {
        name: np.asarray(values[name], np.float32)
        for name in ("observation_mean", "observation_scale", "action_mean", "action_scale")
    }
    return Normalisation(reading=np.asarray(values["reading"], np.int64), **numbers)


def fit_normalisation(
    interface: Interface, observation: Array, actions: Array, valid: Array
) -> Normalisation:
    """Mean and spread of a sample: observations (n, D), the chunks that followed (n, chunk, A), valid (n, chunk).

    Rows of a chunk beyond the end of its episode are not counted.
    """
    reading = interface.readings
    read = np.where(reading >= 0, observation[:, np.maximum(reading, 0)], 0.0)
    spread = actions[:, 0].std(axis=0)
    closer = (actions[:, 0] - read).std(axis=0) < RELATIVE_BELOW * spread
    reading = np.where((reading >= 0) & closer, reading, -1)
    taken = np.where(reading >= 0, observation[:, np.maximum(reading, 0)], 0.0)
    counted = valid[:, :, None]
    relative = np.where(counted, actions - taken[:, None], 0.0)
    count = np.maximum(counted.sum(axis=0), 1)
    mean = relative.sum(axis=0) / count
    variance = (np.where(counted, relative - mean, 0.0) ** 2).sum(axis=0) / count
    return Normalisation(
        observation.mean(axis=0).astype(np.float32),
        np.maximum(observation.std(axis=0), SMALLEST_READING).astype(np.float32),
        mean.astype(np.float32),
        np.maximum(np.sqrt(variance), SMALLEST_ACTION).astype(np.float32),
        reading,
    )
