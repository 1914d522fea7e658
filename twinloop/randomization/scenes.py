"""The scenes that policies are trained and evaluated in unless a randomization says otherwise."""

from __future__ import annotations

from twinloop.randomization.load import load_randomization
from twinloop.randomization.randomization import Randomization
from twinloop.twins import Twin

SCENES = {
    "object_offset_x_m": [-0.09, 0.09],
    "object_offset_y_m": [-0.09, 0.09],
    "object_yaw_rad": [-0.75, 0.75],
    "target_offset_x_m": [-0.04, 0.04],
    "target_offset_y_m": [-0.04, 0.04],
}
"""Range of each parameter that places the object and the target."""

TARGET_ALONE = {
    "target_offset_x_m": [-0.12, 0.12],
    "target_offset_y_m": [-0.2, 0.2],
    "target_offset_z_m": [-0.15, 0.15],
}
"""The same where there is no object: the target is all that varies, so it goes wherever the arm reaches with ease."""


def training_scenes(twin: Twin) -> Randomization:
    """Uniform distributions over where object and target lie, everything else nominal.

    Args:
        twin: Parameters that it does not have are left out.

    Returns:
        The randomization of `SCENES`, or of `TARGET_ALONE`.
    """
    places = SCENES if "object" in twin.roles else TARGET_ALONE
    ranges = {name: span for name, span in places.items() if twin.has(name)}
    return load_randomization({"name": "scenes", "randomization": ranges}, twin)


def scenes_of(randomization: Randomization, twin: Twin) -> Randomization | None:
    """The part of a randomization that places object and target; None where it places nothing."""
    kept = tuple(
        v for v in randomization.variations if v.name in {**SCENES, **TARGET_ALONE} and twin.has(v.name)
    )
    return Randomization(f"scenes of {randomization.name}", twin.name, kept) if kept else None
