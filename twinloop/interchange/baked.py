"""A twin as one MJCF model that holds its parameters' values, for programs that know no parameters."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np

from twinloop.errors import InvalidTwin
from twinloop.interchange.export import EXPORTS, ExportRequest
from twinloop.interchange.plan import LeftOut, row_name
from twinloop.interchange.sidecar import write_sidecar
from twinloop.twins import Twin
from twinloop.twins.folder import safe_place

ATTRIBUTES = {
    "actuator_biasprm": ("actuator", "biasprm"), "actuator_damping": ("actuator", "damping"),
    "actuator_forcerange": ("actuator", "forcerange"), "actuator_gainprm": ("actuator", "gainprm"),
    "actuator_gear": ("actuator", "gear"), "body_gravcomp": ("body", "gravcomp"), "body_inertia": ("body", "inertia"),
    "body_ipos": ("body", "ipos"), "body_mass": ("body", "mass"), "body_pos": ("body", "pos"), "body_quat": ("body", "quat"),
    "dof_armature": ("joint", "armature"), "dof_damping": ("joint", "damping"), "dof_frictionloss": ("joint", "frictionloss"),
    "geom_friction": ("geom", "friction"), "geom_pos": ("geom", "pos"), "geom_quat": ("geom", "quat"), "geom_size": ("geom", "size"),
    "geom_solimp": ("geom", "solimp"), "geom_solref": ("geom", "solref"), "jnt_range": ("joint", "range"),
    "jnt_stiffness": ("joint", "stiffness"), "tendon_damping": ("tendon", "damping"), "tendon_frictionloss": ("tendon", "frictionloss"),
    "tendon_stiffness": ("tendon", "stiffness"), "site_pos": ("site", "pos"), "cam_pos": ("camera", "pos"), "cam_quat": ("camera", "quat"),
}  # fmt: skip
"""Fields of a compiled model, and the elements and attributes of a specification that they come from."""

INERTIAL = ("body_inertia", "body_ipos", "body_mass")


def bake_twin(twin: Twin) -> tuple[mujoco.MjSpec, mujoco.MjModel]:
    """Write a twin's nominal values into its MJCF.

    Args:
        twin: The twin.

    Returns:
        The specification and the model that it compiles to, whose fields are those of `twin.make_model()`.

    Raises:
        InvalidTwin: A parameter writes what MJCF cannot say.
    """
    included = {name: content for name, content in twin.assets.items() if name.endswith(".xml")}
    spec = mujoco.MjSpec.from_string(twin.mjcf, include=included, assets=dict(twin.assets))
    wanted, compiled = twin.make_model(), twin.patch.model
    written = twin.patch.fields(p.name for p in twin.parameters if p.stage == "model")
    for field in written:
        new, old = _numbers(wanted, field), _numbers(compiled, field)
        if field.startswith("opt."):
            setattr(spec.option, field[4:], new if new.ndim else new.item())
            continue
        for row in np.flatnonzero((new != old).reshape(len(new), -1).any(axis=1)):
            _write(spec, wanted, field, int(row))
    model = spec.compile()
    for field in written:
        found, expected = _numbers(model, field), _numbers(wanted, field)
        if not np.allclose(found, expected, rtol=1e-9, atol=1e-12):
            raise InvalidTwin(f"MJCF cannot hold the values of {field} that twin {twin.name!r} has")
    return spec, model


def _numbers(model: mujoco.MjModel, field: str) -> np.ndarray:
    owner, name = (model.opt, field[4:]) if field.startswith("opt.") else (model, field)
    return np.array(getattr(owner, name), dtype=np.float64)


def _write(spec: mujoco.MjSpec, model: mujoco.MjModel, field: str, row: int) -> None:
    """Write one row of a field of a compiled model into the specification."""
    if field not in ATTRIBUTES:
        raise InvalidTwin(f"no attribute of MJCF is known for {field}", available=ATTRIBUTES)
    kind, attribute = ATTRIBUTES[field]
    element = getattr(spec, kind)(row_name(model, field, row))
    if field in INERTIAL:
        element.explicitinertial = True
        element.mass, element.inertia = float(model.body_mass[row]), model.body_inertia[row]
        element.ipos, element.iquat = model.body_ipos[row], model.body_iquat[row]
        return
    value = getattr(model, field)[row]
    old = np.asarray(getattr(element, attribute))
    if old.ndim == 0:
        setattr(element, attribute, float(value))
        return
    new = np.array(old, dtype=np.float64)
    new[: np.size(value)] = value
    setattr(element, attribute, new)


@EXPORTS.register("mjcf")
def write_mjcf(request: ExportRequest, folder: Path) -> tuple[LeftOut, ...]:
    """The twin's model with its values as MJCF, and a sidecar with what MJCF cannot say."""
    spec, _ = bake_twin(request.twin)
    (folder / "model.xml").write_text(spec.to_xml(), encoding="utf-8")
    for name, content in request.twin.assets.items():
        if not name.endswith(".xml"):
            file = folder / safe_place(name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    return write_sidecar(request.twin, folder, says_contact=True, says_actuators=True)
