"""The plan of a workspace as a board: items from selections, states with who and when, and what is recorded of each."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.coverage import worlds
from tests.datasets.examples import STATE_ONLY, toy_episode
from tests.planning.test_select import AXES, FAR
from twinloop.coverage.map_file import save_coverage
from twinloop.coverage.run import measure_coverage
from twinloop.datasets.commit import hold_lock
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.writer import append_to, make_dataset
from twinloop.episode import Provenance
from twinloop.errors import UnknownName, WorkspaceError, WrongUse
from twinloop.planning.board import (
    LOCK,
    add_item,
    change_board,
    find_board,
    load_board,
    move_item,
    read_board,
)
from twinloop.planning.costs import Costs
from twinloop.planning.items import Plan
from twinloop.planning.needs import DimensionCost, Needs
from twinloop.planning.run import make_plan
from twinloop.planning.select import select_region
from twinloop.records import save_record
from twinloop.report.plan_sheet import render_plan_sheet
from twinloop.workspace import init_workspace


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A workspace with a coverage whose real episodes fail where objects are far."""
    root = tmp_path_factory.mktemp("board") / "bench"
    init_workspace(root)
    real, sim = worlds.scenes(40, 1), worlds.scenes(80, 2)
    worlds.write(root / "data/real", real, 0, source="real", fails=lambda s: s[0] > 0.54)
    worlds.write(root / "data/sim", sim[sim[:, 0] < 0.54], 1000, source="sim")
    opened = open_dataset(root / "data/real"), open_dataset(root / "data/sim")
    save_coverage(measure_coverage(*opened, points=600), root / "reports/coverage", opened)
    return root


@pytest.fixture
def plan():
    """A plan that was made before."""
    return make_plan(Needs(costs=(DimensionCost("latency", 23.0, 17.0, 29.0),)), Costs())


def test_a_selection_becomes_an_item_with_hours_gain_and_settings(world, plan):
    chosen = select_region(world / "reports/coverage", FAR, **AXES)
    changed, item = add_item(plan, chosen, by="ada")
    assert item in changed.items and len(changed.items) == 2 and item.id == "region-1"
    assert item.gain.low > 0.0 and item.hours > 0.0 and item.added_by == "ada"
    assert changed.success == pytest.approx(1 - len(chosen.episodes) / 40)
    low, high = chosen.conditions[0].seen
    assert all(low <= one["object.x at the start, m"] <= high for one in item.settings)
    rates = [one.gain_per_hour for one in changed.items]
    assert rates == sorted(rates, reverse=True)
    _, second = add_item(changed, chosen, by="ada")
    assert second.id == "region-2"


def test_who_moved_an_item_and_when_is_kept(plan):
    name = plan.items[0].id
    moved = move_item(plan, name, "recording", by="ada", note="robot 2 is free")
    done = move_item(moved, name, "done", by="bob")
    assert (plan.state(name), moved.state(name), done.state(name)) == ("planned", "recording", "done")
    assert [(one.by, one.state, one.note) for one in done.moves] == [
        ("ada", "recording", "robot 2 is free"),
        ("bob", "done", ""),
    ]
    assert move_item(done, name, "done", by="eve") is done
    with pytest.raises(UnknownName, match="no item of the plan"):
        move_item(plan, "nothing", "done", by="ada")
    with pytest.raises(UnknownName, match="no state"):
        move_item(plan, name, "finished", by="ada")
    with pytest.raises(WrongUse, match="needs a name"):
        move_item(plan, name, "done", by=" ")


def test_the_board_is_the_newest_plan_until_somebody_changes_it(tmp_path, plan):
    assert load_board(tmp_path).items == () and find_board(tmp_path) is None
    made = save_record(plan, tmp_path / "loop/plan-1/plan.json")
    before = made.read_bytes()
    change_board(tmp_path, lambda one: move_item(one, one.items[0].id, "done", by="ada"))
    assert made.read_bytes() == before and find_board(tmp_path) == tmp_path / Plan.FILE
    assert read_board(load_board(tmp_path))[0].by == "ada"
    with (
        hold_lock(tmp_path, LOCK, WorkspaceError),
        pytest.raises(WorkspaceError, match="is being changed by"),
    ):
        change_board(tmp_path, lambda one: one)


def write_other(path):
    """A dataset of another robot, which lacks the signals that the item asks for."""
    with make_dataset(path, STATE_ONLY) as writer:
        writer.add(toy_episode(1, schema=STATE_ONLY, provenance=Provenance("real", actor="operator")))
    return open_dataset(path)


def test_only_what_is_recorded_after_an_item_was_added_counts(world, plan, tmp_path):
    chosen = select_region(world / "reports/coverage", FAR, **AXES)
    changed, item = add_item(plan, chosen, by="ada")
    real = open_dataset(world / "data/real")
    recorded = Path(shutil.copytree(world / "data/real", tmp_path / "later"))
    now = datetime.now(UTC) + timedelta(hours=1)
    far = worlds.scenes(40, 1)[list(chosen.episodes[:3])]
    with append_to(recorded) as writer:
        for seed, scene in enumerate(far):
            provenance = Provenance("real", actor="operator", recorded_at=now)
            writer.add(
                worlds.episode(scene, 100 + seed, source="real", provenance=provenance, success=seed > 0)
            )
    [before] = [one for one in read_board(changed, [real]) if one.item.id == item.id]
    assert before.recorded == 0, "episodes without a time may be older than the plan"
    lacks = write_other(tmp_path / "other")
    [own] = [one for one in read_board(changed, [open_dataset(recorded), lacks]) if one.item.id == item.id]
    assert (own.recorded, own.succeeded, own.problem) == (3, 2, None)
    assert own.left == item.episodes - 3
    [none] = [one for one in read_board(changed, [lacks]) if one.item.id == item.id]
    assert none.recorded == 0 and "observation.environment_state" in none.problem
    assert [one.recorded for one in read_board(changed)] == [None, None]


def test_the_commands_do_the_same(world, twinloop, tmp_path, monkeypatch):
    monkeypatch.chdir(world)
    corners = " ".join(f"{x},{y}" for x, y in FAR)
    axes = ["--across", AXES["across"], "--up", AXES["up"], "--level", "situation"]
    out = tmp_path / "item.json"
    code, text, _ = twinloop(
        "plan", "select", "reports/coverage", "--polygon", corners, *axes, "--out", str(out)
    )
    assert code == 0 and "real episodes" in text and f"twinloop plan add {out}" in text
    code, text, _ = twinloop("plan", "add", str(out), "--by", "ada")
    assert code == 0 and "region-1" in text and "expected gain +" in text
    code, text, _ = twinloop("plan", "move", "region-1", "recording", "--by", "bob", "--json")
    assert code == 0 and json.loads(text)["by"] == "bob"
    code, text, _ = twinloop("plan", "board", "--json")
    [row] = json.loads(text)
    assert (row["state"], row["item"]["id"]) == ("recording", "region-1")
    code, text, _ = twinloop("plan", "board")
    assert code == 0 and "recording" in text
    code, _, _ = twinloop("plan", "sheet", "--out", str(tmp_path / "sheet.html"), "--item", "region-1")
    assert code == 0 and "☐" in (tmp_path / "sheet.html").read_text()
    for words, said in (
        (["plan", "move", "region-9", "done", "--by", "bob"], "no item of the plan is called"),
        (["plan", "select", "reports/coverage", "--polygon", "1,2 3"], "cannot read the outline"),
        (["plan", "sheet", "--out", "x.html", "--item", "region-9"], "no item of the plan is called"),
    ):
        code, _, error = twinloop(*words)
        assert code == 2 and said in error


def test_a_sheet_shows_only_what_is_asked_for(plan):
    page = render_plan_sheet(plan, [plan.items[0].id])
    assert plan.items[0].title in page
    with pytest.raises(UnknownName):
        render_plan_sheet(plan, ["nothing"])
