"""Blocking findings stop later stages until somebody answers for them, by name and with a reason."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.quality.examples import ARM, arm_episode
from tests.quality.faults import rebuilt
from tests.terminal import twinloop
from twinloop.datasets.merge import merge
from twinloop.datasets.overrides import load_overrides
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.writer import append_to, make_dataset
from twinloop.errors import QualityError, WrongUse
from twinloop.quality import require
from twinloop.quality.check import check_dataset
from twinloop.quality.require import override, require_usable


def dead_elbow(seed):
    episode = arm_episode(seed, rows=300)
    state = np.array(episode["observation.state"])
    state[:, 1] = 0.2
    return rebuilt(episode, signals={"observation.state": state}, id=f"{seed:032x}")


@pytest.fixture
def mixed(tmp_path):
    """Four clean episodes and two with a dead elbow, numbers 4 and 5."""
    with make_dataset(tmp_path / "mixed", ARM) as writer:
        for seed in range(4):
            writer.add(arm_episode(seed, rows=300))
        for seed in (4, 5):
            writer.add(dead_elbow(seed))
    return tmp_path / "mixed"


def test_blocked_data_is_refused_and_the_error_says_how_to_go_on(mixed):
    with pytest.raises(
        QualityError, match=r"2 of 6 episodes are blocked by stuck.*elbow(?s:.*)--override stuck"
    ):
        require_usable(open_dataset(mixed), "train")


def test_an_override_lets_the_named_episodes_pass_and_no_later_ones(mixed):
    dataset = open_dataset(mixed)
    override(check_dataset(dataset), dataset, "stuck", "ann", "the elbow was taped on purpose")
    assert require_usable(dataset, "train").count("blocking") == 2
    (line,) = load_overrides(mixed)
    assert (line.by, line.reason, len(line.episode_ids)) == ("ann", "the elbow was taped on purpose", 2)
    with append_to(mixed) as writer:
        writer.add(dead_elbow(6))
    with pytest.raises(QualityError, match="1 of 7 episodes"):
        require_usable(open_dataset(mixed), "train")


def test_overrides_go_with_their_episodes(mixed, tmp_path):
    dataset = open_dataset(mixed)
    override(check_dataset(dataset), dataset, "stuck", "ann", "taped")
    merged = merge([mixed], tmp_path / "merged").dataset
    assert require_usable(merged, "train").episodes == 6


def test_an_override_needs_a_name_a_reason_and_something_to_override(mixed):
    dataset = open_dataset(mixed)
    report = check_dataset(dataset)
    with pytest.raises(WrongUse, match="a name and a reason"):
        override(report, dataset, "stuck", "ann", " ")
    with pytest.raises(WrongUse, match=r"blocks nothing.*available: stuck"):
        override(report, dataset, "gap", "ann", "why not")


def test_a_low_rate_blocks_identification_and_not_training(tmp_path):
    slow = rebuilt(arm_episode(), rows=np.arange(0, 600, 3))
    schema = ARM.__class__(ARM.signals, 50 / 3, (), "toy_arm")
    with make_dataset(tmp_path / "slow", schema) as writer:
        writer.add(rebuilt(slow, schema=schema))
    require_usable(open_dataset(tmp_path / "slow"), "train")
    with pytest.raises(QualityError, match="low_rate"):
        require_usable(open_dataset(tmp_path / "slow"), "identify")


def test_an_unchanged_dataset_is_not_checked_twice_and_a_changed_one_is(mixed, monkeypatch):
    checked = []
    real = require.check_dataset
    monkeypatch.setattr(require, "check_dataset", lambda *a, **k: checked.append(1) or real(*a, **k))
    for _ in range(2):
        with pytest.raises(QualityError):
            require_usable(open_dataset(mixed), "train")
    assert len(checked) == 1
    with pytest.raises(QualityError):
        require_usable(open_dataset(mixed), "identify")
    with append_to(mixed) as writer:
        writer.add(arm_episode(9, rows=300))
    with pytest.raises(QualityError):
        require_usable(open_dataset(mixed), "identify")
    assert len(checked) == 3


def test_foreign_data_with_holes_is_checked_and_never_written_to(mixed, tmp_path):
    import shutil

    foreign = tmp_path / "foreign"
    shutil.copytree(mixed, foreign)
    shutil.rmtree(foreign / "meta/twinloop")
    path = next(foreign.glob("data/*/*.parquet"))
    table = pq.read_table(path)
    place = table.column_names.index("observation.state")
    values = np.array(table.column("observation.state").to_pylist())
    values[10, 2] = np.nan
    column = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 3)
    pq.write_table(table.set_column(place, "observation.state", column), path)
    files = sorted(foreign.rglob("*"))
    dataset = open_dataset(foreign)
    report = check_dataset(dataset)
    assert ("not_a_number", 0) in {(f.code, f.episode) for f in report.blocking}
    with pytest.raises(QualityError):
        require_usable(dataset, "train")
    with pytest.raises(WrongUse, match="never changed"):
        override(report, dataset, "not_a_number", "ann", "tiny")
    assert sorted(foreign.rglob("*")) == files


def test_check_from_the_command_line_exits_with_one_until_it_is_overridden(mixed):
    folder = mixed.parent
    said = twinloop("check", "mixed", "--html", "page.html", cwd=folder, code=1)
    assert "stuck" in said and "observation.state[elbow]" in said and "blocked" in said
    page = (folder / "page.html").read_text()
    assert "Blocked." in page and "<svg" in page and "http:" not in page and "https:" not in page
    twinloop("check", "mixed", "--episodes", "0-3", cwd=folder)
    twinloop("check", "mixed", "--override", "stuck", "--by", "ann", cwd=folder, code=2)
    twinloop("check", "mixed", "--override", "stuck", "--by", "ann", "--reason", "taped", cwd=folder)
    report = json.loads(twinloop("check", "mixed", "--json", cwd=folder))
    assert not report["blocked"] and report["counts"]["blocking"] == 2
    assert {f["overridden"] for f in report["findings"] if f["severity"] == "blocking"} == {True}
    notes = {f["code"] for f in report["findings"] if f["severity"] == "note"}
    shown, hidden = twinloop("check", "mixed", "--notes", cwd=folder), twinloop("check", "mixed", cwd=folder)
    assert notes and all(code in shown for code in notes) and "--notes lists them" in hidden


def test_wrong_words_are_explained(mixed):
    assert "0-9,17" in twinloop("check", "mixed", "--episodes", "x", cwd=mixed.parent, code=2)
    assert "identify, train, any" in twinloop("check", "mixed", "--purpose", "y", cwd=mixed.parent, code=2)
    assert "joint_dynamics" in twinloop("check", "mixed", "--ask", "z", cwd=mixed.parent, code=2)
