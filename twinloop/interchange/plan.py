"""What a simulator of others can vary of a randomization: fields of the model, how draws reach them, and what is left out.

A field's numbers are a function of the draws alone: its compiled values, then what every parameter of the twin writes, drawn or
nominal, in the order of `twins.patch`. So the exported code needs no particular state of the model that it writes to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import mujoco
import numpy as np

from twinloop.episode import Array
from twinloop.errors import WrongUse
from twinloop.randomization import Randomization
from twinloop.randomization.distribution import Distribution, Schedule
from twinloop.randomization.randomization import Correlation
from twinloop.twins import Parameter, Target, Twin

WITHOUT_FIELDS: Mapping[str, str] = {
    "scene": "where things lie is decided when the environment resets, not by its model",
    "imperfect": "the hardware around the physics: add it to the environment's actions and observations",
    "actor": "it moves the demonstrator, not the robot",
    "appearance": "it changes what cameras see",
}
"""Why parameters of these stages write no field of a model."""

SHAPES = ("geom_size", "geom_pos", "geom_rbound")
SINGLE = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))


@dataclass(frozen=True)
class LeftOut:
    """Something that the other side cannot express: a parameter or a part of the model, and why."""

    name: str
    what: str
    reason: str


@dataclass(frozen=True)
class Write:
    """How one parameter reaches numbers of a field: see `twins.parameter.Target`; `elements` are flat positions."""

    parameter: str
    rule: str
    elements: tuple[int, ...]
    factor: float
    offset: float
    reference: float
    power: float


@dataclass(frozen=True)
class FieldTable:
    """One field: its named rows of `width` numbers as compiled, row after row, and the writes onto them in order."""

    name: str
    rows: tuple[str, ...]
    width: int
    base: tuple[float, ...]
    writes: tuple[Write, ...]


@dataclass(frozen=True)
class RandomizationPlan:
    """Everything that a randomizer for another simulator is written from.

    `draws` are independent distributions, `correlated` are names, means (k,) and lower Cholesky factors (k, k) of normal
    ones, `nominal` the values of other parameters that write the same fields, `bounds` what draws are clipped to.
    """

    twin: Twin
    randomization: Randomization
    draws: Mapping[str, Distribution]
    correlated: tuple[tuple[tuple[str, ...], Array, Array], ...]
    nominal: Mapping[str, float]
    bounds: Mapping[str, tuple[float, float]]
    fields: tuple[FieldTable, ...]
    left_out: tuple[LeftOut, ...] = ()

    @property
    def parameters(self) -> list[str]:
        """Every parameter that is drawn."""
        return [*self.draws, *(name for names, _, _ in self.correlated for name in names)]


def make_plan(
    twin: Twin,
    randomization: Randomization,
    peer: str,
    fields: Mapping[str, tuple[int, ...]],
    refuse: Callable[[Twin, Parameter], str | None] = lambda twin, parameter: None,
) -> RandomizationPlan:
    """Sort out what a simulator can vary.

    Args:
        twin: The twin.
        randomization: What varies in it.
        peer: The simulator's name, for the reasons.
        fields: Fields of MuJoCo's model that the simulator can set in each environment, and which columns; () means all.
        refuse: Why it cannot vary a parameter although it has its fields; None where it can.

    Returns:
        The plan, with every varied parameter either drawn or left out by name.

    Raises:
        WrongUse: Nothing that varies can be expressed there.
    """
    refused = {
        name: _refuse(twin, twin.parameter(name), randomization[name], fields, peer)
        or refuse(twin, twin.parameter(name))
        for name in randomization.names
    }
    left_out = tuple(
        LeftOut(name, twin.parameter(name).in_unit(str(randomization[name])), reason)
        for name, reason in refused.items()
        if reason
    )
    drawn = {name for name, reason in refused.items() if not reason}
    if not drawn:
        raise WrongUse(
            f"nothing that randomization {randomization.name!r} varies can be expressed in {peer}",
            got="; ".join(f"{one.name}: {one.reason}" for one in left_out[:3]) or "no variations",
            remedy="--config FILE with parameters of the model; `twinloop anchor` writes one",
        )
    tables = tuple(_table(twin, name) for name in twin.patch.fields(drawn))
    writers = {write.parameter for table in tables for write in table.writes}
    return RandomizationPlan(
        twin,
        randomization,
        {v.name: v.distribution for v in randomization.variations if v.name in drawn},
        tuple(_kept(group, drawn) for group in randomization.correlations if drawn & set(group.names)),
        {name: float(twin.parameter(name).nominal) for name in sorted(writers - drawn)},
        {name: twin.parameter(name).bounds for name in randomization.names if name in drawn},
        tables,
        left_out,
    )


def _kept(group: Correlation, drawn: Collection[str]) -> tuple[tuple[str, ...], Array, Array]:
    """Correlated parameters without those that are left out."""
    rows = [i for i, name in enumerate(group.names) if name in drawn]
    factor = np.linalg.cholesky(np.array(group.covariance)[np.ix_(rows, rows)])
    return tuple(group.names[i] for i in rows), np.array(group.mean)[rows], factor


def _refuse(
    twin: Twin,
    parameter: Parameter,
    distribution: Distribution,
    fields: Mapping[str, tuple[int, ...]],
    peer: str,
) -> str | None:
    """Why a parameter cannot be varied there; None where it can."""
    if parameter.stage != "model":
        return WITHOUT_FIELDS[parameter.stage]
    if isinstance(distribution, Schedule):
        return "its distribution changes over episodes, which the simulator does not count"
    written = {target.field for target in parameter.targets}
    if shapes := sorted(written & set(SHAPES)):
        return f"bounds of the shapes would not follow {', '.join(shapes)}"
    if missing := sorted({t.field for t in parameter.targets if not _has(fields, t)}):
        return f"{peer} has nothing like {', '.join(missing)} in each environment"
    free = [name for t in parameter.targets if t.field.startswith("dof_") for name in t.objects]
    if any(int(twin.patch.model.joint(name).type[0]) not in SINGLE for name in free):
        return "the joint has several degrees of freedom"
    return None


def _has(fields: Mapping[str, tuple[int, ...]], target: Target) -> bool:
    """Whether a simulator has the columns of a field that a target writes."""
    columns = fields.get(target.field)
    return columns is not None and (not columns or (bool(target.index) and set(target.index) <= set(columns)))


def _table(twin: Twin, name: str) -> FieldTable:
    """One field with its rows that any parameter writes."""
    compiled, writes = twin.patch.compiled(name), twin.patch.writes(name)
    width = compiled.size if name.startswith("opt.") else compiled.size // len(compiled)
    rows = sorted({int(element) // width for _, _, elements in writes for element in elements})
    place = {
        row * width + column: i * width + column for i, row in enumerate(rows) for column in range(width)
    }
    base = compiled.reshape(-1, width)[rows].reshape(-1)
    found = tuple(
        Write(parameter, t.rule, tuple(place[int(e)] for e in elements), t.factor, t.offset, t.reference, t.power)
        for parameter, t, elements in writes
    )  # fmt: skip
    return FieldTable(
        name,
        tuple(row_name(twin.patch.model, name, row) for row in rows),
        width,
        tuple(map(float, base)),
        found,
    )


def row_name(model: mujoco.MjModel, field: str, row: int) -> str:
    """The name of the element that a row of a field is about; rows of `opt.` have none."""
    kind = field.split("_")[0]
    if field.startswith("opt."):
        return ""
    if kind == "dof":
        return str(model.joint(int(model.dof_jntid[row])).name)
    return str(getattr(model, {"jnt": "joint", "cam": "camera", "mat": "material"}.get(kind, kind))(row).name)
