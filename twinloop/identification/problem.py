"""The fitting problem and its solution: the types that the solver, the intervals and the bands use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinloop.episode import Array
from twinloop.identification.predict import Predictor, Window
from twinloop.identification.scale import Scale
from twinloop.twins.declare import to_identifier

KNEE = 2.5
"""Standardized residuals beyond this count by their size and no longer by its square."""


@dataclass(frozen=True, eq=False)
class Noise:
    """Per channel: `sensor`, what readings scatter by, and `total`, with what the model cannot explain on top."""

    sensor: Array
    total: Array


@dataclass(frozen=True, eq=False)
class Problem:
    """What is fitted: free parameters, windows, noise, and how wrong a window's start may be (handles,), 0 for exact."""

    predictor: Predictor
    scales: tuple[Scale, ...]
    windows: tuple[Window, ...]
    noise: Noise
    start_deviation: Array
    center: Array

    @property
    def handles(self) -> Array:
        """The start handles in use: those that may be wrong."""
        return np.flatnonzero(self.start_deviation > 0.0)

    @property
    def joint_groups(self) -> list[list[tuple[int, list[int]]]]:
        """Parameters of the same kind of different joints, as (parameter, channels of its joint); others in no group.

        In a robot whose joints have servos, friction of one joint hardly moves another: one simulation in which all of a group
        change gives each one's derivative, nearly.
        """
        channels: dict[str, list[int]] = {}
        for index, channel in enumerate(self.predictor.channels):
            stem = to_identifier(channel.name.removesuffix(".velocity"))
            channels.setdefault(stem, []).append(index)
        groups: dict[str, list[tuple[int, list[int]]]] = {}
        for index, scale in enumerate(self.scales):
            stems = [stem for stem in channels if scale.name.startswith(f"{stem}_")]
            if stems:
                stem = max(stems, key=len)
                groups.setdefault(scale.name.removeprefix(stem), []).append((index, channels[stem]))
        return [group for group in groups.values() if len(group) > 1]

    def handle_groups(self, grouped: bool) -> list[list[tuple[int, list[int]]]]:
        """Start handles in use that change together, as (position among those in use, channels that tell): each alone, or if
        `grouped` the places of all joints, and their speeds."""
        channels = [channel.name for channel in self.predictor.channels]
        groups: dict[object, list[tuple[int, list[int]]]] = {}
        for position, handle in enumerate(self.predictor.handles[index] for index in self.handles):
            name = handle.label.removesuffix(" speed")
            if grouped and name in channels:
                own = [
                    index
                    for index, channel in enumerate(channels)
                    if channel.removesuffix(".velocity") == name
                ]
                groups.setdefault(handle.speed, []).append((position, own))
            else:
                groups[handle.label] = [(position, list(range(len(channels))))]
        return list(groups.values())

    @property
    def window_rows(self) -> list[slice]:
        """Where each window's rows are in a stack of all."""
        ends = np.cumsum([len(window) for window in self.windows]).tolist()
        return [slice(end - len(window), end) for end, window in zip(ends, self.windows, strict=True)]


@dataclass(frozen=True, eq=False)
class Linear:
    """A problem at one place: weighted residuals (rows, channels) and derivatives with the windows' starts projected out.

    `information` (P, P) and `gradient` (P,) are of the projected problem, prior included. `curvature` is what the robust
    loss really curves by: residuals near the knee and beyond pull without stiffening.
    """

    residual: Array
    jacobian: Array
    information: Array
    curvature: Array
    gradient: Array
    start_steps: tuple[tuple[Array, Array], ...]


@dataclass(frozen=True, eq=False)
class Solution:
    """The best place (P,), the windows' start offsets (windows, handles), and what is left: residuals (rows, channels).

    `rivals` are other places (P,) that explain the data about as well. `slopes` are derivatives there by central differences,
    (rows, channels, columns), where the search measured them.
    """

    place: Array
    offsets: Array
    residual: Array
    cost: float
    problem: Problem
    converged: bool
    iterations: int
    rivals: tuple[Array, ...] = ()
    slopes: Array | None = None
