"""A foreign policy on our robot: it acts as the same policy in our own words would."""

import textwrap

import numpy as np
import pytest

from tests.learning.examples import Standin
from tests.policies.foreign import MAP, TWIN, write_policy
from twinloop.datasets.reader import open_dataset
from twinloop.errors import LearnError, MapError, PolicyChanged, PolicyGone, WrongUse
from twinloop.evaluation.robot import RobotEnvironment
from twinloop.evaluation.run import evaluate
from twinloop.policies.act import ChunkExecutor
from twinloop.policies.mapping.interface_map import parse_interface_map
from twinloop.policies.mapping.mapped import MappedPolicy
from twinloop.policies.networks.policy import load_policy
from twinloop.policies.open import connect_policy, open_policy
from twinloop.robots.protocol import connected
from twinloop.testing.policies import ProportionalPolicy, check_policy
from twinloop.twins import load_twin

GOAL = [0.1, -0.4, 0.5, 1.2, 0.3]


@pytest.fixture
def reach(tmp_path):
    """A function that writes the class with a changed body and the map with more lines, and opens it."""

    def make(**changed):
        return open_policy(write_policy(tmp_path, **changed))

    return make


def test_a_mapped_policy_passes_the_conformance_check(reach):
    check_policy(reach())


def test_it_acts_as_the_same_policy_in_our_own_words(reach):
    foreign, observation = reach(), {}
    state = np.array([[0.3, 0.1, -0.2, 0.9, -0.5, 0.4]], np.float32)
    own = ProportionalPolicy(foreign.schema, np.array(GOAL))
    foreign.reset(0)
    observation = {"observation.state": state[0]}
    made = foreign.infer(observation)
    assert made[:, :5] == pytest.approx(own.infer({"observation.state": state[0, :5]})[:, :5], abs=1e-5)
    low, high = (float(x) for x in np.array(load_twin(TWIN).patch.model.actuator_ctrlrange)[5])
    assert made[:, 5] == pytest.approx((low + high) / 2)


def test_relative_to_the_reading_of_their_own_step_means_each_step(reach):
    steady = reach(old=("np.array([[*first, 50.0], [*second, 50.0]])", "np.array([[1.0] * 5 + [50.0]] * 2)"), change=("unit: deg}\n- {g", "unit: deg, relative_to: reading}\n- {g"))  # fmt: skip
    check_policy(steady)
    executor, sent = ChunkExecutor(steady, 1), []
    executor.restart(np.array([0]), np.array([0]))
    for step in range(4):
        sent.append(executor.act(np.full((1, 6), 0.1 * step))[0, 0])
    assert sent == pytest.approx([0.1 * step + np.radians(1) for step in range(4)], abs=1e-6)


def test_a_slower_policy_is_resampled_to_the_robots_rate(reach):
    policy = reach(more="rate_hz: 25\n")
    assert policy.interface.rate_hz == 50 and policy.execution.n_action_steps == 4
    policy.reset(0)
    chunk = policy.infer({"observation.state": np.zeros(6, np.float32)})
    assert len(chunk) == 4 and chunk[1] == pytest.approx((chunk[0] + chunk[2]) / 2)
    check_policy(policy)


def test_its_identity_follows_from_what_it_answers_and_from_the_map(reach):
    policy = reach()
    assert reach().id == policy.id
    policy.require_unchanged()
    assert reach(change=("open: 100", "open: 99")).id != policy.id
    assert reach(old=("0.2 * (GOAL - at", "0.3 * (GOAL - at")).id != policy.id


def test_a_policy_that_has_changed_is_refused(reach):
    policy = reach()
    other = reach(old=("0.2 * (GOAL - at", "0.25 * (GOAL - at"))
    policy.backend = other.backend
    with pytest.raises(PolicyChanged, match="it says something else of itself"):
        policy.require_unchanged()


@pytest.mark.parametrize(
    ("old", "message"),
    [
        (("[*first, 50.0]", "[*first, np.nan]"), "numbers that are not finite"),
        (("[*first, 50.0], [*second, 50.0]", "[*first], [*second]"), "(?s)got 2 of 5 numbers; expected 6"),
        (("np.array([[*first, 50.0], [*second, 50.0]])", "'left'"), "something else than actions"),
        (('{"actions"', '{"a": at, "b"'), "(?s)several outputs.*`output`"),
        (("return {", "return 1/0 and {"), "(?s)ZeroDivisionError.*reach.py, line"),
    ],
)
def test_an_answer_that_is_no_action_is_refused_before_anything_moves(reach, old, message):
    with pytest.raises((PolicyGone, MapError), match=message):
        reach(old=old)


def test_a_map_that_nobody_confirmed_is_not_used(reach):
    with pytest.raises(MapError, match=r"actions.1 \(0.5\)"):
        reach(change=("closed: 0", "closed: 0, confidence: 0.5"))


def test_an_address_needs_a_map_and_a_map_a_robot(reach, tmp_path):
    reach()
    with pytest.raises(WrongUse, match="--map FILE"):
        open_policy(f"python:{tmp_path}/reach.py:Reach", twin=load_twin(TWIN))
    found = open_policy(f"python:{tmp_path}/reach.py:Reach", tmp_path / "reach.yaml")
    assert isinstance(found, MappedPolicy) and found.name == "Reach"
    with pytest.raises(WrongUse, match="twin: NAME"):
        connect_policy(parse_interface_map(MAP.replace(f"twin: {TWIN}", "")))


def test_a_kept_policy_is_opened_from_its_folder_alone(reach, tmp_path):
    policy = reach()
    policy.save(tmp_path / "kept")
    for file in ("reach.py", "reach.yaml"):
        (tmp_path / file).unlink()
    again = open_policy(tmp_path / "kept")
    assert again.id == policy.id and again.name == "Reach" and again.interface == policy.interface
    assert again.twin.content_hash == policy.twin.content_hash
    check_policy(again)


def test_a_kept_policy_that_was_changed_is_refused(reach, tmp_path):
    reach().save(tmp_path / "kept")
    source = (tmp_path / "kept" / "reach.py").read_text()
    (tmp_path / "kept" / "reach.py").write_text(source.replace("0.2", "0.3"))
    with pytest.raises(PolicyChanged, match="is not the policy"):
        open_policy(tmp_path / "kept")
    (tmp_path / "kept" / "reach.py").write_text(source)
    file = tmp_path / "kept" / "interface.yaml"
    file.write_text(file.read_text().replace("open: 100", "open: 90"))
    with pytest.raises(LearnError, match="was changed since it was written"):
        open_policy(tmp_path / "kept")
    with pytest.raises(WrongUse, match="holds the foreign policy Reach"):
        load_policy(tmp_path / "kept")


SOMETIMES = ("return {", "Reach.calls = getattr(Reach, 'calls', 0) + 1\n        if 40 <= Reach.calls < 41: raise OSError('lost')\n        return {")  # fmt: skip


def test_simulated_trials_without_an_answer_are_void_and_no_failures(reach):
    """Three episodes side by side ask 40 times; the next call fails, and only its episode is void."""
    found = evaluate(reach(old=SOMETIMES), load_twin(TWIN), episodes=3)
    assert found.policy == "Reach" and len(found.void) == 1 and len(found.judged) == 2
    assert found.void[0].success is None and "OSError: lost" in found.void[0].void


HALF = """
    class Half:
        stateless, calls = True, 0
        def reset(self): pass
        def infer(self, inputs):
            Half.calls += 1
            if Half.calls == 9: raise OSError("lost")
            return {"actions": np.full((2, 2), 0.5)}
"""
HALF_MAP = """
policy: python:half.py:Half
inputs: {state: {from: observation.state}}
actions: [{elements: [shoulder, elbow]}]
"""


def test_trials_on_a_robot_without_an_answer_are_void_and_kept_as_such(tmp_path):
    """Four calls for the fingerprint, then three or four in each trial: the ninth is in the second one."""
    (tmp_path / "half.py").write_text("import numpy as np\n" + textwrap.dedent(HALF))
    (tmp_path / "half.yaml").write_text(HALF_MAP)
    with connected(Standin()) as robot:
        policy = open_policy(tmp_path / "half.yaml", schema=robot.description.schema())
        place = RobotEnvironment(robot, time_limit_s=1.0)
        found = evaluate(policy, place, episodes=3, out=tmp_path / "runs")
        assert len(robot.prepared) == 3
    assert [trial.void is None for trial in found.trials] == [True, False, True]
    assert [episode.success for episode in open_dataset(tmp_path / "runs")] == [True, None, True]
    assert found.success_rate == 1.0, "a void trial is no failure"


def test_a_policy_that_stays_silent_ends_the_trials(reach):
    executor = ChunkExecutor(reach(old=(SOMETIMES[0], SOMETIMES[1].replace("< 41", "< 999"))), 1)
    with pytest.raises(PolicyGone, match="OSError: lost"):
        for seed in range(50):
            executor.restart(np.array([0]), np.array([seed]))
            assert np.isfinite(executor.act(np.full((1, 6), 0.1))).all()
    assert 36 <= seed < 40, "two void trials are allowed, the third is one too many"
