"""Does a policy exploit one simulator? Caught where it was made to, and not where it is healthy."""

from dataclasses import replace

import pytest

from tests.evaluation.scripted import ScriptedPolicy, SoftGripPolicy
from twinloop.errors import InvalidRandomization, UnknownName, WrongUse
from twinloop.evaluation.quirks import Numerics, Quirks, _decide, _lost, measure_quirks
from twinloop.evaluation.result import Evaluation, Trial
from twinloop.evaluation.twin import TwinEnvironment
from twinloop.records import load_record
from twinloop.stats.interval import paired_difference
from twinloop.twins import load_twin


def cell(engine, outcomes, expert=None, reference=None):
    evaluation = Evaluation("p", "p", "twin", 0, tuple(Trial(k, bool(s)) for k, s in enumerate(outcomes)))
    lost = None if reference is None else _lost(reference.evaluation, evaluation, 0.975)
    return Numerics(engine, 0.002, evaluation, lost, expert)


def decide(first, *others):
    reference = cell("mujoco", first, 1.0)
    return _decide([reference, *(cell(name, seen, expert, reference) for name, seen, expert in others)], 0.15)


def test_a_loss_that_the_expert_does_not_share_is_an_exploit():
    word, because = decide([1] * 40, ("bullet", [0] * 25 + [1] * 15, 1.0), ("physx", [1] * 40, None))
    assert word == "exploits" and "bullet at 2 ms" in because and "62 points" in because


def test_a_loss_that_the_expert_shares_is_none():
    word, because = decide([1] * 40, ("bullet", [0] * 25 + [1] * 15, 0.3), ("physx", [1] * 40, None))
    assert word == "robust" and "bullet at 2 ms not compared" in because


def test_few_trials_and_losses_near_the_margin_are_undecided():
    assert decide([1] * 6, ("bullet", [1] * 6, None))[0] == "undecided"
    assert decide([1] * 40, ("bullet", [0] * 8 + [1] * 32, 1.0))[0] == "undecided"
    assert decide([1] * 40, ("bullet", [0] + [1] * 39, None))[0] == "robust"


def test_a_policy_that_hardly_ever_succeeds_is_not_called_robust():
    word, because = decide([1] * 4 + [0] * 36, ("bullet", [1] * 4 + [0] * 36, None))
    assert word == "undecided" and "too rarely" in because


def test_the_paired_interval_is_that_of_agresti_and_min():
    found = paired_difference(9, 3, 50)
    assert found.value == pytest.approx(0.12)
    assert (found.low, found.high) == pytest.approx((-0.0160, 0.2468), abs=2e-3)
    assert paired_difference(0, 0, 40).high == pytest.approx(0.0467, abs=1e-3), (
        "no disagreement has an interval too"
    )


def test_every_engine_is_tried_in_the_same_scenes_and_the_result_is_kept(tmp_path):
    twin = load_twin("franka_reach")
    pytest.importorskip("pybullet")
    place = TwinEnvironment(twin)
    found = measure_quirks(ScriptedPolicy(twin), place, ("mujoco", "bullet"), episodes=3)
    assert [str(one) for one in found.cells] == ["mujoco at 2 ms", "bullet at 2 ms"]
    first, other = ([trial.draw for trial in one.evaluation.trials] for one in found.cells)
    assert first == other
    assert load_record(Quirks, found.save(tmp_path)) == found
    with pytest.raises(WrongUse, match="only one engine"):
        measure_quirks(ScriptedPolicy(twin), place, ("mujoco",), episodes=3)
    with pytest.raises(InvalidRandomization, match="whole number"):
        measure_quirks(ScriptedPolicy(twin), place, ("mujoco",), (0.003, 0.002), episodes=3)
    with pytest.raises(UnknownName, match="mujoco"):
        measure_quirks(ScriptedPolicy(twin), place, ("mujoco", "havok"), episodes=3)
    with pytest.raises(WrongUse, match="margin"):
        measure_quirks(ScriptedPolicy(twin), replace(place), ("mujoco", "bullet"), margin=0.0)


@pytest.mark.slow
def test_a_policy_that_lives_on_soft_contacts_is_caught_and_a_healthy_one_is_not():
    pytest.importorskip("pybullet")
    pytest.importorskip("sapien")
    twin = load_twin("so101_pick_place")
    exploiting, healthy = (
        measure_quirks(policy(twin), TwinEnvironment(twin), episodes=20, seed=1)
        for policy in (SoftGripPolicy, ScriptedPolicy)
    )
    assert exploiting.verdict == "exploits" and healthy.verdict == "robust"
    assert exploiting.cells[0].evaluation.success_rate > 0.9
