"""What was measured of one gap dimension, and the values of the twin's parameters that put it into the twin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from twinloop.episode import Array
from twinloop.randomization.distribution import Constant, Distribution, Normal, WholeNumbers
from twinloop.randomization.randomization import Randomization, make_randomization
from twinloop.records import NumberArray
from twinloop.twins import Parameter, Twin

NOT_INDEPENDENT = ("_load_nm", "_load_slope_nm_rad", "wind_x_m_s2", "wind_y_m_s2")
"""Endings of parameters whose draws belong together: a load and its slope at the same pose, wind that blows in some runs only.

Independent distributions of them would describe robots that were never measured.
"""
SEEN_ONLY = ("table_tilt_x_rad", "table_tilt_y_rad")
"""Stand-ins for what a policy perceives: the slope of the table turns the perceived object while the simulated table stays level.
They show what a difference costs; they are no values of the robot."""


@dataclass(frozen=True)
class Quantity:
    """One measured number: the twin's value, the robot's with its 95 % interval, and whether they differ enough to matter."""

    name: str
    unit: str
    twin: float
    real: float
    low: float
    high: float
    differs: bool


@dataclass(frozen=True, eq=False)
class Measured:
    """One gap dimension: its quantities, what puts it into the twin, and what could not be measured.

    Attributes:
        dimension: The gap dimension.
        quantities: The measured numbers.
        values: Parameters of the twin that differ, by name: draws (rows,) from what the recordings leave open. Row k of all
            parameters is one draw, for the scene of row k.
        missing: What could not be measured, and what would measure it.
        wrong_verdicts: Fraction of verdicts that the recorded signals contradict.
        photographs: Names of the photographs that are put on the twin, see `twinloop.twins.images`.
    """

    dimension: str
    quantities: tuple[Quantity, ...] = ()
    values: Mapping[str, NumberArray] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    wrong_verdicts: float = 0.0
    photographs: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether there is anything to put into the twin."""
        return bool(self.values or self.wrong_verdicts or self.photographs)


def measured_randomization(measured: Iterable[Measured], twin: Twin, name: str = "measured") -> Randomization:
    """What was measured of a robot, as a distribution over its twin's parameters.

    Args:
        measured: What a diagnosis measured, by dimension.
        twin: The twin whose parameters are described.
        name: Name of the randomization.

    Returns:
        One distribution for each parameter that differs from the twin's: around the mean of its draws and as wide as they are.
        Left out: parameters that this twin does not have, `NOT_INDEPENDENT` and `SEEN_ONLY`.
    """
    distributions: dict[str, Distribution] = {}
    for part in measured:
        for parameter, draws in part.values.items():
            if twin.has(parameter) and not parameter.endswith(NOT_INDEPENDENT) and parameter not in SEEN_ONLY:
                distributions[parameter] = _around(np.asarray(draws), twin.parameter(parameter))
    return make_randomization(twin, distributions, name=name)


def set_draws(values: dict[str, Array], twin: Twin, name: str, draws: Array) -> None:
    """Put draws (rows,) of one parameter among `values`, within its bounds, where the twin has it."""
    if twin.has(name):
        values[name] = np.clip(draws, *twin.parameter(name).bounds)


def quantity(name: str, unit: str, twin: float, draws: Array, relevant: float) -> Quantity:
    """From draws (n,) of the real value; it differs when its interval and by `relevant` its middle are off the twin's."""
    low, middle, high = (float(v) for v in np.quantile(draws, (0.025, 0.5, 0.975)))
    differs = abs(middle - twin) >= relevant and not low <= twin <= high
    return Quantity(name, unit, float(twin), middle, low, high, bool(differs))


def _around(draws: Array, parameter: Parameter) -> Distribution:
    low, high = parameter.bounds
    if parameter.whole:
        return WholeNumbers(int(draws.min()), int(draws.max()))
    mean, spread = float(np.mean(draws)), float(np.std(draws))
    mean = min(max(mean, low), high)
    return Normal(mean, spread, low, high) if spread > 1e-12 else Constant(mean)
