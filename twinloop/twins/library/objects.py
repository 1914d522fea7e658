"""Parameters of the objects in the built-in twins, with the model's own numbers as nominal."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco

from twinloop.twins.parameter import Parameter, Target, model_parameter

FACES = ("front", "back", "left", "right", "top", "bottom")
FACE_GEOMS = tuple(f"object_face_{face}" for face in FACES)


# fmt: off
def contact_parameters(model: mujoco.MjModel, geoms: Sequence[str]) -> tuple[Parameter, ...]:
    """Friction and softness of geoms whose priority decides every contact they are in."""
    names = tuple(geoms)
    geom = model.geom(names[0]).id

    def contact(
        name: str, field: str, index: int, bounds: tuple[float, float], unit: str, text: str
    ) -> Parameter:
        nominal = float(getattr(model, field)[geom, index])
        return model_parameter(name, nominal, bounds, unit, "contact", text, Target(field, names, (index,)))

    return (
        contact("object_friction", "geom_friction", 0, (0.02, 2.0), "1", "sliding friction"),
        contact("object_torsional_friction_m", "geom_friction", 1, (0.0, 0.05), "m", "torsional friction"),
        contact("contact_time_s", "geom_solref", 0, (0.004, 0.1), "s", "time in which penetration decays (solref)"),
        contact("contact_damping_ratio", "geom_solref", 1, (0.05, 2.0), "1", "below one bounces (solref)"),
        contact("contact_impedance", "geom_solimp", 0, (0.1, 0.989), "1", "hardness at first touch (solimp)"),
        contact("contact_width_m", "geom_solimp", 2, (0.0001, 0.02), "m", "depth over which it hardens (solimp)"),
    )


def face_parameters() -> tuple[Parameter, ...]:
    """Friction of each face of an object made of six slabs, relative to the others."""
    return tuple(
        model_parameter(
            f"object_face_{face}_friction_scale", 1.0, (0.1, 3.0), "1", "contact",
            f"friction of the {face} face relative to the others", Target("geom_friction", (f"object_face_{face}",), (0,), "scale"),
        )
        for face in FACES
    )


def object_parameters(
    model: mujoco.MjModel, geoms: Sequence[str], size_m: float, size_bounds_m: tuple[float, float]
) -> tuple[Parameter, ...]:
    """Mass, inertia, size and centre of mass of the body called `object`."""
    body = ("object",)
    mass_kg = float(model.body("object").mass[0])

    def scaled(field: str, objects: tuple[str, ...], reference: float, power: float = 1.0) -> Target:
        return Target(field, objects, rule="scale", reference=reference, power=power)

    return (
        model_parameter(
            "object_mass_kg", mass_kg, (0.05 * mass_kg, 20.0 * mass_kg), "kg", "object",
            "mass of the object; the inertia follows", Target("body_mass", body), scaled("body_inertia", body, mass_kg),
        ),
        model_parameter("object_inertia_scale", 1.0, (0.2, 3.0), "1", "object", "inertia relative to the model's", scaled("body_inertia", body, 1.0)),
        model_parameter(
            "object_size_m", size_m, size_bounds_m, "m", "object",
            "longest edge of the object; the other edges and the inertia follow", scaled("geom_size", tuple(geoms), size_m), scaled("geom_pos", tuple(geoms), size_m), scaled("body_inertia", body, size_m, 2.0),
        ),
        *(
            model_parameter(
                f"object_center_{axis}_m", 0.0, (-0.3 * size_m, 0.3 * size_m), "m", "object",
                f"centre of mass along the object's {axis}", Target("body_ipos", body, (index,)),
            )
            for index, axis in enumerate("xyz")
        ),
    )


def table_height_parameter() -> Parameter:
    """Height of the body called `table`."""
    return model_parameter(
        "table_height_m", 0.0, (-0.05, 0.05), "m", "environment",
        "table top above the robot's base", Target("body_pos", ("table",), (2,)),
    )
# fmt: on
