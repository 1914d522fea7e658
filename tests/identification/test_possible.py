"""Inertia against the shape: a hollow box by its closed form and by points, and a cube that is too inert to exist."""

import mujoco
import numpy as np
import pytest

from twinloop.identification.possible import bounding_edges_m, find_impossible, hollow_gyration_m2
from twinloop.twins import load_twin


def test_a_hollow_cube_is_as_its_closed_form_says():
    np.testing.assert_allclose(hollow_gyration_m2(np.full(3, 0.1)), 5.0 / 18.0 * 0.1**2)


def test_a_hollow_box_is_as_points_on_its_surface():
    edges, rng = np.array([0.3, 0.1, 0.2]), np.random.default_rng(0)
    areas = edges.prod() / edges
    axis = rng.choice(3, 200_000, p=areas / areas.sum())
    points = rng.uniform(-0.5, 0.5, (len(axis), 3)) * edges
    points[np.arange(len(axis)), axis] = rng.choice([-0.5, 0.5], len(axis)) * edges[axis]
    squares = (points**2).mean(axis=0)
    np.testing.assert_allclose(hollow_gyration_m2(edges), squares.sum() - squares, rtol=0.01)


def test_the_box_around_turned_and_shifted_shapes():
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><body><freejoint/><geom type="box" size=".1 .2 .3" euler="0 0 90"/>
        <geom type="sphere" size=".05" pos="1 0 0"/></body></worldbody></mujoco>"""
    )
    np.testing.assert_allclose(bounding_edges_m(model, 1), [1.25, 0.2, 0.6], atol=1e-6)


@pytest.mark.parametrize(("scale", "impossible"), [(1.0, False), (1.3, False), (1.45, True)])
def test_a_cube_with_more_inertia_than_a_hollow_one_is_named(scale, impossible):
    twin = load_twin("cube_toss").with_values({"object_inertia_scale": scale})
    found = find_impossible(twin)
    assert bool(found) is impossible
    assert not found or "hollow box" in found[0]


def test_a_twin_without_an_object_has_nothing_to_judge():
    assert find_impossible(load_twin("servo_pendulum")) == []
