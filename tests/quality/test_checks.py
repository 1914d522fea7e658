"""Every check finds its fault in a clean arm, and finds nothing in the clean arm itself."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.quality.examples import LAG_S, SEEING_ARM, arm_episode
from tests.quality.faults import FAULTS, delayed, rebuilt, with_channel, with_clock
from twinloop.episode import Event, Provenance, Schema, Signal, make_episode
from twinloop.errors import UnknownName, WrongUse
from twinloop.quality.check import check_episode
from twinloop.quality.finding import Finding
from twinloop.quality.registry import CHECKS
from twinloop.quality.settings import Settings
from twinloop.quality.view import View
from twinloop.testing.quality import assert_quality_check

STATE = "observation.state"


def codes(episode, **settings):
    return {finding.code for finding in check_episode(episode, Settings(**settings))}


@pytest.mark.parametrize("name", CHECKS.names())
def test_every_registered_check_passes_the_conformance_check(name):
    assert_quality_check(name, CHECKS.get(name), [arm_episode(rows=80, schema=SEEING_ARM)])


def test_a_clean_arm_has_no_finding():
    for seed in range(5):
        assert check_episode(arm_episode(seed, schema=SEEING_ARM)) == []


@pytest.mark.parametrize("kind", sorted(FAULTS))
@pytest.mark.parametrize("size", [0, 1, 2], ids=["at the limit", "beyond it", "gross"])
def test_each_fault_is_found_by_its_check_in_its_channel(kind, size):
    fault, tried = FAULTS[kind], 0
    for seed in range(4):
        # Several seconds of motion beyond the limit are needed to call it clipped.
        episode = arm_episode(seed, 3000) if "clipped" in kind else arm_episode(seed)
        if "camera" in kind:
            episode = arm_episode(seed, schema=SEEING_ARM)
        faulty = fault.inject(episode, size, np.random.default_rng([seed, size]))
        if faulty is None:
            continue
        tried += 1
        found = check_episode(faulty.episode, replace(faulty.settings, checks=(fault.code,)))
        assert any(faulty.channel in (None, f.channel) for f in found), f"seed {seed}: {found}"
    assert tried, "the fault could not be put into any episode"


def test_a_finding_says_where_how_much_beyond_what_and_what_to_do():
    episode = rebuilt(arm_episode(), rows=np.r_[0:300, 340:600])
    (gap,) = check_episode(episode, Settings(checks=("gap",)))
    assert gap.severity == "warning" and gap.unit == "s"
    assert gap.value == pytest.approx(0.82, abs=0.01) and gap.threshold == pytest.approx(0.2)
    assert gap.start_s == pytest.approx(5.98, abs=0.01) and gap.end_s == pytest.approx(6.8, abs=0.01)
    assert "split" in gap.remedy


def test_lag_is_measured_to_a_fraction_of_a_sample_between_zero_and_one_second():
    for extra_s in (0.0, 0.0137, 0.3, 0.61, 0.9):
        for seed in range(3):
            episode = arm_episode(seed)
            late = delayed(episode, extra_s)
            for following in View(late, Settings()).following.values():
                delay = following.delay
                assert delay.value == pytest.approx(LAG_S + extra_s, abs=0.003)
                assert abs(delay.value - LAG_S - extra_s) < 6 * delay.standard_deviation + 0.001


def test_a_response_before_its_command_is_called_misaligned():
    early = delayed(arm_episode(), -0.15)
    found = check_episode(early, Settings(checks=("lag",)))
    assert found and all("leads its command" in finding.message for finding in found)


def test_pairs_come_from_declaration_names_places_or_motion():
    episode = arm_episode()
    names = [(p.command.name, p.response.name) for p in View(episode, Settings()).pairs]
    assert names == [(f"action[{j}]", f"observation.state[{j}]") for j in ("shoulder", "elbow", "wrist")]
    declared = Settings(pairs=(("action[0]", "observation.state[wrist]"),))
    assert [p.response.element for p in View(episode, declared).pairs] == [2]
    with pytest.raises(UnknownName, match="did you mean 'action"):
        _ = View(episode, Settings(pairs=(("actoin[0]", "observation.state[0]"),))).pairs
    swapped = Schema(
        (Signal("action", (2,), ("rad",), "float64"), Signal(STATE, (3,), ("rad",), "float64")), 50.0
    )
    signals = {"action": episode["action"][:, [2, 0]], STATE: episode[STATE]}
    moved = View(replace(episode, schema=swapped, signals=signals), Settings())
    assert [(p.command.element, p.response.element) for p in moved.pairs] == [(0, 2), (1, 0)]


def test_a_joint_at_rest_is_not_stuck_and_a_square_command_is_not_saturated():
    episode = arm_episode()
    still = episode["action"].copy()
    still[:, 1] = 0.3
    state = np.array(episode[STATE])
    state[:, 1] = 0.3
    assert codes(rebuilt(episode, signals={"action": still, STATE: state})) == {"constant"}
    square = np.where(np.arange(600) // 60 % 2, 0.4, -0.4)
    assert "saturated" not in codes(with_channel(episode, "action", 0, square))


def test_a_clock_with_an_offset_but_no_drift_is_fine():
    episode = arm_episode()
    rng = np.random.default_rng(0)
    steady = with_clock(episode, episode.time_s + 1e9 + rng.normal(0, 0.005, len(episode)))
    assert codes(steady) == set()


def test_millimetres_called_metres_and_radians_called_degrees_are_suspected():
    tool = Schema((Signal(STATE, (3,), ("m",), "float64"),), 50.0)
    episode = arm_episode()
    metres = replace(episode, schema=tool, signals={STATE: 0.5 + 0.2 * episode[STATE]})
    assert codes(metres) == set()
    assert codes(rebuilt(metres, signals={STATE: 1000 * metres[STATE]})) == {"wrong_unit"}
    degrees = Schema((Signal(STATE, (3,), ("deg",), "float64"),), 50.0)
    assert codes(replace(metres, schema=degrees)) == {"wrong_unit"}


def test_an_event_in_the_middle_does_not_speak_for_the_end():
    regrasped = arm_episode(events=(Event(2.0, "dropped"),), success=True)
    assert codes(regrasped) == set()
    lost = arm_episode(events=(Event(11.9, "dropped"),), success=True)
    assert codes(lost) == {"success_contradiction"}


def test_an_unknown_check_or_purpose_is_refused():
    with pytest.raises(UnknownName, match="did you mean 'jitter'"):
        check_episode(arm_episode(), Settings(checks=("jiter",)))
    with pytest.raises(WrongUse, match="identify, train or any"):
        check_episode(arm_episode(), Settings(purpose="fun"))


def test_a_check_of_ones_own_enters_through_the_registry():
    @CHECKS.register("too_short_for_tests")
    def too_short(view):
        """Fewer rows than this test likes."""
        if len(view.time_s) < 10:
            end_s = float(view.time_s[-1])
            yield Finding(
                "too_short_for_tests", "time_s", "warning", 1, "rows", 10, "short", "longer", 0.0, end_s
            )

    try:
        assert "too_short_for_tests" in codes(arm_episode(rows=5))
        assert "too_short_for_tests" not in codes(arm_episode(rows=50))
    finally:
        del CHECKS._entries["too_short_for_tests"]


def test_the_page_on_quality_describes_every_check():
    page = (Path(__file__).parent.parent.parent / "docs/how-to/quality.md").read_text()
    assert [name for name in CHECKS.names() if f"| `{name}` |" not in page] == []


def test_a_simulated_episode_is_not_blocked_by_what_tells_of_broken_hardware():
    schema = Schema(
        (Signal("observation.state", (1,), ("rad",)), Signal("simulation.object", (1,), ("m",))), 50.0
    )
    time_s = np.arange(400) / 50
    clipped = np.clip(np.sin(3 * time_s), -0.3, 0.3)
    signals = {"observation.state": clipped, "simulation.object": np.zeros(400)}
    severity = {}
    for source in ("real", "sim"):
        episode = make_episode(schema, time_s, signals, provenance=Provenance(source=source))
        found = check_episode(episode)
        assert not any("simulation.object" in finding.channel for finding in found)
        severity[source] = {finding.severity for finding in found if finding.code == "clipped"}
    assert severity == {"real": {"blocking"}, "sim": {"note"}}


def test_an_episode_shorter_than_the_longest_lag_can_be_checked():
    from tests.datasets.examples import toy_episode

    for seed in range(4):
        check_episode(toy_episode(seed, rows=20 + seed))


def test_a_thermometer_of_whole_degrees_is_coarse_and_not_clipped():
    schema = Schema((Signal(STATE, (1,), ("rad",)), Signal("observation.temperature", (1,), ("°C",))), 50.0)
    time_s = np.arange(600) / 50
    warming = np.where(np.random.default_rng(3).random(600) < 0.2, 28.0, 29.0)
    signals = {STATE: np.sin(time_s)[:, None], "observation.temperature": warming[:, None]}
    episode = make_episode(schema, time_s, signals, provenance=Provenance(source="real"))
    assert "clipped" not in codes(episode, purpose="identify")


def test_a_clipped_reading_blocks_identification_but_not_learning():
    episode = arm_episode(rows=3000)
    state = episode[STATE].copy()
    limit = np.quantile(state[:, 0], 0.7)
    state[:, 0] = np.minimum(state[:, 0], limit)
    flat = replace(episode, signals={**episode.signals, STATE: state})
    for purpose, severity in (("identify", "blocking"), ("train", "warning")):
        found = check_episode(flat, Settings(purpose=purpose, checks=("clipped",)))
        assert [finding.severity for finding in found] == [severity]


def turning(rows=400, turns=3.0, unit="rad"):
    """A wheel that turns on, logged within one turn, and the same without wraps."""
    schema = Schema((Signal("observation.state", (1,), (unit,)),), 50.0)
    turn = {"rad": 2 * np.pi, "deg": 360.0}[unit]
    angle = turn * turns * np.linspace(0, 1, rows) ** 1.5
    logged = (angle + turn / 2) % turn - turn / 2
    return [make_episode(schema, np.arange(rows) / 50, {STATE: v[:, None]}) for v in (logged, angle)]


@pytest.mark.parametrize("unit", ["rad", "deg"])
def test_an_angle_that_wraps_is_called_a_wrap_and_not_a_spike(unit):
    wrapped, continuous = turning(unit=unit)
    (found,) = check_episode(wrapped, Settings(checks=("wrap", "spike", "wrong_unit", "not_a_number")))
    assert found.code == "wrap" and found.value == 3
    assert "wraps around 3 times" in found.message and "unwrap: true" in found.remedy
    assert codes(continuous, checks=("wrap",)) == set()


def test_noise_on_the_cut_wraps_at_single_samples():
    wrapped, _ = turning()
    rng = np.random.default_rng(0)
    angle = np.pi + 0.1 * np.sin(np.arange(400) / 40) + rng.normal(0, 0.005, 400)
    noisy = rebuilt(wrapped, signals={STATE: ((angle + np.pi) % (2 * np.pi) - np.pi)[:, None]})
    assert codes(noisy, checks=("wrap", "spike")) == {"wrap"}


def test_a_lag_names_its_command():
    late = delayed(arm_episode(), 0.4)
    found = check_episode(late, Settings(checks=("lag",)))
    assert found
    for finding in found:
        joint = finding.channel.partition("[")[2]
        assert f"lags its command action[{joint} by" in finding.message


def test_a_signal_declared_as_constant_is_no_dead_sensor():
    episode = arm_episode()
    still = rebuilt(episode, signals={STATE: np.ones_like(episode[STATE])})
    assert "constant" in codes(still, checks=("constant",))
    assert codes(still, checks=("constant",), constants=(STATE,)) == set()
