"""`identify` end to end: injected parameters come back, with honest intervals, and nonsense is refused."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from twinloop.errors import UnknownName, WrongUse
from twinloop.identification.config import IdentifyConfig
from twinloop.identification.fit import RefusedData
from twinloop.identification.result import load_identification
from twinloop.identification.run import identify
from twinloop.identification.windows import whole
from twinloop.twins import load_twin

from .worlds import record

TRUTH = {
    "motor_friction_nm": 0.02,
    "motor_damping_nms_rad": 0.02,
    "motor_armature_kgm2": 0.003,
    "action_delay_s": 0.0432,
}


@pytest.fixture(scope="module")
def recordings():
    twin = load_twin("servo_pendulum")
    return [record(twin, TRUTH, seed, seconds=2.0, quantum=0.001534) for seed in range(9)]


PROGRESS = []


@pytest.fixture(scope="module")
def found(recordings):
    return identify(
        load_twin("servo_pendulum"),
        recordings,
        list(TRUTH),
        config=IdentifyConfig(threads=1, held_out=[e.id for e in recordings[5:]]),
        on_progress=lambda done, total: PROGRESS.append((done, total)),
    )


def test_progress_counts_simulated_seconds_towards_an_expected_total(found):
    done, total = np.array(PROGRESS).T
    assert np.all(np.diff(done) >= 0) and np.all(done <= total) and done[-1] > 0
    simulated_s = found.details["physics_steps"] * load_twin("servo_pendulum").physics_dt_s
    assert done[-1] == round(simulated_s)
    assert 0.2 * total[0] < done[-1] < 5.0 * total[0], "the expectation is of the right size"


def test_injected_parameters_come_back(found):
    for name, value in TRUTH.items():
        estimate = found[name]
        assert estimate.value == pytest.approx(value, rel=0.05), name
        assert estimate.status == "identifiable", name
        assert estimate.low - 0.03 * value <= value <= estimate.high + 0.03 * value, name


def test_the_calibrated_twin_is_a_new_version_that_replays_better(found):
    base = load_twin("servo_pendulum")
    assert found.twin.parent == base.content_hash == found.base
    assert found.twin.version != base.version
    assert found.gate.accepted and found.gate.ratio < 0.1, found.gate.reason
    ((before, after),) = found.errors_by_channel().values()
    assert after < 2e-3 < 0.02 < before
    assert not set(found.fitted) & set(found.held_out)


def test_bands_hold_on_what_was_held_out(found):
    assert 0.8 <= found.coverage[0] <= 0.98


def test_an_identification_survives_the_disk(found, tmp_path):
    again = load_identification(found.save(tmp_path / "calibrated"))
    assert again.as_json() == found.as_json()
    assert again.twin.content_hash == found.twin.content_hash
    np.testing.assert_array_equal(again.samples, found.samples)


def test_two_delays_are_not_separately_identifiable_and_the_result_says_so(recordings):
    result = identify(
        load_twin("servo_pendulum"),
        recordings[:4],
        ["motor_damping_nms_rad", "action_delay_s", "observation_delay_s"],
        config=IdentifyConfig(
            priors={"action_delay_s": (0.0, 0.2), "observation_delay_s": (0.0, 0.2)}, threads=1
        ),
    )
    assert result["action_delay_s"].status != "identifiable"
    (confusion,) = result.confusions
    assert set(confusion.names) == {"action_delay_s", "observation_delay_s"}
    assert "stamp the arrival of commands" in confusion.remedy


def test_an_unseen_parameter_keeps_its_nominal_value(recordings):
    twin = load_twin("servo_pendulum")
    rng = np.random.default_rng(0)
    still = [replace(e, signals={**e.signals, "action": 0 * e.signals["action"]}) for e in recordings[:2]]
    frozen = [
        replace(e, signals={**e.signals, "observation.state": 1e-4 * rng.standard_normal((len(e), 1))})
        for e in still
    ]
    with pytest.raises(RefusedData, match="nothing moves"):
        identify(twin, frozen, ["motor_damping_nms_rad"], config=IdentifyConfig(threads=1))
    forced = identify(
        twin, frozen, ["motor_damping_nms_rad"], config=IdentifyConfig(threads=1, force="to see what happens")
    )
    assert forced.forced == "to see what happens"
    assert forced["motor_damping_nms_rad"].status != "identifiable"
    assert not forced.gate.accepted


def test_of_long_recordings_whole_ones_are_replayed_evenly():
    recordings = [SimpleNamespace(time_s=np.arange(1001) * 0.1) for _ in range(12)]
    assert [w.recording for w in whole(recordings, range(12), None, 1e4)] == list(range(12))
    some = whole(recordings, range(12), None, 300.0)
    assert [w.recording for w in some] == [0, 6, 11] and all(len(w) == 1001 for w in some)
    assert len({w.recording for w in whole(recordings, range(12), 10.0, 1.0)}) == 2


def test_slow_logging_is_refused():
    twin = load_twin("servo_pendulum")
    slow = [record(twin, TRUTH, seed, seconds=4.0, rate_hz=15.0) for seed in range(3)]
    with pytest.raises(RefusedData, match=r"logged at 15 Hz"):
        identify(twin, slow, ["motor_friction_nm"], config=IdentifyConfig(threads=1))


def test_nonsense_is_refused(recordings):
    twin = load_twin("servo_pendulum")
    with pytest.raises(UnknownName, match="motor_friction_nm"):
        identify(twin, recordings, ["motor_fricton_nm"])
    with pytest.raises(WrongUse, match="no parameter"):
        identify(twin, recordings, [])
    with pytest.raises(WrongUse, match="at least 2 episodes"):
        identify(twin, recordings[:1], ["motor_friction_nm"])
    with pytest.raises(WrongUse, match="leaves the twin's bounds"):
        identify(
            twin,
            recordings,
            ["motor_friction_nm"],
            config=IdentifyConfig(priors={"motor_friction_nm": (0.0, 99.0)}),
        )
    broken = replace(
        recordings[0], signals={**recordings[0].signals, "action": recordings[0].signals["action"] * np.nan}
    )
    with pytest.raises(RefusedData, match="not finite"):
        identify(twin, [broken, *recordings[1:]], ["motor_friction_nm"])


def test_simulated_episodes_are_fitted_only_on_purpose():
    twin = load_twin("servo_pendulum")
    episodes = [record(twin, {}, seed, seconds=1.0).with_provenance(source="sim") for seed in range(3)]
    with pytest.raises(WrongUse, match=r"3 of 3 episodes are simulated[\s\S]*--simulated"):
        identify(twin, episodes, ["motor_friction_nm"])
    config = IdentifyConfig(threads=1, allow_simulated=True)
    assert identify(twin, episodes, ["motor_friction_nm"], config=config).names == ("motor_friction_nm",)


def test_an_unstable_twin_is_named_before_anything_is_fitted():
    twin = load_twin("so101")
    episodes = [record(twin, {}, seed, seconds=1.0) for seed in range(2)]
    shaky = twin.with_values(
        elbow_flex_stiffness_nm_rad=89.0,
        elbow_flex_damping_nms_rad=0.0,
        elbow_flex_armature_kgm2=0.0,
        elbow_flex_friction_nm=0.0,
    )
    with pytest.raises(
        RefusedData, match=r"unstable: joint elbow_flex .*a gain of 89[\s\S]*shorten the physics step"
    ):
        identify(shaky, episodes, ["shoulder_pan_friction_nm"], config=IdentifyConfig(threads=1))
