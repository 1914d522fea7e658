"""Which parameters the data identify, which only in combination, and which not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from twinloop.episode import Array
from twinloop.identification.posterior import Posterior
from twinloop.identification.scale import PRIOR_DEVIATION, Scale

Status = Literal["identifiable", "weak", "not identifiable"]

SHARP = 0.15
"""A parameter is identifiable when its 95 % interval reaches no further than this fraction of its value to either side."""
FLOOR = 0.02
"""For values near zero, the fraction of the prior range that takes the value's place."""
BLUNT = 0.5
"""A parameter is not identifiable when its posterior deviation exceeds this fraction of the prior's."""
_PARTNER = 0.25
_TIED = 0.9


@dataclass(frozen=True)
class Confusion:
    """Parameters that are not separately identifiable: moving along `weights` (in prior ranges) changes no reading."""

    names: tuple[str, ...]
    weights: tuple[float, ...]
    remedy: str

    def __str__(self) -> str:
        signs = [f"{'+' if w > 0 else '-'} {name}" for name, w in zip(self.names, self.weights, strict=True)]
        return " ".join(signs).removeprefix("+ ")


def status_of(scales: Sequence[Scale], posterior: Posterior, half: Array | None = None) -> tuple[Status, ...]:
    """Whether the posterior identifies each parameter; `half` (P,) is how far intervals of places reach, by default the posterior's."""
    half = posterior.half_width() if half is None else half
    made: list[Status] = []
    for index, scale in enumerate(scales):
        place = float(posterior.mean[index])
        reach = half[index] * scale.slope(place)
        size = max(abs(float(scale.outward(place))), FLOOR * (scale.high - scale.low))
        if posterior.deviation[index] > BLUNT * PRIOR_DEVIATION:
            made.append("not identifiable")
        else:
            made.append("identifiable" if reach <= SHARP * size else "weak")
    return tuple(made)


def find_individually_identifiable(posterior: Posterior) -> Array:
    """Mask (parameters,) of those that the data would identify if the others were known.

    A parameter that is only correlated with others keeps its estimate: resetting it alone to its nominal value would give
    a twin that fits nothing.
    """
    alone = 1.0 / np.sqrt(np.diag(np.linalg.inv(posterior.covariance)))
    return np.asarray(alone <= BLUNT * PRIOR_DEVIATION)


def find_confusions(scales: Sequence[Scale], posterior: Posterior) -> tuple[Confusion, ...]:
    """Groups of parameters each of which would be known if the others were, but which are not known together.

    Read off the directions that the data leave open; a direction along a single parameter is that parameter's own
    lack of excitation and no confusion.
    """
    scaled = posterior.covariance / PRIOR_DEVIATION**2
    values, vectors = np.linalg.eigh(scaled)
    alone = 1.0 / np.sqrt(np.maximum(np.diag(np.linalg.inv(posterior.covariance)), 1e-300))
    together = posterior.deviation
    made = []
    for value, vector in sorted(zip(values, vectors.T, strict=True), key=lambda pair: -pair[0]):
        members = np.flatnonzero(np.abs(vector) > _PARTNER)
        tied = [int(m) for m in members if alone[m] < (1.0 - _TIED**2) ** 0.5 * together[m]]
        if value < (0.2) ** 2 or len(tied) < 2:
            continue
        sign = np.sign(vector[tied[0]])
        names = tuple(scales[m].name for m in tied)
        made.append(
            Confusion(names, tuple(float(sign * vector[m]) for m in tied), separating_experiment(names))
        )
    return tuple(made)


def separating_experiment(names: Sequence[str]) -> str:
    """The experiment that would identify these parameters separately."""
    have = set(names)
    if have >= {"action_delay_s", "observation_delay_s"}:
        return "stamp the arrival of commands at the driver: in open loop, only the sum of both delays is identifiable"
    if any("mass" in n or "distance" in n or "com" in n for n in have) and len(have) > 1:
        return "repeat the motion with a known extra weight, or weigh the part and fix its mass"
    if any("stiffness" in n or "gain" in n or "torque_scale" in n or "supply" in n for n in have):
        return "record motor current or torque, or repeat with another gain or a known load"
    if any("encoder_bias" in n for n in have):
        return "hold several poses against gravity from both sides, or touch a hard stop"
    if any("armature" in n for n in have):
        return "add quick reversals (a chirp to higher frequency): inertia shows only in acceleration"
    if any("friction" in n or "damping" in n for n in have):
        return "record the same path slowly and quickly: viscous friction depends on speed, dry friction does not"
    if any("backlash" in n for n in have):
        return "record slow reversals under load and without it"
    return f"`twinloop excite --parameters {','.join(names)}` designs a motion that separates them"
