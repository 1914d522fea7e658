"""What a viewer draws of a twin is the compiled model, as a draw of its parameters makes it look."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import numpy as np
import pytest

from twinloop.engines.geometry import MOST_FACES, body_poses, read_geometry
from twinloop.errors import WrongUse
from twinloop.records import plain
from twinloop.tasks import make_cell
from twinloop.tasks.place import start_at_rest
from twinloop.twins import Twin, list_twins, load_twin
from twinloop.twins.meshes import LIGHT_FACES

PICK = "franka_pick_place"


@pytest.mark.parametrize("twin", list_twins(), ids=lambda twin: twin.name)
def test_every_built_in_twin_is_described_in_less_than_100_kb(twin: Twin) -> None:
    geometry = read_geometry(twin)
    text = json.dumps(plain(geometry))
    assert geometry.shapes and geometry.lights and len(text) < 100_000
    assert all(shape.body < len(geometry.bodies) for shape in geometry.shapes)


def test_shapes_follow_the_values_of_a_draw() -> None:
    twin = load_twin(PICK)
    nominal, large = (
        read_geometry(twin),
        read_geometry(twin, {"object_size_m": 0.05, "object_colour": "blue"}),
    )
    body = [pose.name for pose in nominal.bodies].index("object")
    sizes = [next(s for s in one.shapes if s.body == body).size[0] for one in (nominal, large)]
    colours = [next(s for s in one.shapes if s.body == body).rgba for one in (nominal, large)]
    assert sizes[1] == pytest.approx(0.025, rel=0.02) and sizes[0] == pytest.approx(0.02, rel=0.02)
    assert colours[0] != colours[1] and colours[1][2] > colours[1][0]


def test_the_randomized_look_changes_lights_cameras_and_textures() -> None:
    twin = load_twin(PICK)
    drawn = read_geometry(
        twin, {"light_intensity": 2.0, "camera_yaw_rad": 0.2, "texture_index": 7, "light_count": 1}
    )
    nominal = read_geometry(twin)
    assert len(drawn.lights) == 1 and drawn.ambient[0] == pytest.approx(2 * nominal.ambient[0], rel=1e-4)
    assert drawn.cameras[0].quaternion != nominal.cameras[0].quaternion
    pixels = [base64.b64decode(one.textures[0].rgb) for one in (nominal, drawn)]
    assert pixels[0] != pixels[1]
    assert len(pixels[0]) == 3 * nominal.textures[0].width * nominal.textures[0].height


def test_collision_geoms_are_not_drawn() -> None:
    twin = load_twin(PICK)
    model = twin.patch.model
    assert len(read_geometry(twin).shapes) == int(np.sum(np.asarray(model.geom_group) < 3))


def test_bodies_are_where_the_twins_kinematics_put_them() -> None:
    twin = load_twin(PICK)
    geometry, rest = read_geometry(twin), start_at_rest(make_cell(twin), {}, 1)
    places, turns = body_poses(twin, rest.qpos, rest.mocap_pos[None, 0])
    assert np.allclose([body.position for body in geometry.bodies], places[0], atol=1e-5)
    assert np.allclose([body.quaternion for body in geometry.bodies], turns[0], atol=1e-5)


def test_heavy_meshes_are_made_lighter() -> None:
    twin = _with_mesh(40)
    (mesh,) = read_geometry(twin).meshes
    assert 4 <= len(mesh.faces) <= LIGHT_FACES
    assert np.abs(np.asarray(mesh.vertices)).max() == pytest.approx(0.1, rel=0.1)


def test_a_model_with_too_many_faces_is_refused() -> None:
    twin = _with_mesh(12, copies=MOST_FACES // 12**2)
    with pytest.raises(WrongUse, match="too many faces"):
        read_geometry(twin)


def _with_mesh(side: int, copies: int = 1) -> Twin:
    """A twin with spheres of about 2 * side² faces each, no two of them alike."""
    angles = np.linspace(0.0, np.pi, side + 1)
    assets, geoms = [], []
    for copy in range(copies):
        around = 2.0 * angles + 1e-3 * copy
        vertices = [
            f"{0.1 * np.sin(a) * np.cos(b):.6f} {0.1 * np.sin(a) * np.sin(b):.6f} {0.1 * np.cos(a):.6f}"
            for a in angles
            for b in around
        ]
        faces = [
            f"{i * (side + 1) + j} {(i + 1) * (side + 1) + j} {i * (side + 1) + j + 1} "
            f"{(i + 1) * (side + 1) + j} {(i + 1) * (side + 1) + j + 1} {i * (side + 1) + j + 1}"
            for i in range(side)
            for j in range(side)
        ]
        name = f"ball{copy}"
        assets.append(
            f'<mesh name="{name}" inertia="shell" vertex="{" ".join(vertices)}" face="{" ".join(faces)}"/>'
        )
        geoms.append(f'<geom type="mesh" mesh="{name}" contype="0" conaffinity="0"/>')
    mjcf = (
        f"<mujoco><asset>{''.join(assets)}</asset><worldbody><body name='b'><freejoint/>"
        f"{''.join(geoms)}</body></worldbody></mujoco>"
    )
    return replace(load_twin("cart_pole"), mjcf=mjcf, parameters=(), home={}, cameras=(), roles={}, assets={})
