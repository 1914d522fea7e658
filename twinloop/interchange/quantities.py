"""Fields of MuJoCo's model as what joints and bodies of PhysX have."""

from __future__ import annotations

from collections.abc import Collection

import mujoco
import numpy as np

from twinloop.interchange.plan import FieldTable, LeftOut, RandomizationPlan
from twinloop.twins import Parameter, Twin

Term = tuple[float, str, int]
Quantity = tuple[str, str, float, list[Term]]


def refuse_in_physx(twin: Twin, parameter: Parameter) -> str | None:
    """Why PhysX cannot vary a parameter although its fields have a counterpart; None where it can."""
    model = twin.patch.model
    for target in parameter.targets:
        if target.field != "geom_friction":
            continue
        bodies = {int(model.geom(name).bodyid[0]) for name in target.objects}
        for body in bodies:
            if not _is_single(model, body):
                return "friction of one link of an articulation has no term there"
            geoms = [int(geom) for geom in np.flatnonzero(model.geom_bodyid == body)]
            others = {model.geom(geom).name for geom in geoms if _collides(model, geom)}
            if not others <= set(target.objects):
                return "a body has one friction there, not one for each of its shapes"
    return None


def list_quantities(
    plan: RandomizationPlan, wanted: Collection[str]
) -> tuple[list[Quantity], dict[str, str], list[LeftOut]]:
    """What joints and bodies get, as sums of field numbers.

    Args:
        plan: The plan.
        wanted: Quantities of joints that only some simulators have: `joint_friction`, `joint_viscous`, or
            `joint_total_damping` where the drive's damping stands for the joint's as well.

    Returns:
        (quantity, name, constant, terms), the entity of each body, and what has no counterpart.
    """
    model, tables = plan.twin.patch.model, {table.name: table for table in plan.fields}
    made: list[Quantity] = []
    for field, quantity in (("dof_frictionloss", "joint_friction"), ("dof_damping", "joint_viscous")):
        if quantity in wanted and field in tables:
            made += [(quantity, n, 0.0, [(1.0, field, i)]) for i, n in enumerate(tables[field].rows)]
    if "dof_armature" in tables:
        rows = tables["dof_armature"].rows
        made += [("joint_armature", n, 0.0, [(1.0, "dof_armature", i)]) for i, n in enumerate(rows)]
    drives, left_out = _list_drives(plan, tables)
    made += drives + _list_damping(plan, tables, "joint_total_damping" in wanted)
    bodies = _list_bodies(model, tables)
    robot = {name for _, name, _, _ in bodies if not _is_single(model, model.body(name).id)}
    return made + bodies, {n: "robot" if n in robot else n for _, n, _, _ in bodies}, left_out


def _list_drives(
    plan: RandomizationPlan, tables: dict[str, FieldTable]
) -> tuple[list[Quantity], list[LeftOut]]:
    """Stiffness and effort limit of the joint that each actuator drives."""
    model, made, left_out = plan.twin.patch.model, [], {}
    for field, quantity, column in (
        ("actuator_gainprm", "joint_stiffness", 0),
        ("actuator_forcerange", "joint_effort", 1),
    ):
        table = tables.get(field)
        for row, actuator in enumerate(table.rows if table else ()):
            joint = driven_joint(model, actuator)
            if joint is None:
                text = "it drives no single joint, so that its gains and limits stay as they are there"
                left_out[actuator] = LeftOut(actuator, "actuator", text)
                continue
            assert table is not None
            made.append((quantity, joint, 0.0, [(1.0, field, row * table.width + column)]))
    return made, list(left_out.values())


def _list_damping(plan: RandomizationPlan, tables: dict[str, FieldTable], total: bool) -> list[Quantity]:
    """Damping of each joint's drive, together with the joint's own where `total`."""
    model, bias, own = plan.twin.patch.model, tables.get("actuator_biasprm"), tables.get("dof_damping")
    actuators = {joint: a for a in _actuators(model) if (joint := driven_joint(model, a)) is not None}
    nominal = plan.twin.make_model()
    made: list[Quantity] = []
    for joint, actuator in actuators.items():
        constant, terms = 0.0, []
        if bias is not None and actuator in bias.rows:
            terms.append((-1.0, "actuator_biasprm", bias.rows.index(actuator) * bias.width + 2))
        else:
            constant -= float(nominal.actuator(actuator).biasprm[2])
        if total and own is not None and joint in own.rows:
            terms.append((1.0, "dof_damping", own.rows.index(joint)))
        elif total:
            constant += float(nominal.dof_damping[nominal.joint(joint).dofadr[0]])
        if terms:
            made.append(("joint_damping", joint, constant, terms))
    return made


def _list_bodies(model: mujoco.MjModel, tables: dict[str, FieldTable]) -> list[Quantity]:
    """Mass, inertia relative to the model's, centre of mass, and friction."""
    made: list[Quantity] = []
    for i, name in enumerate(tables["body_mass"].rows if "body_mass" in tables else ()):
        made.append(("mass_kg", name, 0.0, [(1.0, "body_mass", i)]))
    if "body_inertia" in tables:
        table = tables["body_inertia"]
        made += [
            ("inertia_ratio", name, 0.0, [(1.0 / table.base[3 * i], table.name, 3 * i)])
            for i, name in enumerate(table.rows)
        ]
    for i, name in enumerate(tables["body_ipos"].rows if "body_ipos" in tables else ()):
        made += [
            (f"com_{axis}_m", name, 0.0, [(1.0, "body_ipos", 3 * i + k)]) for k, axis in enumerate("xyz")
        ]
    seen = set()
    geoms = tables["geom_friction"].rows if "geom_friction" in tables else ()
    for i, name in enumerate(geoms):
        body = model.body(int(model.geom(name).bodyid[0])).name
        if body not in seen:
            seen.add(body)
            made.append(("friction", body, 0.0, [(1.0, "geom_friction", 3 * i)]))
    return made


def driven_joint(model: mujoco.MjModel, actuator: str) -> str | None:
    """The joint that an actuator drives without a gear; None if it drives something else."""
    index = model.actuator(actuator).id
    direct = (
        model.actuator_trntype[index] == mujoco.mjtTrn.mjTRN_JOINT and model.actuator_gear[index, 0] == 1.0
    )
    return str(model.joint(int(model.actuator_trnid[index, 0])).name) if direct else None


def _actuators(model: mujoco.MjModel) -> list[str]:
    return [model.actuator(i).name for i in range(model.nu)]


def _is_single(model: mujoco.MjModel, body: int) -> bool:
    """Whether a body is a rigid object of its own: it moves freely, and carries nothing."""
    first = int(model.body_jntadr[body])
    free = first >= 0 and int(model.jnt_type[first]) == int(mujoco.mjtJoint.mjJNT_FREE)
    return free and not np.any(model.body_parentid == body)


def _collides(model: mujoco.MjModel, geom: int) -> bool:
    return bool(model.geom_contype[geom] or model.geom_conaffinity[geom])
