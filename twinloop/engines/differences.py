"""What each engine makes of a twin's parameters: the same quantity, a mapped one, or none.

A parameter that an engine cannot vary is refused by name, so that no recorded draw claims what was not simulated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from twinloop.engines.protocol import ENGINES
from twinloop.errors import MissingExtra, WrongUse
from twinloop.twins import Twin

Treatment = Literal["same", "mapped", "refused"]


@dataclass(frozen=True)
class Difference:
    """What an engine makes of a field of MuJoCo's model, where it is not the same; `about` says how, or why not."""

    treatment: Treatment
    about: str


_RIGID = "contacts are rigid in this engine's solver, so that MuJoCo's softness has no counterpart"
_SERVOS = (
    "servos are integrated implicitly before each step and become motors that are solved with the contacts"
)

_BOTH = {
    "geom_solref": Difference("refused", _RIGID),
    "geom_solimp": Difference("refused", _RIGID),
    "tendon_armature": Difference("refused", "tendons have no inertia in this engine"),
    "actuator_gainprm": Difference("mapped", _SERVOS),
    "actuator_biasprm": Difference("mapped", _SERVOS),
    "actuator_forcerange": Difference("mapped", _SERVOS),
    "dof_armature": Difference("mapped", f"part of the servo: {_SERVOS}"),
    "dof_damping": Difference("mapped", f"part of the servo: {_SERVOS}"),
    "dof_frictionloss": Difference("mapped", f"part of the servo: {_SERVOS}"),
    "geom_friction[2]": Difference("refused", "contacts do not resist rolling in this engine"),
}

DIFFERENCES: dict[str, dict[str, Difference]] = {
    "bullet": {
        "geom_friction": Difference(
            "mapped",
            "sliding and torsional friction of the body's first shape; the engine multiplies two bodies' frictions, which are set so "
            "that contacts of the object have MuJoCo's",
        ),
    }
    | _BOTH,
    "physx": {
        "geom_friction": Difference(
            "mapped",
            "sliding friction of the body's first shape, for all its shapes; the engine takes the mean of two bodies' frictions, which are set "
            "so that contacts of the object have MuJoCo's",
        ),
        "geom_friction[1]": Difference(
            "refused", "contacts do not resist turning on the spot in this engine"
        ),
    }
    | _BOTH,
}
"""By engine and field of MuJoCo's model, or element of a field; those that are not listed mean the same in each engine."""


def cannot_vary(engine: str, twin: Twin, names: Iterable[str]) -> dict[str, str]:
    """Those of the named parameters that an engine cannot vary, each with the reason.

    Args:
        engine: Name of the engine.
        twin: The twin whose parameters they are.
        names: Names of parameters.

    Returns:
        The reason by name of parameter; empty if all can vary.
    """
    fields = DIFFERENCES.get(engine, {})
    found = {}
    for name in sorted(set(names)):
        parameter = twin.parameter(name)
        if parameter.stage != "model":
            continue
        for target in parameter.targets:
            keys = [f"{target.field}[{index}]" for index in target.index]
            difference = next((fields[key] for key in keys if key in fields), fields.get(target.field))
            if difference is not None and difference.treatment == "refused":
                found[name] = difference.about
        if fields and _is_of_one_face(twin, name):
            found[name] = "all shapes of a body have the same friction in this engine"
    return found


def require_can_vary(engine: str, twin: Twin, names: Iterable[str]) -> None:
    """Refuse parameters that an engine cannot vary.

    Raises:
        WrongUse: There are some; the message names them with the reason.
    """
    if found := cannot_vary(engine, twin, names):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in found.items())
        raise WrongUse(
            f"engine {engine} cannot vary {', '.join(found)}",
            got=reasons,
            expected="parameters that this engine has; docs/how-to/engines.md lists them",
            remedy="leave them out of the randomization, or use --engine mujoco",
        )


def require_engine(engine: str, twin: Twin, names: Iterable[str]) -> None:
    """Refuse an engine that is unknown, not installed, or cannot vary some of the named parameters.

    Raises:
        UnknownName: No engine has this name.
        MissingExtra: The engine is not installed.
        WrongUse: It cannot vary a parameter.
    """
    package, extra = getattr(ENGINES.get(engine), "needs", None) or ("", "")
    if package and find_spec(package) is None:
        raise MissingExtra(f"engine {engine}", package, extra)
    require_can_vary(engine, twin, names)


def _is_of_one_face(twin: Twin, name: str) -> bool:
    """Whether a parameter is the friction of some shapes of a body and not of its others."""
    model = twin.patch.model
    for target in twin.parameter(name).targets:
        if target.field != "geom_friction":
            continue
        geoms = {int(model.geom(one).id) for one in target.objects}
        for body in {int(model.geom_bodyid[geom]) for geom in geoms}:
            first = int(model.body_geomadr[body])
            shapes = {
                geom
                for geom in range(first, first + int(model.body_geomnum[body]))
                if model.geom_contype[geom] or model.geom_conaffinity[geom]
            }
            if not shapes <= geoms:
                return True
    return False
