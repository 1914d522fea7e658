"""Writing parameter values into compiled models: one `MjModel`, or every simulation of a `mujoco.batch.Batch`.

Values are always written relative to the model as compiled, never to what a previous draw left behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import mujoco.batch
import numpy as np
from numpy.typing import ArrayLike

from twinloop.episode import Array
from twinloop.errors import InvalidTwin, UnknownName, WrongUse
from twinloop.twins.parameter import STAGES, Parameter, Target

Values = Mapping[str, Any]

_KINDS = {
    "actuator": "actuator",
    "body": "body",
    "cam": "camera",
    "dof": "joint",
    "eq": "equality",
    "geom": "geom",
    "jnt": "joint",
    "light": "light",
    "mat": "material",
    "pair": "pair",
    "site": "site",
    "tendon": "tendon",
}
_PHASES = {"set": 0, "scale": 1, "add": 2}


@dataclass(frozen=True)
class _Write:
    """One target with its elements found: flat positions within the field."""

    parameter: str
    target: Target
    elements: Array

    def onto(self, rows: Array, values: Array) -> None:
        """Write values (n, 1) onto rows (n, field size)."""
        target = self.target
        if target.rule == "set":
            rows[:, self.elements] = target.offset + target.factor * values
        elif target.rule == "scale":
            rows[:, self.elements] *= (values / target.reference) ** target.power
        else:
            rows[:, self.elements] += target.factor * values


class ModelPatch:
    """A twin's parameters resolved against its compiled model.

    `model` is the model as written and is never changed. Only parameters with targets matter here; values of others
    are accepted and ignored, so that a whole draw can be passed. Parameters that are left out stay nominal.
    """

    def __init__(self, model: mujoco.MjModel, parameters: Sequence[Parameter]) -> None:
        self.model = model
        self._nominal = {p.name: float(p.nominal) for p in parameters if p.targets}
        self._names = {
            stage: frozenset(p.name for p in parameters if p.targets and p.stage == stage) for stage in STAGES
        }
        self._compiled: dict[str, Array] = {}
        self._writes: dict[str, list[_Write]] = {}
        for parameter in parameters:
            for target in parameter.targets:
                write = _Write(parameter.name, target, _elements(model, parameter, target))
                self._writes.setdefault(target.field, []).append(write)
        for field, writes in self._writes.items():
            writes.sort(key=lambda write: _PHASES[write.target.rule])
            self._compiled[field] = np.array(_field(model, field), dtype=np.float64)

    def names(self, stage: str) -> frozenset[str]:
        """Parameters of one stage that write model fields."""
        return self._names.get(stage, frozenset())

    def fields(self, names: Iterable[str]) -> list[str]:
        """Model fields that any of the named parameters writes."""
        wanted = frozenset(names)
        return [f for f, writes in self._writes.items() if any(w.parameter in wanted for w in writes)]

    def compiled(self, field: str) -> Array:
        """A written field's numbers as the model was compiled, before any parameter."""
        return self._compiled[field].copy()

    def writes(self, field: str) -> list[tuple[str, Target, Array]]:
        """Parameters that write a field, in the order in which they do: name, target and flat positions."""
        return [(write.parameter, write.target, write.elements) for write in self._writes.get(field, [])]

    def rows(self, values: Values, count: int, fields: Sequence[str] | None = None) -> dict[str, Array]:
        """For each field, its values in `count` simulations, shape (count, *field shape).

        `values` maps parameter names to a number or to an array of shape (count,).
        """
        made = {}
        for field in self._writes if fields is None else fields:
            compiled = self._compiled[field]
            rows = np.repeat(compiled.reshape(1, -1), count, axis=0)
            for write in self._writes[field]:
                value = np.asarray(values.get(write.parameter, self._nominal[write.parameter]), np.float64)
                write.onto(rows, value.reshape(-1, 1))
            made[field] = rows.reshape(count, *compiled.shape)
        return made

    def apply_to_model(self, model: mujoco.MjModel, values: Values) -> None:
        """Write one draw into `model` and refresh the constants MuJoCo derives from it."""
        for field, rows in self.rows(values, 1).items():
            array = _field(model, field)
            if array.ndim:
                array[...] = rows[0]
            else:
                setattr(model.opt, field.removeprefix("opt."), rows[0].item())
        if self._writes:
            mujoco.mj_setConst(model, mujoco.MjData(model))


class BatchWriter:
    """Writes draws into the simulations of one batch; made once per batch.

    `varying` names the parameters that will differ between simulations: the fields they write are stored per
    simulation from then on. Image parameters belong to the renderer and are left out. The batch must have been made
    from a model that holds the twin's nominal values (`twin.make_model()`).
    """

    def __init__(self, patch: ModelPatch, batch: mujoco.batch.Batch, varying: Iterable[str]) -> None:
        self._patch = patch
        self._batch = batch
        self._varying = frozenset(patch.names("model")) & frozenset(varying)
        self._fields = patch.fields(self._varying)
        self._arrays = {field: batch.expand(field) for field in self._fields}

    def write(self, values: Values, ids: ArrayLike | None = None) -> None:
        """One draw per simulation: arrays of shape (len(ids),), or (nsim,) when `ids` is None."""
        for name in values:
            if name in self._patch.names("model") and name not in self._varying:
                raise WrongUse(
                    f"parameter {name!r} was not declared as varying for this batch",
                    available=sorted(self._varying),
                    remedy="name it in `varying` when making the BatchWriter",
                )
        if not self._fields:
            return
        simulations = np.arange(self._batch.nsim) if ids is None else np.asarray(ids)
        for field, rows in self._patch.rows(values, len(simulations), self._fields).items():
            self._arrays[field][simulations] = rows
        self._batch.set_const(None if ids is None else simulations)


def _field(model: mujoco.MjModel, field: str) -> Array:
    owner, name = (model.opt, field[4:]) if field.startswith("opt.") else (model, field)
    array = getattr(owner, name, None)
    if array is None:
        raise UnknownName("MuJoCo model field", field, mujoco.batch.MODEL_FIELDS)
    return np.asarray(array)


def _elements(model: mujoco.MjModel, parameter: Parameter, target: Target) -> Array:
    array = _field(model, target.field)
    positions = np.arange(array.size).reshape(array.shape)
    if not target.field.startswith("opt."):
        positions = positions[_rows(model, parameter, target)]
    if target.index:
        try:
            positions = positions[..., list(target.index)]
        except IndexError as error:
            raise InvalidTwin(
                f"parameter {parameter.name!r}: field {target.field!r} has no such elements",
                got=target.index,
                expected=f"indices below {array.shape[-1]}",
            ) from error
    return positions.reshape(-1)


def _rows(model: mujoco.MjModel, parameter: Parameter, target: Target) -> list[int]:
    prefix = target.field.split("_")[0]
    if prefix not in _KINDS:
        raise UnknownName(f"kind of model field (for parameter {parameter.name!r})", prefix, _KINDS)
    if not target.objects:
        raise InvalidTwin(
            f"parameter {parameter.name!r}: field {target.field!r} needs the objects it is about"
        )
    rows: list[int] = []
    for name in target.objects:
        try:
            view = getattr(model, _KINDS[prefix])(name)
        except KeyError as error:
            raise InvalidTwin(
                f"parameter {parameter.name!r} writes to a {_KINDS[prefix]} the model does not have",
                got=name,
                remedy=str(error).strip('"'),
            ) from error
        rows += [int(a) for a in _addresses(model, view.id)] if prefix == "dof" else [int(view.id)]
    return rows


def _addresses(model: mujoco.MjModel, joint: int) -> range:
    sizes = {mujoco.mjtJoint.mjJNT_FREE: 6, mujoco.mjtJoint.mjJNT_BALL: 3}
    start = int(model.jnt_dofadr[joint])
    return range(start, start + sizes.get(mujoco.mjtJoint(int(model.jnt_type[joint])), 1))
