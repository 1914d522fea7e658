"""A randomization as code for simulators of others: a plan, rendered into a template for each of them."""

from __future__ import annotations

import pprint
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from twinloop.errors import UnknownName
from twinloop.interchange.export import EXPORTS, ExportRequest
from twinloop.interchange.plan import LeftOut, RandomizationPlan, make_plan
from twinloop.interchange.quantities import list_quantities, refuse_in_physx
from twinloop.randomization import Randomization, default_randomization, load_randomization
from twinloop.randomization.distribution import (
    Categorical,
    Constant,
    Distribution,
    LogUniform,
    Mixture,
    Normal,
    Uniform,
    WholeNumbers,
)
from twinloop.twins import Parameter, Twin

TEMPLATES = Path(__file__).parent / "templates"
FILE = "randomization.py"

ANY: tuple[int, ...] = ()
CONTACT: Mapping[str, tuple[int, ...]] = {"geom_friction": ANY, "geom_solref": ANY, "geom_solimp": ANY}
BODIES: Mapping[str, tuple[int, ...]] = dict.fromkeys(
    ("body_mass", "body_inertia", "body_ipos", "body_pos", "body_gravcomp"), ANY
)
JOINTS: Mapping[str, tuple[int, ...]] = dict.fromkeys(
    ("dof_frictionloss", "dof_damping", "dof_armature", "jnt_stiffness", "jnt_range"), ANY
)
ACTUATORS: Mapping[str, tuple[int, ...]] = dict.fromkeys(
    ("actuator_gainprm", "actuator_biasprm", "actuator_forcerange"), ANY
)
MUJOCO = {**CONTACT, **BODIES, **JOINTS, **ACTUATORS}
PHYSX: Mapping[str, tuple[int, ...]] = {
    "geom_friction": (0,), "body_mass": ANY, "body_inertia": ANY, "body_ipos": ANY, "dof_damping": ANY, "dof_armature": ANY,
    "actuator_gainprm": (0,), "actuator_biasprm": (1, 2), "actuator_forcerange": ANY,
}  # fmt: skip
"""SAPIEN's joint friction is a coefficient of PhysX 5.3, not a torque."""


@dataclass(frozen=True)
class Peer:
    """A simulator that takes a randomization as code.

    Args:
        title: Its name.
        fields: Fields of MuJoCo's model that it can set in each environment.
        physx: It has joints and bodies instead of MuJoCo's fields; the quantities of joints that it has.
    """

    title: str
    fields: Mapping[str, tuple[int, ...]]
    physx: frozenset[str] = field(default=frozenset())


PEERS: dict[str, Peer] = {
    "playground": Peer("MuJoCo Playground", MUJOCO | {"opt.gravity": ANY}),
    "mjlab": Peer("mjlab", MUJOCO),
    "isaaclab": Peer(
        "Isaac Lab", {**PHYSX, "dof_frictionloss": ANY}, frozenset({"joint_friction", "joint_viscous"})
    ),
    "maniskill": Peer("ManiSkill", PHYSX, frozenset({"joint_total_damping"})),
}


def write_randomizer(
    twin: Twin, randomization: Randomization, to: str, folder: str | Path
) -> tuple[LeftOut, ...]:
    """Write a randomization as code for another simulator.

    Args:
        twin: The twin.
        randomization: What varies in it, as `anchored_randomization` makes it.
        to: One of `PEERS`.
        folder: A folder; `randomization.py` is written into it.

    Returns:
        What the simulator cannot express.

    Raises:
        UnknownName: There is no such simulator.
        WrongUse: Nothing that varies can be expressed there.
    """
    if to not in PEERS:
        raise UnknownName("simulator to export to", to, PEERS)
    peer = PEERS[to]

    def refuse(twin: Twin, parameter: Parameter) -> str | None:
        return refuse_in_physx(twin, parameter) if peer.physx else None

    plan = make_plan(twin, randomization, peer.title, peer.fields, refuse)
    parts, left_out = {}, plan.left_out
    if peer.physx:
        quantities, entities, more = list_quantities(plan, peer.physx)
        left_out = (*left_out, *more)
        parts["quantities"] = _fill(
            "quantities", quantities=_lines(quantities), entities=_lines(entities.items())
        )
    parts["common"] = _fill("draws", **_tables(plan))
    if not peer.physx:
        parts["rows"] = _fill("rows")
    text = _fill(to, twin=twin.name, header=_header(plan, peer, left_out), **parts)
    (Path(folder) / FILE).write_text(text, encoding="utf-8")
    return left_out


def _register(name: str, peer: Peer) -> None:
    def write(request: ExportRequest, folder: Path) -> tuple[LeftOut, ...]:
        found = (
            default_randomization(request.twin)
            if request.config is None
            else load_randomization(request.config, request.twin)
        )
        return write_randomizer(request.twin, found, name, folder)

    write.__doc__ = f"Code that draws the randomization in {peer.title}."
    EXPORTS.register(name)(write)


for _name, _peer in PEERS.items():
    _register(_name, _peer)


def _fill(template: str, **parts: str) -> str:
    return Template((TEMPLATES / f"{template}.txt").read_text(encoding="utf-8")).substitute(parts)


def _header(plan: RandomizationPlan, peer: Peer, left_out: Iterable[LeftOut]) -> str:
    twin, randomization = plan.twin, plan.randomization
    lines = [
        f"Twin {twin.name}, version {twin.version}, hash {twin.content_hash}",
        f"Randomization {randomization.name}, hash {randomization.content_hash}",
        f"{len(plan.parameters)} parameters vary here. Left out for {peer.title}:",
        *(f"  {one.name}: {one.what}: {one.reason}" for one in left_out),
    ]
    return "\n".join(f"# {' '.join(line.splitlines())}" for line in lines)


def _tables(plan: RandomizationPlan) -> dict[str, str]:
    fields = [
        (
            table.name,
            (
                list(table.rows),
                table.width,
                list(table.base),
                [(w.parameter, w.rule, list(w.elements), w.factor, w.offset, w.reference, w.power) for w in table.writes],
            ),
        )
        for table in plan.fields
    ]  # fmt: skip
    correlated = [(list(n), mean.tolist(), factor.tolist()) for n, mean, factor in plan.correlated]
    return {
        "draws": "".join(f"    {name!r}: {_call(found)},\n" for name, found in plan.draws.items()),
        "correlated": _lines(correlated),
        "bounds": _lines(plan.bounds.items()),
        "nominal": _lines(plan.nominal.items()),
        "fields": _lines(fields),
    }


def _lines(entries: Iterable[Any]) -> str:
    """Entries of a list, or pairs as entries of a dictionary, one per line, as Python."""
    made = []
    for entry in entries:
        pair = isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str)
        text = f"{entry[0]!r}: {_python(entry[1])}" if pair else _python(entry)
        made.append(f"    {text},\n")
    return "".join(made)


def _python(value: Any) -> str:
    return pprint.pformat(value, width=10**6, compact=True).replace("inf", "INF")


def _call(found: Distribution) -> str:
    """A distribution as a call of the exported code's functions."""
    simple: dict[type, Callable[[Any], tuple[Any, ...]]] = {
        Constant: lambda d: ("constant", d.value),
        Uniform: lambda d: ("uniform", d.low, d.high),
        LogUniform: lambda d: ("log_uniform", d.low, d.high),
        WholeNumbers: lambda d: ("whole_numbers", d.low, d.high),
        Normal: lambda d: ("normal", d.mean, d.std, d.low, d.high),
    }
    if type(found) in simple:
        name, *numbers = simple[type(found)](found)
        return f"{name}({', '.join(_python(float(number)) for number in numbers)})"
    if isinstance(found, Categorical):
        weights = found.weights or (1.0,) * len(found.values)
        return f"choice({list(found.values)}, {_edges(weights)})"
    assert isinstance(found, Mixture)
    return f"mixture([{', '.join(map(_call, found.parts))}], {_edges(found.weights)})"


def _edges(weights: Iterable[float]) -> list[float]:
    numbers = np.array(list(weights), dtype=float)
    edges: list[float] = (np.cumsum(numbers)[:-1] / numbers.sum()).tolist()
    return edges
