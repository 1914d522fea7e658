"""What people decide about episodes: outcomes, phases, the part to keep, and where raters disagree."""

from dataclasses import replace

import numpy as np
import pytest

from tests.datasets.examples import STATE_ONLY, WITH_CAMERA, toy_episode
from tests.terminal import run_command, twinloop_json
from twinloop.datasets.decimate import decimate
from twinloop.datasets.labelling import (
    PhaseRange,
    compare_raters,
    format_phases,
    label_episodes,
    parse_phases,
    parse_range,
)
from twinloop.datasets.labels import load_labels
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.trim import trim
from twinloop.datasets.verify import verify
from twinloop.datasets.writer import make_dataset
from twinloop.episode import Event, Outcome
from twinloop.errors import WrongUse


@pytest.fixture
def dataset(tmp_path):
    with make_dataset(tmp_path / "arm", STATE_ONLY) as writer:
        for seed in range(4):
            writer.add(toy_episode(seed))
    return tmp_path / "arm"


def test_phases_are_written_and_read_back():
    phases = (PhaseRange("reach", 0.0, 0.2), PhaseRange("grasp", 0.2, 0.45))
    assert parse_phases(format_phases(phases[::-1])) == phases
    assert parse_phases("") == ()


@pytest.mark.parametrize("text", ["reach", "reach=1:0", "reach=a:b", "a b=0:1", "x=0:nan", "a=0:1 b=0.5:2"])
def test_unusable_phases_are_refused(text):
    with pytest.raises(WrongUse):
        parse_phases(text)


@pytest.mark.parametrize("text", ["", "1", "2:1", "-1:2", "nan:1", "0:inf", "0:1:2"])
def test_unusable_ranges_are_refused(text):
    with pytest.raises(WrongUse, match="range of time"):
        parse_range(text)


def test_a_label_that_ends_after_its_episode_is_refused_and_nothing_is_written(dataset):
    with pytest.raises(WrongUse, match="ends after the episode"):
        label_episodes(dataset, {"success": True, "keep": "0.1:9"}, "ann", numbers=[0])
    assert load_labels(dataset) == []


@pytest.mark.parametrize("mode", ["", "two\nlines", "x" * 300])
def test_an_unusable_failure_mode_is_refused(dataset, mode):
    with pytest.raises(WrongUse, match="bad failure"):
        label_episodes(dataset, {"failure": mode}, "ann", numbers=[0])


def test_raters_are_compared_by_what_each_said_last(dataset):
    for by, values in (
        ("ann", {0: True, 1: True, 2: "slipped"}),
        ("ben", {0: True, 1: "slipped", 2: "missed", 3: True}),
    ):
        for number, value in values.items():
            said = {"success": True} if value is True else {"failure": value}
            label_episodes(dataset, said, by, numbers=[number])
    label_episodes(dataset, {"failure": "missed"}, "ann", numbers=[0])
    label_episodes(dataset, {"success": True}, "ann", numbers=[0])
    found = compare_raters(dataset)
    assert found.raters == ("ann", "ben") and (found.compared, found.agreed) == (3, 2)
    assert [(one.episode, one.field) for one in found.disagreements] == [(1, "success"), (2, "failure")]
    assert found.disagreements[0].said == {"ann": True, "ben": "slipped"}
    assert found.kappa == pytest.approx((2 / 3 - 4 / 9) / (1 - 4 / 9))
    assert "2 of 3 episodes" in run_command("data", "label", dataset, "--agreement")[1]


def test_who_judged_a_trial_at_the_robot_is_a_rater(tmp_path):
    """Ten trials, of which ann called five a success, and ben eight of the ten the same: kappa is 0.6."""
    with make_dataset(tmp_path / "arm", STATE_ONLY) as writer:
        for seed in range(10):
            events = (Event(0.0, "judged", "by ann"),)
            outcome = Outcome(True) if seed < 5 else Outcome(False, "missed")
            writer.add(replace(toy_episode(seed), events=events, outcome=outcome))
    for number in range(10):
        succeeded = number in (0, 1, 2, 3, 5)
        said = {"success": True} if succeeded else {"failure": "missed"}
        label_episodes(tmp_path / "arm", said, "ben", numbers=[number])
    found = compare_raters(tmp_path / "arm")
    assert found.raters == ("ann", "ben") and (found.compared, found.agreed) == (10, 8)
    assert found.kappa == pytest.approx(0.6)
    assert [one.episode for one in found.disagreements] == [4, 5]


def test_trimming_cuts_labelled_episodes_and_keeps_the_others(tmp_path):
    with make_dataset(tmp_path / "arm", WITH_CAMERA) as writer:
        for seed in (1, 2):
            writer.add(toy_episode(seed, schema=WITH_CAMERA))
    source = open_dataset(tmp_path / "arm")
    whole, other = source.episode(0), source.episode(1)
    code, _, error = run_command(
        "data",
        "label",
        source.root,
        0,
        "--keep",
        "0.1:0.3",
        "--phases",
        "a=0:0.2",
        "--failure",
        "slipped",
        "--by",
        "ann",
    )
    assert code == 0, error
    answer = twinloop_json("data", "trim", source.root, "--out", tmp_path / "cut", cwd=tmp_path)
    assert answer["episodes"] == 2 and verify(tmp_path / "cut", decode=True).ok
    cut = open_dataset(tmp_path / "cut")
    part = cut.episode(0)
    since = whole.time_s - whole.time_s[0]
    kept = np.flatnonzero((since >= 0.1) & (since <= 0.3))
    assert len(part) == len(kept) and part.time_s[0] == 0.0
    assert np.array_equal(part["observation.state"], whole["observation.state"][kept])
    assert part.provenance.parents == (whole.id,) and part.outcome.failure == "slipped"
    assert part.events == () or part.events[0].time_s >= 0.0
    drift = np.abs(part.frames["front"][0].astype(int) - whole.frames["front"][int(kept[0])].astype(int))
    assert drift.mean() < 8
    assert cut.episode(1).id == other.id
    assert {one.field for one in load_labels(cut.root)} == {"failure"}


def test_trimming_without_labels_or_to_nothing_is_refused(dataset, tmp_path):
    with pytest.raises(WrongUse, match="no episode"):
        trim(dataset, tmp_path / "cut")
    label_episodes(dataset, {"keep": "0.1:0.101"}, "ann", numbers=[0])
    with pytest.raises(WrongUse, match="too little"):
        trim(dataset, tmp_path / "cut")
    assert not (tmp_path / "cut").exists()


@pytest.mark.parametrize("rows", [3, 1000, 1001, 77_777])
def test_fewer_points_keep_every_extreme(rows):
    rng = np.random.default_rng(rows)
    time_s, values = np.arange(rows) * 0.001, rng.normal(size=(rows, 3))
    values[rows // 2, 1] = 50.0
    times, points = decimate(time_s, values, 1000)
    assert len(times) == len(points) <= max(1000, min(rows, 1000))
    assert np.all(np.diff(times) > 0)
    assert np.array_equal(points.max(axis=0), values.max(axis=0))
    assert np.array_equal(points.min(axis=0), values.min(axis=0))
