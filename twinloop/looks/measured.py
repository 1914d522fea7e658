"""The look of a robot's cameras as numbers, and as a distribution over its twin's parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from twinloop.episode import Array
from twinloop.randomization.distribution import Constant, Distribution, Normal, WholeNumbers
from twinloop.randomization.randomization import Randomization, make_randomization
from twinloop.stats.interval import Interval, interval_of_draws
from twinloop.twins import Parameter, Twin
from twinloop.twins.images import with_assets

CAUSES = (
    "camera pose",
    "light and colour",
    "texture and background",
    "blur and noise",
    "occlusion and clutter",
    "lens",
)
"""What may make a real image differ from a simulated one, each measured and put into the twin by itself."""
MODEL_ERROR = 0.2
"""What was measured with a simple model of light and lens is not exact: the larger the difference, the more may be left of it."""


@dataclass(frozen=True)
class LookQuantity:
    """One measured number of one camera: the twin's value, the real one with its interval, and whether they differ enough to matter."""

    cause: str
    name: str
    camera: str
    twin: float
    real: Interval
    differs: bool


@dataclass(frozen=True, eq=False)
class MeasuredLook:
    """What real frames show that the twin's do not.

    Attributes:
        quantities: The measured numbers.
        values: By cause, parameters of the twin that differ, by name: draws (rows,) of what the frames leave open.
        assets: By cause, photographs to put on the twin, see `twinloop.twins.images`.
        missing: What could not be measured, and what would measure it.
    """

    quantities: tuple[LookQuantity, ...] = ()
    values: Mapping[str, Mapping[str, Array]] = field(default_factory=dict)
    assets: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    @property
    def causes(self) -> tuple[str, ...]:
        """The causes that differ."""
        return tuple(cause for cause in CAUSES if self.values.get(cause) or self.assets.get(cause))


def look_randomization(look: MeasuredLook, twin: Twin, name: str = "measured look") -> Randomization:
    """The measured look as a distribution: what real frames show is varied, as widely as they leave open.

    Args:
        look: From `measure_look`.
        twin: The twin whose parameters are described.
        name: Name of the randomization.

    Returns:
        One distribution for each parameter that differs; photographs are put on the twin by `look_twin`.
    """
    distributions = {
        name: _around(np.asarray(draws), twin.parameter(name))
        for values in look.values.values()
        for name, draws in values.items()
        if twin.has(name)
    }
    return make_randomization(twin, distributions, name=name)


def look_twin(look: MeasuredLook, twin: Twin) -> Twin:
    """The twin with the photographs of a measured look: the real table, and what covers the lens.

    Args:
        look: From `measure_look`.
        twin: The robot's twin.

    Returns:
        A new version of the twin; the twin itself where there are no photographs.
    """
    return with_assets(
        twin, {name: content for part in look.assets.values() for name, content in part.items()}
    )


def look_quantity(
    cause: str, name: str, camera: str, unit: str, twin: float, draws: Array, relevant: float
) -> LookQuantity:
    """From draws (n,) of the real value; it differs when its interval and by `relevant` its middle are off the twin's."""
    real = interval_of_draws(draws, unit=unit)
    differs = abs(real.value - twin) >= relevant and not real.contains(twin)
    return LookQuantity(cause, name, camera, float(twin), real, bool(differs))


def _around(draws: Array, parameter: Parameter) -> Distribution:
    """As wide as the draws, and a part of the way to the nominal value wider."""
    low, high = parameter.bounds
    if parameter.whole:
        return WholeNumbers(int(draws.min()), int(draws.max()))
    mean = float(np.clip(np.mean(draws), low, high))
    spread = float(np.hypot(np.std(draws), MODEL_ERROR * (mean - float(parameter.nominal))))
    return Normal(mean, spread, low, high) if spread > 1e-12 else Constant(mean)
