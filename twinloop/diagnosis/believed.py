"""What a diagnosis measured of a robot, as a randomization: the twin is then believed to be like the robot, as surely as measured."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from twinloop.diagnosis import imperfection as kind
from twinloop.diagnosis.imperfection import Measured
from twinloop.randomization.distribution import Constant, Distribution, Normal
from twinloop.randomization.randomization import Randomization, make_randomization
from twinloop.twins import Twin

NATIVE = {
    kind.PERCEIVED_DELAY: "object_pose_delay_s",
    kind.PERCEIVED_Z: "object_pose_bias_z_m",
    kind.PERCEIVED_SCALE: "object_pose_scale_error",
    kind.HIDDEN: "object_pose_hidden_m",
}
"""What diagnosis puts between a policy and any twin, by the parameter of twins that do it themselves."""


def believed(measured: Iterable[Measured], twin: Twin, name: str = "believed") -> Randomization:
    """Parameters that differ from the twin's, each around what was measured of it and as uncertain.

    What the twin has no parameter for is left out: a simulation cannot show it.
    """
    made: dict[str, Distribution] = {}
    for one in measured:
        for name_there, values in one.values.items():
            parameter = NATIVE.get(name_there, name_there)
            if twin.has(parameter):
                made[parameter] = _around(np.asarray(values, np.float64), *twin.parameter(parameter).bounds)
    return make_randomization(twin, made, name=name)


def _around(values: np.ndarray, low: float, high: float) -> Distribution:
    middle, spread = float(np.mean(values)), float(np.std(values))
    middle = min(max(middle, low), high)
    return Normal(middle, spread, low, high) if spread > 1e-12 else Constant(middle)
