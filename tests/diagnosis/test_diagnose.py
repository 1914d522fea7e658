"""The whole path with a policy that has learned next to nothing, and the command around it."""

import json

import numpy as np
import pytest

from tests.cli.test_generate_commands import twinloop  # noqa: F401
from tests.learning.conftest import panda_data, tiny_policy  # noqa: F401
from twinloop.datasets.reader import open_dataset
from twinloop.diagnosis import imperfection as kind
from twinloop.diagnosis.imperfection import extended
from twinloop.diagnosis.inject import DisturbedPolicy
from twinloop.diagnosis.result import Share
from twinloop.diagnosis.run import diagnose
from twinloop.errors import WrongUse
from twinloop.evaluation.run import evaluate_in_twin
from twinloop.experts import Reading, Setup
from twinloop.tasks import make_cell
from twinloop.twins import load_twin

SMALL = {"scenes": 8, "budget": 48}


@pytest.fixture(scope="module")
def runs(tiny_policy, tmp_path_factory):  # noqa: F811
    """Runs in a twin that answers 80 ms late, as if they were a robot's."""
    late = load_twin("franka_pick_place").with_values(action_delay_s=0.08)
    out = tmp_path_factory.mktemp("real") / "runs"
    evaluate_in_twin(tiny_policy, late, episodes=4, seed=5, out=out)
    return open_dataset(out)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("diagnosis")


@pytest.fixture(scope="module")
def diagnosed(runs, tiny_policy, folder):  # noqa: F811
    return diagnose(tiny_policy, runs, "franka_pick_place", keep=folder / "evaluations", **SMALL)


def test_it_sees_that_the_robot_is_late_and_says_unknown_where_runs_are_few(diagnosed):
    found = diagnosed
    latency = next(m for m in found.measured if m.dimension == "latency")
    delay = next(q for q in latency.quantities if q.name == "loop delay")
    # A policy that has learned nothing saws back and forth, which blurs the delay; smooth motion is in test_measure.
    assert delay.differs and 0.04 < delay.real < 0.16 and "action_delay_s" in latency.values
    assert found.named == () and found.verdict.startswith("unknown: 4 judged runs are too few")
    assert found.trials == 4 and found.successes == 0 and found.evaluations > 0
    assert {rule.name.split(":")[0] for rule in found.rules} >= {
        "fails in all conditions",
        "got worse with time",
    }


def test_runs_of_others_and_of_several_robots_are_not_taken_for_the_policys(runs, tiny_policy, panda_data):  # noqa: F811
    with pytest.raises(WrongUse, match="acted in none of these runs") as refused:
        diagnose(tiny_policy, panda_data, "franka_pick_place")
    assert tiny_policy.id in str(refused.value) and "pick_and_place" in str(refused.value)
    mixed = [one.with_provenance(robot_serial=f"arm-{k % 2}") for k, one in enumerate(runs)]
    with pytest.raises(WrongUse, match="of several robots"):
        diagnose(tiny_policy, mixed, "franka_pick_place")
    found = diagnose(tiny_policy, [*runs, *panda_data], "franka_pick_place", **SMALL)
    assert found.trials == len(list(runs))
    assert "simulated" in found.notes[0] and "8 of 12 episodes are not this policy's" in found.notes[1]


def test_lopsided_intervals_are_not_said_with_plus_minus():
    assert Share(0.21, 0.15, 0.27).points == "21 ± 6"
    assert Share(0.37, 0.0, 0.43).points == "37 [0, 43]"
    assert Share(0.0, -0.003, 0.2).points == "0 [0, 20]", "nothing is never less than nothing"


def test_runs_that_nobody_judged_and_budgets_too_small_are_refused(runs, tiny_policy):  # noqa: F811
    with pytest.raises(WrongUse, match="no real runs"):
        diagnose(tiny_policy, [], "franka_pick_place")
    with pytest.raises(WrongUse, match="budget is too small"):
        diagnose(tiny_policy, runs, "franka_pick_place", scenes=8, budget=8)


def test_the_command_goes_on_with_what_was_kept_prints_writes_and_refuses(
    twinloop,  # noqa: F811
    runs,
    tiny_policy,  # noqa: F811
    folder,
    diagnosed,
):
    tiny_policy.save(folder / "policy")
    words = ("--real", runs.root, "--twin", "franka_pick_place", "--out", folder)
    size = ("--scenes", SMALL["scenes"], "--budget", SMALL["budget"])
    code, out, _ = twinloop("diagnose", "--policy", folder / "policy", *words, *size)
    assert code == 0 and "not measured: visual" in out and "is the failing case in the training data" in out
    found = json.loads((folder / "diagnosis.json").read_text())
    assert found["evaluations"] == 0, "kept evaluations are not made again"
    expected = json.loads(json.dumps(diagnosed.as_json()))
    assert found | {"evaluations": 0} == expected | {"evaluations": 0} and found["verdict"] in out
    page = (folder / "diagnosis.html").read_text()
    assert "loop delay" in page and "<svg" in page and "http" not in page
    code, out, _ = twinloop("diagnose", "--policy", folder, *words, "--json")
    assert code == 2 and "policy" in json.loads(out)["error"]


def test_what_the_policy_is_shown_is_late_shifted_scaled_and_hidden_as_drawn(tiny_policy):  # noqa: F811
    cell = make_cell(extended(load_twin("franka_pick_place")))
    rows = {
        kind.PERCEIVED_DELAY: np.array([0.0, 0.04]),
        kind.PERCEIVED_Z: np.array([0.01, 0.0]),
        kind.PERCEIVED_SCALE: np.array([0.0, 0.1]),
    }
    shown = DisturbedPolicy(tiny_policy, Setup(cell, 2, 50), rows)
    still = np.zeros((2, len(cell.actuators)))
    shown.restart(np.arange(2), reading(still, 0.0), np.array([7, 7]))
    seen = []
    for step in range(6):
        now = reading(still, 0.1 * step)
        pose = np.concatenate([now.object_position, now.object_columns], axis=1)
        seen.append(shown._wrong(shown._delay(pose))[:, :3])
        shown._age += 1
    seen = np.array(seen)
    assert seen[:, 0, 0] == pytest.approx(0.1 * np.arange(6)) and seen[:, 0, 2] == pytest.approx(0.01)
    assert seen[:, 1, 0] == pytest.approx(1.1 * 0.1 * np.maximum(np.arange(6) - 2, 0))


def reading(joints, x):
    place = np.array([[x, 0.0, 0.0]] * 2)
    columns = np.tile([1.0, 0.0, 0.0, 0.0, 1.0, 0.0], (2, 1))
    return Reading(np.zeros(2), joints, joints, joints, place, columns, np.zeros((2, 3)))
