"""Episodes as a list: filters, counts, order; and weighted selections saved as queries."""

import numpy as np
import pytest

from tests.datasets.examples import STATE_ONLY, toy_episode
from tests.terminal import run_command, twinloop_json
from twinloop.browsing import NONE, EpisodeFilter, list_episodes
from twinloop.datasets.labelling import label_episodes
from twinloop.datasets.query import query
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.writer import make_dataset
from twinloop.errors import NoDataset, UnknownName, WrongUse
from twinloop.selections import SelectionPart, count_selection, draw_selection, load_selection, save_selection
from twinloop.workspace import init_workspace


@pytest.fixture(scope="module")
def cell(tmp_path_factory):
    """A workspace with two small datasets."""
    root = tmp_path_factory.mktemp("browse") / "cell"
    init_workspace(root)
    for name, seeds in (("sim", range(9)), ("field", range(20, 24))):
        with make_dataset(root / "data" / name, STATE_ONLY) as writer:
            for seed in seeds:
                writer.add(toy_episode(seed, rows=4 + seed))
    label_episodes(root / "data/sim", {"success": None, "failure": None}, "ann", numbers=[1])
    return root


def found(cell, **wanted):
    listed = list_episodes(open_dataset(cell / "data/sim"))
    return [line.episode for line in listed.lines(listed.find(EpisodeFilter(**wanted)))]


def test_the_list_says_what_the_table_says(cell):
    listed = list_episodes(open_dataset(cell / "data/sim"))
    columns = "episode_index, episode_id, task, length, duration_s, source, success, failure, site, seed, recorded_at"
    rows = query([cell / "data/sim"], f"select {columns} from episodes order by episode_index").to_pylist()
    for line, row in zip(listed.lines(np.arange(len(listed))), rows, strict=True):
        assert [line.episode, line.id, line.task, line.rows] == list(row.values())[:4]
        assert [line.duration_s, line.source, line.success, line.failure, line.site, line.seed] == list(
            row.values()
        )[4:10]
        assert line.recorded_at == row["recorded_at"] and line.quality == "unchecked"


def test_filters_are_combined(cell):
    assert found(cell, outcome="failure") == [0, 3, 6]
    assert found(cell, outcome="unlabelled") == [1]
    assert found(cell, failure=NONE, text="cube") == [1, 2, 4, 5, 7, 8]
    assert found(cell, where="length > 8 and success") == [5, 7, 8]
    assert found(cell, text="7") == [7] or 7 in found(cell, text="7")
    assert found(cell, site="elsewhere") == []
    for wanted in ({"outcome": "good"}, {"quality": "poor"}):
        with pytest.raises(UnknownName):
            found(cell, **wanted)
    with pytest.raises(WrongUse):
        found(cell, where="1; drop table episodes")


def test_episodes_are_ordered_with_missing_values_last(cell):
    listed = list_episodes(open_dataset(cell / "data/sim"))
    every = np.arange(len(listed))
    assert listed.order(every, "rows", True).tolist() == every[::-1].tolist()
    assert listed.order(every, "success").tolist()[-1] == 1
    assert listed.order(every, "success", True).tolist()[-1] == 1
    with pytest.raises(UnknownName):
        listed.order(every, "colour")


def test_choices_are_counted(cell):
    listed = list_episodes(open_dataset(cell / "data/sim"))
    assert [(one.value, one.episodes) for one in listed.count_choices()["outcome"]] == [
        ("success", 5), ("failure", 3), ("unlabelled", 1),
    ]  # fmt: skip
    assert listed.count_outcomes() == {"sim": (9, 5, 3)}
    assert listed.number_of(listed.lines([4])[0].id) == 4 and listed.number_of("nobody") is None


def test_the_command_lists_pages(cell):
    lines = twinloop_json(
        "data", "episodes", cell / "data/sim", "--sort", "-rows", "--offset", 2, "--limit", 3, cwd=cell
    )
    assert [line["episode"] for line in lines] == [6, 5, 4]


def test_a_checked_dataset_has_the_worst_finding_of_each_episode(cell, tmp_path):
    from twinloop.quality.require import require_usable

    with make_dataset(tmp_path / "checked", STATE_ONLY) as writer:
        for seed in range(3):
            writer.add(toy_episode(seed))
    dataset = open_dataset(tmp_path / "checked")
    report = require_usable(dataset, "any", may_leave_out=1.0)
    lines = list_episodes(dataset).lines([0, 1, 2])
    ranks = ("ok", "note", "warning", "blocking")
    for line in lines:
        worst = max(
            (ranks.index(f.severity) for f in report.findings if f.episode == line.episode), default=0
        )
        assert line.quality == ranks[worst]


def test_a_selection_is_saved_counted_and_drawn(cell, tmp_path):
    code, out, error = run_command(
        "data", "selection", "save", "mix", "data/sim", "success", 3, "data/field", "--by", "ann", cwd=cell
    )
    assert code == 0 and "75%" in out, error
    selection = load_selection(cell, "mix")
    assert [one.episodes for one in count_selection(cell, selection)] == [5, 4]
    drawn = draw_selection(cell, selection, tmp_path / "mixed", seed=1).dataset
    assert len(drawn) == 6
    again = draw_selection(cell, selection, tmp_path / "again", seed=1).dataset
    names = [dataset.provenance_table().column("episode_id").to_pylist() for dataset in (drawn, again)]
    assert names[0] == names[1]
    with pytest.raises(WrongUse, match="1 to 6"):
        draw_selection(cell, selection, tmp_path / "more", episodes=7)
    assert [one["name"] for one in twinloop_json("data", "selection", "ls", cwd=cell)] == ["mix"]
    assert run_command("data", "selection", "rm", "mix", cwd=cell)[0] == 0
    with pytest.raises(UnknownName):
        load_selection(cell, "mix")


@pytest.mark.parametrize(
    ("name", "part", "error"),
    [
        ("../x", SelectionPart("data/sim"), WrongUse),
        ("x", SelectionPart("../../etc"), WrongUse),
        ("x", SelectionPart("data/none"), NoDataset),
        ("x", SelectionPart("data/sim", "no such column"), WrongUse),
        ("x", SelectionPart("data/sim", "true", 0.0), WrongUse),
    ],
)
def test_an_unusable_selection_is_refused(cell, name, part, error):
    with pytest.raises(error):
        save_selection(cell, name, (part,), "ann")
    assert not (cell / "selections" / "x").exists()
