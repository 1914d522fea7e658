"""What was measured of one gap dimension, and how it is put into a twin.

Most of it are parameters that twins have. What real cells do beyond those is added here: errors of the perceived object that
depend on where it is or on the hand in front of it, steady loads on joints, a table that is not level, wind. They are
parameters of an extended twin like any other; `twinloop.diagnosis.inject` carries them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.twins import Twin
from twinloop.twins.declare import word
from twinloop.twins.parameter import Dimension, Parameter, Target

Array = NDArray[Any]


@dataclass(frozen=True)
class Quantity:
    """One measured number: as the twin has it, as the robot has it with a 95 % interval, and whether that matters."""

    name: str
    unit: str
    twin: float
    real: float
    low: float
    high: float
    differs: bool

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False)
class Measured:
    """One dimension: its quantities, the values (rows,) that put them into the twin, and what could not be measured.

    Row k of every value belongs together: one draw from what the recordings leave open, in the scene of row k. Without
    `values` there is nothing that differs.
    """

    dimension: str
    quantities: tuple[Quantity, ...] = ()
    values: Mapping[str, Array] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether there is anything to put into the twin."""
        return bool(self.values)


def quantity(
    name: str, unit: str, twin: float, draws: Array, relevant: float, *, least: float | None = None
) -> Quantity:
    """From draws (n,) of the real value; it differs when its interval and by `relevant` its middle are off the twin's."""
    low, middle, high = (float(v) for v in np.quantile(draws, (0.025, 0.5, 0.975)))
    off = middle - twin
    differs = abs(off) >= relevant and not low <= twin <= high
    if least is not None:
        differs = differs and abs(off) >= least
    return Quantity(name, unit, float(twin), middle, low, high, bool(differs))


def resampled(values: Array, draws: int, rng: np.random.Generator) -> Array:
    """Means (draws, ...) of runs (R, ...) drawn with replacement: what the mean could have been."""
    picks = rng.integers(0, len(values), (draws, len(values)))
    return np.asarray(values[picks].mean(axis=1))


PERCEIVED_DELAY = "perceived_delay_s"
PERCEIVED_Z = "perceived_bias_z_m"
PERCEIVED_SCALE = "perceived_scale_error"
HIDDEN = "perceived_hidden_m"
TILT = ("table_tilt_x_rad", "table_tilt_y_rad")
WIND = ("wind_x_m_s2", "wind_y_m_s2")
MISJUDGED = "misjudged_share"
LOOK = "recorded_look"
"""Whether images look as recorded ones do: 0 or 1."""


def load_names(joint: str) -> tuple[str, str]:
    """The steady load of a joint: at zero, and per radian."""
    return f"{word(joint)}_load_nm", f"{word(joint)}_load_slope_nm_rad"


def extended(twin: Twin) -> Twin:
    """The twin with parameters for what it does not model; nominal values leave it as it was."""

    def extra(name: str, unit: str, dimension: Dimension, targets: tuple[Target, ...] = ()) -> Parameter:
        stage: Any = "model" if targets else "imperfect"
        return Parameter(name, 0.0, (-1e6, 1e6), unit, dimension, stage, "", targets)

    made = [
        extra(PERCEIVED_DELAY, "s", "latency"),
        extra(PERCEIVED_Z, "m", "sensing"),
        extra(PERCEIVED_SCALE, "1", "sensing"),
        extra(HIDDEN, "m", "sensing"),
        *(extra(name, "rad", "environment") for name in TILT),
        *(
            extra(name, "m/s²", "environment", (Target("opt.gravity", (), (axis,), "add"),))
            for axis, name in enumerate(WIND)
        ),
        extra(MISJUDGED, "1", "human"),
        extra(LOOK, "1", "visual"),
    ]
    for joint in _servo_joints(twin):
        made += [extra(name, "1", "actuation") for name in load_names(joint)]
    known = {parameter.name for parameter in twin.parameters}
    return replace(
        twin,
        parameters=(*twin.parameters, *(p for p in made if p.name not in known)),
        parent=twin.content_hash,
    )


def _servo_joints(twin: Twin) -> list[str]:
    model = twin.patch.model
    return [model.actuator(index).name for index in range(model.nu)]
