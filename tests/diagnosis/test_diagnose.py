"""The whole path with a policy that has learned next to nothing, and the command around it."""

import json

import pytest

from tests.trials import shorten_trials
from twinloop.datasets.reader import open_dataset
from twinloop.diagnosis.result import load_diagnosis
from twinloop.diagnosis.run import diagnose
from twinloop.errors import WrongUse
from twinloop.evaluation.run import evaluate
from twinloop.evaluation.twin import TwinEnvironment
from twinloop.randomization import load_randomization
from twinloop.twins import load_twin

SMALL = {"scenes": 8, "budget": 48}


def near_scenes(twin):
    """Scenes in the middle of the training range: from the edge a policy that has learned little saws even more."""
    spans = {f"object_offset_{axis}_m": [-0.05, 0.05] for axis in "xy"} | {"object_yaw_rad": [-0.5, 0.5]}
    return load_randomization({"name": "near", "randomization": spans}, twin)


@pytest.fixture(scope="module")
def runs(tiny_policy, tmp_path_factory):
    """Runs in a twin that answers 80 ms late, as if they were a robot's."""
    late = load_twin("franka_pick_place").with_values(action_delay_s=0.08)
    out = tmp_path_factory.mktemp("real") / "runs"
    evaluate(tiny_policy, TwinEnvironment(late, near_scenes(late)), episodes=4, seed=5, out=out)
    return open_dataset(out)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("diagnosis")


@pytest.fixture(scope="module")
def diagnosed(runs, tiny_policy, folder):
    with shorten_trials():
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


def test_runs_of_others_and_of_several_robots_are_not_taken_for_the_policys(
    runs, tiny_policy, panda_data, short_trials
):
    with pytest.raises(WrongUse, match="acted in none of these runs") as refused:
        diagnose(tiny_policy, panda_data, "franka_pick_place")
    assert tiny_policy.id in str(refused.value) and "pick_and_place" in str(refused.value)
    mixed = [one.with_provenance(robot_serial=f"arm-{k % 2}") for k, one in enumerate(runs)]
    with pytest.raises(WrongUse, match="of several robots"):
        diagnose(tiny_policy, mixed, "franka_pick_place")
    found = diagnose(tiny_policy, [*runs, *panda_data], "franka_pick_place", **SMALL)
    assert found.trials == len(list(runs))
    assert "simulated" in found.notes[0] and "8 of 12 episodes are not this policy's" in found.notes[1]


def test_unjudged_runs_and_budgets_too_small_are_refused(runs, tiny_policy):
    with pytest.raises(WrongUse, match="no real runs"):
        diagnose(tiny_policy, [], "franka_pick_place")
    with pytest.raises(WrongUse, match="budget is too small"):
        diagnose(tiny_policy, runs, "franka_pick_place", scenes=8, budget=8)


def test_the_command_goes_on_with_what_was_kept_prints_writes_and_refuses(
    twinloop, runs, tiny_policy, folder, diagnosed, short_trials
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
    assert load_diagnosis(folder).as_json() == found
    page = (folder / "diagnosis.html").read_text()
    assert "loop delay" in page and "points lost" in page and "http:" not in page and "https:" not in page
    code, out, _ = twinloop("diagnose", "--policy", folder, *words, "--json")
    assert code == 2 and "policy" in json.loads(out)["error"]
