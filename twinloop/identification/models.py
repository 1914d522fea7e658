"""Parameters that `identify` fits when none are named: a simple model of joints and contacts, and richer ones that compete with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from twinloop.episode import Episode
from twinloop.errors import WrongUse
from twinloop.identification.recording import Channel, find_channels
from twinloop.tasks import make_cell
from twinloop.twins import Twin
from twinloop.twins.declare import to_identifier

SIMPLE = "Coulomb and viscous friction"
GEAR = "gear friction"

_JOINT = ("friction_", "damping_", "armature_", "back_emf_")
_SHARED = ("servo_stiffness_scale", "torque_scale", "action_delay_s")
_GEAR = (
    "stiction_extra_nm",
    "stribeck_speed_rad_s",
    "drive_load_friction",
    "drive_load_growth_per_nm",
    "external_load_friction",
    "external_load_stiction",
)


def default_parameters(twin: Twin, real: Iterable[Episode]) -> list[str]:
    """Parameters of the simple model: friction, damping, rotor inertia and back-EMF of every measured joint, the stiffness or
    torque of all servos, the action delay; with a measured object, its contacts.
    """
    channels = find_channels(make_cell(twin), next(iter(real)))
    names = [
        parameter.name
        for stem in _stems(channels)
        for parameter in twin.parameters
        if parameter.stage == "model"
        and parameter.name.startswith(tuple(f"{stem}_{kind}" for kind in _JOINT))
    ]
    names += [name for name in _SHARED if twin.has(name)]
    if any(channel.kind == "place" for channel in channels):
        names += [p.name for p in twin.parameters if p.stage == "model" and p.dimension == "contact"]
    if not names:
        raise WrongUse(
            f"twin {twin.name!r} has none of the parameters that are fitted by default",
            remedy="name some; `twinloop twin show` lists them",
        )
    return names


def default_models(twin: Twin, real: Sequence[Episode]) -> dict[str, list[str]]:
    """Competing sets of parameters, by label: the simple model, and one with the friction of gears where the twin has it."""
    simple = default_parameters(twin, real)
    stems = ("servo", *_stems(find_channels(make_cell(twin), real[0])))
    gear = [name for stem in stems for kind in _GEAR if twin.has(name := f"{stem}_{kind}")]
    return {SIMPLE: simple, GEAR: [*simple, *gear]} if gear else {SIMPLE: simple}


def _stems(channels: Sequence[Channel]) -> list[str]:
    return [to_identifier(channel.name) for channel in channels if channel.kind == "position"]
