"""The same cell with another physics time step."""

from __future__ import annotations

import re
from dataclasses import replace

from twinloop.errors import InvalidTwin
from twinloop.twins.twin import Twin


def with_time_step(twin: Twin, dt_s: float) -> Twin:
    """The same cell with another physics time step."""
    option = re.compile(r"(<option\b[^>]*?\btimestep\s*=\s*)([\"'])[^\"']*\2")
    text, changed = option.subn(rf'\g<1>"{dt_s!r}"', twin.mjcf, count=1)
    if not changed:
        text = re.sub(r"(<mujoco\b[^>]*>)", rf'\g<1><option timestep="{dt_s!r}"/>', twin.mjcf, count=1)
    finer = replace(twin, mjcf=text, parent=twin.content_hash, version=f"{twin.version}+{dt_s * 1e6:g}us")
    if abs(finer.physics_dt_s - dt_s) > 1e-12:
        raise InvalidTwin(
            f"the time step of twin {twin.name!r} cannot be changed", got=finer.physics_dt_s, expected=dt_s
        )
    return finer
