"""A diagnosis on disk, and what it measured of a robot as a randomization of the twin."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from twinloop.diagnosis.measured import Measured, Quantity, measured_randomization
from twinloop.diagnosis.result import Cost, Diagnosis, Rule, load_diagnosis
from twinloop.errors import WrongUse
from twinloop.randomization import draw_many, load_randomization
from twinloop.stats.interval import Interval
from twinloop.twins import load_twin

TWIN = "franka_pick_place"


def make_diagnosis(**changes):
    """A diagnosis of 16 trials of which 4 succeeded, most of the drop lost to backlash."""
    rng = np.random.default_rng(0)
    backlash = np.abs(rng.normal(0.01, 0.004, 400))
    measured = (
        Measured("latency", (Quantity("loop delay", "s", 0.0, 0.1, 0.09, 0.11, True),)),
        Measured("actuation", values={"joint1_backlash_rad": backlash, "joint1_load_nm": 1.0 + backlash}),
        Measured("sensing", values={"object_pose_hidden_m": np.full(400, 0.1)}, missing=("scale",)),
        Measured("environment", values={"wind_x_m_s2": rng.normal(1.0, 0.1, 400)}),
        Measured("human", wrong_verdicts=0.1),
        Measured("visual", photographs=("cover-wrist.png",)),
    )
    made = Diagnosis(
        policy="pick",
        policy_id="abc",
        twin=TWIN,
        twin_hash="def",
        standin=True,
        trials=16,
        successes=4,
        in_twin=Interval(0.9, 0.8, 1.0),
        on_robot=Interval(0.25, 0.1, 0.5),
        predicted=Interval(1 / 3, 0.2, 0.5),
        drop=Interval(0.65, 0.4, 0.8),
        explained=Interval(0.57, 0.3, 0.7),
        unknown=Interval(0.08, -0.1, 0.3),
        costs=(
            Cost("actuation", Interval(0.55, 0.3, 0.7), 0.6),
            Cost("latency", Interval(0.02, -0.1, 0.1), 0.0),
        ),
        measured=measured,
        failures={"on_robot": {"not_grasped": 12}, "in_twin_with_everything": {}},
        slices=(
            {"condition": "object x", "split_at": 0.5, "lower": [1, 8], "upper": [3, 8], "p_value": 0.6},
        ),
        rules=(Rule("fails in all conditions", None, "few runs", "record more"),),
        verdict="actuation 55",
        exact=True,
        scenes=32,
        evaluations=128,
        seed=3,
        notes=("the runs given as real are simulated",),
    )
    return replace(made, **changes)


def test_a_diagnosis_is_read_back_exactly_with_what_it_measured(tmp_path):
    made = make_diagnosis()
    assert made.save(tmp_path / "new") == tmp_path / "new" / Diagnosis.FILE
    for again in (load_diagnosis(tmp_path / "new"), load_diagnosis(tmp_path / "new" / Diagnosis.FILE)):
        assert again.as_json() == made.as_json()
        assert again.costs == made.costs and again.rules == made.rules and again.named == made.named
        for mine, theirs in zip(again.measured, made.measured, strict=True):
            assert mine.quantities == theirs.quantities and mine.differs == theirs.differs
            assert {n: v.tobytes() for n, v in mine.values.items()} == {
                n: v.tobytes() for n, v in theirs.values.items()
            }
        twin = load_twin(TWIN)
        assert again.randomization(twin).plain() == made.randomization(twin).plain()


def test_a_folder_without_a_diagnosis_or_with_one_of_another_format_is_refused(tmp_path):
    with pytest.raises(WrongUse, match="cannot read"):
        load_diagnosis(tmp_path)
    (tmp_path / Diagnosis.FILE).write_text(json.dumps(make_diagnosis().as_json() | {"format": 1}))
    with pytest.raises(WrongUse, match="format 1"):
        load_diagnosis(tmp_path)
    (tmp_path / Diagnosis.FILE).write_text(
        json.dumps({"format": Diagnosis.FORMAT, "costs": [asdict(Cost("x", Interval(0, 0, 0), 0))]})
    )
    with pytest.raises(WrongUse, match="not a valid Diagnosis"):
        load_diagnosis(tmp_path)


def test_draws_are_like_what_was_measured_and_stay_within_bounds():
    twin = load_twin(TWIN)
    found = make_diagnosis()
    backlash = found.measured[1].values["joint1_backlash_rad"]
    made = found.randomization(twin)
    assert sorted(made.names) == ["joint1_backlash_rad", "object_pose_hidden_m"], (
        "loads and wind vary together"
    )
    drawn = draw_many(made, 0, range(2000))
    assert drawn["joint1_backlash_rad"].mean() == pytest.approx(backlash.mean(), rel=0.1)
    assert drawn["joint1_backlash_rad"].std() == pytest.approx(backlash.std(), rel=0.15)
    assert drawn["joint1_backlash_rad"].min() >= 0.0
    assert set(drawn["object_pose_hidden_m"]) == {0.1}
    again = load_randomization(made.plain(), twin)
    assert again.content_hash == made.content_hash


def test_nothing_measured_is_an_empty_randomization_and_other_twins_leave_out_what_they_lack():
    assert measured_randomization((Measured("latency"),), load_twin(TWIN)).names == []
    assert make_diagnosis().randomization(load_twin("servo_pendulum")).names == []
