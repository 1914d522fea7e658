"""A run in its twin as it is, and in the twin with what was measured of some dimensions: the evidence behind a bar of a diagnosis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.diagnosis.result import Diagnosis
from twinloop.episode import Episode
from twinloop.errors import UnknownName
from twinloop.generation.motion import MotionPair, compare_motion
from twinloop.records import Record, derived
from twinloop.twins import Twin


@dataclass(frozen=True)
class SignalErrors:
    """Root mean square replay errors of one signal, in its unit: in the twin as it is, and with what was measured."""

    name: str
    unit: str
    nominal: float
    measured: float


@dataclass(frozen=True, eq=False)
class MeasuredReplay(Record):
    """One run, replayed in the nominal twin and with the measured `values` of `dimensions`."""

    dimensions: tuple[str, ...]
    values: Mapping[str, float]
    nominal: MotionPair
    measured: MotionPair

    @derived
    def errors(self) -> tuple[SignalErrors, ...]:
        """Replay errors of the signals that both replays have."""
        others = {signal.name: signal for signal in self.measured.signals}
        return tuple(
            SignalErrors(one.name, one.unit, one.rms_error, others[one.name].rms_error)
            for one in self.nominal.signals
            if one.name in others
        )


def measured_values(diagnosis: Diagnosis, twin: Twin, dimensions: Sequence[str]) -> dict[str, float]:
    """The middle of what a diagnosis measured of some dimensions, as values of the twin's parameters.

    Args:
        diagnosis: The diagnosis.
        twin: The twin; parameters that it does not have are left out.
        dimensions: Gap dimensions.

    Returns:
        Parameter name to value, within the parameter's bounds.

    Raises:
        UnknownName: The diagnosis measured nothing of that name.
    """
    known = {part.dimension: part for part in diagnosis.measured}
    values: dict[str, float] = {}
    for name in dimensions:
        if name not in known:
            raise UnknownName("measured dimension", name, known)
        for parameter, draws in known[name].values.items():
            if twin.has(parameter):
                middle = float(np.clip(np.median(draws), *twin.parameter(parameter).bounds))
                values[parameter] = float(round(middle)) if twin.parameter(parameter).whole else middle
    return values


def replay_measured(
    diagnosis: Diagnosis, twin: Twin, episode: Episode, dimensions: Sequence[str], *, threads: int = 1
) -> MeasuredReplay:
    """Replay a run's actions in the twin as it is, and with what a diagnosis measured of some dimensions.

    Args:
        diagnosis: The diagnosis.
        twin: The twin that it was made with.
        episode: One of the policy's runs.
        dimensions: Gap dimensions; the replay that comes closer to the recording explains it better.
        threads: Simulation threads.

    Returns:
        Both replays beside the recording, with their errors.

    Raises:
        UnknownName: The diagnosis measured nothing of that name.
        WrongUse: The run does not fit the twin.
    """
    values = measured_values(diagnosis, twin, dimensions)
    nominal = compare_motion(episode, twin, {}, threads=threads)
    measured = compare_motion(episode, twin, values, threads=threads)
    return MeasuredReplay(tuple(dimensions), values, nominal, measured)
