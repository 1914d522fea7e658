"""Every engine gets physics right, measured in the same small models."""

import pytest

from tests.terminal import twinloop, twinloop_json
from twinloop.engines import ENGINES
from twinloop.engines.mujoco_batch import MujocoBatch
from twinloop.testing.conformance import MEASURES

PACKAGES = {"mujoco": "mujoco", "bullet": "pybullet", "physx": "sapien"}


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("engine", PACKAGES)
def test_an_engine_keeps_to_every_requirement(engine, measure):
    pytest.importorskip(PACKAGES[engine])
    broken = [str(one) for one in MEASURES[measure](engine) if not one.ok]
    assert not broken


def test_an_engine_with_other_friction_and_weight_is_caught(monkeypatch):
    class Slippery(MujocoBatch):
        """An engine whose contacts have half the friction, and whose gravity is off by 2 %."""

        def __init__(self, cell, count, threads, varying, options=None):
            super().__init__(cell, count, threads, varying, options)
            self._batch.expand("geom_friction")[...] *= 0.5
            self._batch.expand("opt.gravity")[...] *= 1.02

    monkeypatch.setitem(ENGINES._entries, "slippery", Slippery)
    broken = {
        one.name for name in ("free_fall", "sliding") for one in MEASURES[name]("slippery") if not one.ok
    }
    assert {"free fall, speed", "free fall, way", "sliding block, friction 0.2"} <= broken


def test_the_command_says_which_engines_there_are_and_what_they_keep(tmp_path):
    pytest.importorskip("sapien")
    listed = {one["name"]: one for one in twinloop_json("engine", "ls", cwd=tmp_path)}
    assert listed["physx"]["bits"] == 32 and listed["mujoco"]["version"]
    assert "grasp that must slip" in twinloop("engine", "check", "mujoco", cwd=tmp_path)
    assert "no engine is called 'odd'" in twinloop("engine", "check", "odd", cwd=tmp_path, code=2)
