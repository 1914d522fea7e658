"""The scenes a twin is tried in when nobody says otherwise."""

from __future__ import annotations

from twinloop.randomization.load import load_randomization
from twinloop.randomization.randomization import Randomization
from twinloop.twins import Twin

SCENES = {
    "object_offset_x_m": [-0.05, 0.05],
    "object_offset_y_m": [-0.05, 0.05],
    "object_yaw_rad": [-0.5, 0.5],
}
"""Where the object lies: about as a person puts it down."""

PLACES = (*SCENES, "target_offset_x_m", "target_offset_y_m")
"""Everything that says where things lie."""


def scenes_of(randomization: Randomization, twin: Twin) -> Randomization | None:
    """Where things lie in a randomization, everything else as the twin has it; None where nothing of that varies."""
    kept = tuple(v for v in randomization.variations if v.name in PLACES and twin.has(v.name))
    return Randomization(f"scenes of {randomization.name}", twin.name, kept) if kept else None


def usual_scenes(twin: Twin) -> Randomization:
    """The usual scenes of a twin, everything else nominal."""
    varied = {name: span for name, span in SCENES.items() if twin.has(name)}
    return load_randomization({"name": "usual-scenes", "randomization": {"environment": varied}}, twin)
