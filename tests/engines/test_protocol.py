"""The door for engines: the built-in one keeps to it, others enter by name, and nothing steps MuJoCo beside it."""

import ast
from pathlib import Path

import numpy as np
import pytest

from twinloop.engines import DEFAULT_ENGINE, ENGINES, make_engine
from twinloop.engines.mujoco_batch import MujocoBatch
from twinloop.errors import UnknownName
from twinloop.generation.job import Job
from twinloop.generation.record import plain_job
from twinloop.generation.rollout import rollout
from twinloop.tasks import make_cell
from twinloop.testing.engines import check_engine
from twinloop.twins import load_twin

PACKAGE = Path(__file__).parents[2] / "twinloop"
STEPPING = {"mj_step", "mj_step1", "mj_step2", "mj_Euler", "mj_RungeKutta", "mj_implicit"}
STEPPERS = ("mujoco.batch", "mujoco.rollout", *(f"mujoco.{name}" for name in STEPPING))
MAY_STEP = ("engines/", "robots/standin/", "twins/patch.py")
"""Engines; the stand-in, which is deliberately independent of them; and what writes parameters into MuJoCo's batches."""


@pytest.mark.parametrize("name", ["franka_pick_place", "so101_pick_place"])
def test_the_built_in_engine_conforms(name):
    check_engine(DEFAULT_ENGINE, load_twin(name))


def test_its_images_conform():
    check_engine(DEFAULT_ENGINE, load_twin("franka_pick_place"), render=True)


@pytest.fixture
def other(monkeypatch):
    class Drifting(MujocoBatch):
        """An engine whose environments depend on each other."""

        name = "drifting"

        def step(self, ids, controls):
            found = super().step(ids, controls)
            self.qpos[ids, 0] += 1e-9 * len(ids)
            return found

    monkeypatch.setitem(ENGINES._entries, "drifting", Drifting)
    return "drifting"


def test_an_engine_whose_environments_depend_on_each_other_is_caught(other):
    with pytest.raises(AssertionError, match="other environments"):
        check_engine(other, load_twin("franka_pick_place"))


def test_episodes_are_simulated_by_the_engine_that_the_job_names(other):
    twin = load_twin("franka_pick_place")
    ours, theirs = (
        next(iter(rollout(Job(twin, twin.task, "pick_and_place", max_steps=3, engine=name), 1, [0])))
        for name in (DEFAULT_ENGINE, other)
    )
    assert (ours.provenance.engine, theirs.provenance.engine) == (DEFAULT_ENGINE, other)
    assert not np.array_equal(ours["observation.velocity"], theirs["observation.velocity"])
    jobs = [Job(twin, twin.task, "pick_and_place", engine=name) for name in (DEFAULT_ENGINE, other)]
    assert [plain_job(job).get("engine") for job in jobs] == [None, other]


def test_an_unknown_engine_is_refused():
    with pytest.raises(UnknownName, match="mujoco"):
        make_engine("mujocco", make_cell(load_twin("cube_toss")), 1)


def test_nothing_outside_the_engines_steps_mujoco():
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE).as_posix()
        if inside.startswith(MAY_STEP):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Attribute) and node.attr in STEPPING:
                names = [f"mujoco.{node.attr}"]
            wrong += [f"{inside}: {name}" for name in names if name.startswith(STEPPERS)]
    assert wrong == []
