"""Questions to datasets in SQL."""

from pathlib import Path

import duckdb
import pytest

from tests.datasets.examples import STATE_ONLY, toy_episode
from twinloop.datasets.labels import add_labels
from twinloop.datasets.query import find_episodes, query
from twinloop.datasets.sql import check_condition
from twinloop.datasets.writer import make_dataset
from twinloop.errors import DatasetError, UnknownName, WrongUse


@pytest.fixture
def two(tmp_path):
    for name, seeds in (("sim", range(6)), ("field", range(6, 10))):
        with make_dataset(tmp_path / name, STATE_ONLY) as writer:
            for seed in seeds:
                writer.add(toy_episode(seed, rows=4 + seed))
    return [tmp_path / "sim", tmp_path / "field"]


def rows(sources, sql):
    return query(sources, sql).to_pylist()


def test_episodes_are_found_by_provenance_and_draw(two):
    drawn = {seed: toy_episode(seed).provenance.draw["mass_kg"] for seed in range(10)}
    heavy = rows(
        two, "select seed from episodes where draw['mass_kg'] > 0.25 and twin_version = '3' order by seed"
    )
    assert [row["seed"] for row in heavy] == [seed for seed in range(10) if drawn[seed] > 0.25]
    wooden = rows(two, "select seed from episodes where draw_text['texture'] = 'wood_1' order by seed")
    assert [row["seed"] for row in wooden] == [1, 4, 7]


def test_datasets_are_told_apart_by_name(two):
    counted = rows(
        two, "select dataset, count(*) n, sum(length) rows from episodes group by dataset order by dataset"
    )
    assert counted == [
        {"dataset": "field", "n": 4, "rows": sum(4 + s for s in range(6, 10))},
        {"dataset": "sim", "n": 6, "rows": sum(4 + s for s in range(6))},
    ]


def test_frames_hold_signals_and_true_times(two):
    got = rows(
        two[:1],
        'select time_s, "observation.state"[1] first from frames where episode_index = 2 order by frame_index',
    )
    episode = toy_episode(2, rows=6)
    assert [row["time_s"] for row in got] == episode.time_s.tolist()
    assert [row["first"] for row in got] == episode["observation.state"][:, 0].tolist()


def test_labels_rule_over_what_was_recorded(two):
    failed = rows(two[:1], "select episode_id from episodes where not success")
    identity = failed[0]["episode_id"]
    add_labels(Path(two[0]), [identity], {"success": True, "phase": "lift"}, by="ann")
    got = rows(
        two[:1],
        f"select success, failure, label['phase'] phase from episodes where episode_id = '{identity}'",
    )
    assert got == [{"success": True, "failure": None, "phase": "lift"}]


@pytest.mark.parametrize(
    "sql",
    [
        "copy (select 1) to 'DATASET/out.csv'",
        "select * from read_csv('/etc/hostname')",
        "explain analyze copy (select 1) to 'DATASET/out.csv'",
        "explain (analyze) copy (select 1) to 'DATASET/out.csv'",
        "/**/ explain analyze create table t as select 1",
        "select * from read_text('DATASET/meta/info.json')",
        "select * from 'DATASET/meta/tasks.parquet'",
        "select * from query('select 1')",
        "select (select count(*) from glob('/etc/*'))",
        "select * from datasets",
        "set enable_external_access = true",
        "create table t as select 1",
        "select 1; select 2",
        "",
        "selec",
        "select nothing from episodes",
    ],
)
def test_anything_but_one_readable_select_is_refused(two, sql):
    before = sorted(two[0].rglob("*"))
    with pytest.raises(WrongUse):
        query(two[:1], sql.replace("DATASET", str(two[0])))
    assert sorted(two[0].rglob("*")) == before


def test_the_plan_of_a_select_can_be_asked_for(two):
    assert len(query(two, "explain select * from episodes")) > 0
    assert len(query(two, "explain analyze select count(*) from frames")) > 0


@pytest.mark.parametrize(
    "condition",
    [
        "false union all select 'nobody'",
        "false) union all (select 'nobody'",
        "true) order by (1",
        "true; drop view episodes",
        "true, false",
        "",
        "episode_index in (select 1 from read_text('/etc/hostname'))",
    ],
)
def test_a_condition_is_one_expression(two, condition):
    with pytest.raises(WrongUse):
        find_episodes(two[0], condition)


def test_a_condition_finds_episodes(two):
    seeds = "select seed from episodes where episode_id = '{}'"
    found = find_episodes(two[0], "seed >= 4 -- late ones") + find_episodes(
        two[0], "episode_index in (select episode_index from frames where frame_index > 6) and seed < 5"
    )
    assert sorted(rows(two[:1], seeds.format(identity))[0]["seed"] for identity in found) == [4, 4, 5]


def test_a_query_that_takes_too_long_is_stopped(two):
    with pytest.raises(WrongUse, match=r"stopped after 0\.1 s"):
        query(two[:1], "select count(*) from range(1000000000000) a where a.range % 7 = 3", time_limit_s=0.1)


def test_an_answer_has_a_largest_size(two, monkeypatch):
    monkeypatch.setattr("twinloop.datasets.query.MEMORY_BYTES", 20_000_000)
    with pytest.raises(WrongUse, match="too much memory"):
        query(two[:1], "select * from range(100000000)")


def test_a_query_leaves_no_files_behind(two, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    query(two, "select * from frames order by time_s")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_draw_that_no_episode_has_is_refused_with_the_nearest_one(two):
    with pytest.raises(UnknownName, match="did you mean 'mass_kg'"):
        query(two, "select avg(draw['mas_kg']) from episodes")


def test_a_misspelt_column_or_table_is_refused_with_what_was_meant(two):
    with pytest.raises(WrongUse, match="available: success"):
        query(two, "select sucess from episodes")
    with pytest.raises(WrongUse, match="available: episodes"):
        query(two, "select success from epsodes")


def test_the_same_dataset_twice_is_refused(two):
    with pytest.raises(DatasetError, match="twice"):
        query([two[0], two[0]], "select 1")


def test_brackets_that_the_parser_would_take_gigabytes_for_are_refused():
    connection = duckdb.connect()
    for sql in ("(" * 4096, "[" * 4096):
        with pytest.raises(WrongUse, match="nested too deeply; got 4,09"):
            check_condition(connection, sql)
    assert check_condition(connection, "(" * 100 + "true" + ")" * 100)
