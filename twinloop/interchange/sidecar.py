"""`twin.json` beside an exported model: what the model's format cannot say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from twinloop.interchange.plan import WITHOUT_FIELDS, LeftOut
from twinloop.twins import Twin

FILE = "twin.json"
FORMAT = 1


def write_sidecar(
    twin: Twin, folder: Path, *, says_contact: bool, says_actuators: bool
) -> tuple[LeftOut, ...]:
    """Write what a model file leaves unsaid.

    Args:
        twin: The twin.
        folder: The folder of the model file.
        says_contact: The format has MuJoCo's contacts.
        says_actuators: The format has MuJoCo's actuators, tendons, equalities and armature.

    Returns:
        Everything that only the sidecar says and that is not neutral.
    """
    model = twin.make_model()
    described: dict[str, Any] = {
        "format": FORMAT, "twin": twin.name, "version": twin.version, "content_hash": twin.content_hash,
        "robot": twin.robot, "task": twin.task, "control_hz": twin.control_hz, "physics_dt_s": twin.physics_dt_s,
        "home": dict(twin.home), "roles": dict(twin.roles),
        "parameters": {
            p.name: {"value": p.nominal, "unit": p.unit, "dimension": p.dimension, "description": p.description}
            for p in twin.parameters
        },
    }  # fmt: skip
    unsaid = [
        LeftOut(p.name, p.format(p.nominal), WITHOUT_FIELDS[p.stage])
        for p in twin.parameters
        if p.stage == "imperfect" and p.nominal not in (0, 0.0, "none")
    ]
    if not says_actuators:
        described["actuators"] = [_actuator(model, i) for i in range(model.nu)]
        described["joints"] = {model.joint(i).name: _joint(model, i) for i in range(model.njnt)}
        described["tendons"] = [_tendon(model, i) for i in range(model.ntendon)]
        described["equalities"] = [
            {"type": mujoco.mjtEq(int(model.eq_type[i])).name, "name": model.equality(i).name}
            for i in range(model.neq)
        ]
        described["gravity_compensation"] = {
            model.body(i).name: float(model.body_gravcomp[i]) for i in np.flatnonzero(model.body_gravcomp)
        }
        unsaid += [
            LeftOut(a["name"], "actuator", "gains, limits and gears are in the sidecar")
            for a in described["actuators"]
        ]
        unsaid += [LeftOut(t["name"], "tendon", "it is in the sidecar") for t in described["tendons"]]
        unsaid += [
            LeftOut(e["name"] or e["type"], "equality", "it is named in the sidecar")
            for e in described["equalities"]
        ]
        if described["gravity_compensation"]:
            unsaid.append(LeftOut("gravity_compensation", "bodies", "fractions are in the sidecar"))
    if not says_contact:
        described["contacts"] = {
            model.geom(i).name or f"geom {i}": _contact(model, i)
            for i in range(model.ngeom)
            if model.geom_contype[i] or model.geom_conaffinity[i]
        }
        unsaid.append(
            LeftOut("contacts", "geoms", "MuJoCo's friction, stiffness and priority are in the sidecar")
        )
    (folder / FILE).write_text(json.dumps(described, indent=1, ensure_ascii=False), encoding="utf-8")
    return tuple(unsaid)


def _actuator(model: mujoco.MjModel, index: int) -> dict[str, Any]:
    kind = mujoco.mjtTrn(int(model.actuator_trntype[index]))
    target = int(model.actuator_trnid[index, 0])
    names = {mujoco.mjtTrn.mjTRN_JOINT: model.joint, mujoco.mjtTrn.mjTRN_TENDON: model.tendon}
    return {
        "name": model.actuator(index).name,
        "drives": kind.name.removeprefix("mjTRN_").lower(),
        "target": names[kind](target).name if kind in names else target,
        "gear": float(model.actuator_gear[index, 0]),
        "gain": float(model.actuator_gainprm[index, 0]),
        "bias": model.actuator_biasprm[index, :3].tolist(),
        "control_range": model.actuator_ctrlrange[index].tolist()
        if model.actuator_ctrllimited[index]
        else None,
        "force_range": model.actuator_forcerange[index].tolist()
        if model.actuator_forcelimited[index]
        else None,
    }


def _joint(model: mujoco.MjModel, index: int) -> dict[str, float]:
    dof = int(model.jnt_dofadr[index])
    return {
        "armature": float(model.dof_armature[dof]),
        "damping": float(model.dof_damping[dof]),
        "friction": float(model.dof_frictionloss[dof]),
        "stiffness": float(model.jnt_stiffness[index]),
    }


def _tendon(model: mujoco.MjModel, index: int) -> dict[str, Any]:
    first = int(model.tendon_adr[index])
    wraps = range(first, first + int(model.tendon_num[index]))
    joint = int(mujoco.mjtWrap.mjWRAP_JOINT)
    return {
        "name": model.tendon(index).name,
        "joints": {
            model.joint(int(model.wrap_objid[w])).name: float(model.wrap_prm[w])
            for w in wraps
            if int(model.wrap_type[w]) == joint
        },
    }


def _contact(model: mujoco.MjModel, index: int) -> dict[str, Any]:
    return {
        "friction": model.geom_friction[index].tolist(),
        "solref": model.geom_solref[index].tolist(),
        "solimp": model.geom_solimp[index].tolist(),
        "condim": int(model.geom_condim[index]),
        "priority": int(model.geom_priority[index]),
    }
