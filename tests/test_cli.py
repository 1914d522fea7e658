"""The command line as a user types it: exit codes, messages, tables."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.datasets.examples import STATE_ONLY, WITH_CAMERA, toy_episode
from tests.terminal import twinloop, twinloop_json
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.writer import make_dataset
from twinloop.testing import assert_same_episode

TWINLOOP = Path(sys.executable).with_name("twinloop")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """Two small datasets; tests only read them."""
    folder = tmp_path_factory.mktemp("shelf")
    for name, schema, seeds in (("sim", WITH_CAMERA, range(6)), ("field", WITH_CAMERA, range(6, 9))):
        with make_dataset(folder / name, schema) as writer:
            for seed in seeds:
                writer.add(toy_episode(seed, schema=schema))
    return folder


def test_the_installed_script_prints_version_help_and_errors(shelf):
    def run(*words):
        return subprocess.run([TWINLOOP, *words], cwd=shelf, capture_output=True, text=True)

    assert run("--version").stdout.startswith("twinloop 0.")
    assert "data" in run("-h").stdout
    refused = run("data", "info", "nowhere")
    assert refused.returncode == 2 and "nowhere does not exist" in refused.stderr and not refused.stdout
    assert "Traceback" not in refused.stderr


def test_a_workspace_is_made_once_and_says_what_to_do_next(tmp_path):
    twinloop("init", "cell", cwd=tmp_path)
    assert "is a workspace already" in twinloop("init", "cell", cwd=tmp_path, code=1)
    assert twinloop_json("status", cwd=tmp_path / "cell")["reason"] == "there is no data yet"
    assert "twinloop init DIR" in twinloop("status", cwd=tmp_path, code=1)
    with make_dataset(tmp_path / "cell/data/a", STATE_ONLY) as writer:
        writer.add(toy_episode(1, success=None, failure=None))
    assert "data label" in twinloop_json("status", cwd=tmp_path / "cell/data")["next_step"]
    twinloop("data", "label", "a", 0, "--success", "--by", "ann", cwd=tmp_path / "cell/data")
    assert "train" in twinloop("status", cwd=tmp_path / "cell")


def test_recordings_of_a_robot_are_identified_first(tmp_path):
    twinloop("init", "cell", "--twin", "servo_pendulum", cwd=tmp_path)
    episode = toy_episode(1, success=None, failure=None)
    with make_dataset(tmp_path / "cell/data/real", STATE_ONLY) as writer:
        writer.add(replace(episode, provenance=replace(episode.provenance, source="real")))
    said = twinloop_json("status", cwd=tmp_path / "cell")
    assert said["next_step"].startswith("twinloop identify --real ") and said["next_step"].endswith(
        "data/real"
    )
    folder = tmp_path / "cell/twins/servo_pendulum-rejected"
    folder.mkdir()
    (folder / "identification.json").write_text("{}")
    assert "data label" in twinloop_json("status", cwd=tmp_path / "cell")["next_step"], "it was fitted once"


def test_doctor_finds_what_twinloop_needs(tmp_path):
    findings = {finding["name"]: finding for finding in twinloop_json("doctor", cwd=tmp_path)}
    assert findings["pyarrow"]["state"] == "ok"
    assert findings["cores"]["found"].endswith("usable")
    assert all(finding["remedy"] for finding in findings.values() if finding["state"] != "ok")


def test_ls_and_info_count_what_is_there(shelf):
    listed = twinloop_json("data", "ls", shelf, cwd=shelf)
    assert {(d["name"], d["episodes"]) for d in listed} == {("sim", 6), ("field", 3)}
    info = twinloop_json("data", "info", "sim", cwd=shelf)
    assert info["by_source"] == [
        {
            "source": "sim",
            "episodes": 6,
            "frames": 180,
            "hours": info["by_source"][0]["hours"],
            "successes": 4,
            "failures": 2,
        }
    ]
    assert [s["units"] for s in info["signals"]] == [["rad"], ["rad"], ["N"]]
    text = twinloop("data", "info", "sim", cwd=shelf)
    assert "observation.force" in text and "camera front" in text


def test_query_prints_a_table_json_or_csv(shelf):
    sql = "select dataset, count(*) n from episodes group by dataset order by dataset"
    assert twinloop_json("data", "query", "sim", "field", sql, cwd=shelf) == [
        {"dataset": "field", "n": 3},
        {"dataset": "sim", "n": 6},
    ]
    assert twinloop("data", "query", "sim", "field", sql, "--csv", cwd=shelf).split() == [
        "dataset,n",
        "field,3",
        "sim,6",
    ]
    assert "field" in twinloop("data", "query", "sim", "field", sql, cwd=shelf)
    assert "try: describe episodes" in twinloop("data", "query", "sim", "select x from y", cwd=shelf, code=2)


def test_a_query_with_many_columns_prints_records_instead_of_a_squeezed_table(shelf):
    said = twinloop("data", "query", "sim", "select * from episodes limit 2", cwd=shelf)
    assert [line for line in said.splitlines() if not line.startswith(" ")] == ["sim", "sim"]
    assert "[('mass_kg', " in said and "wood_1" in said


def test_merge_split_and_export_from_the_command_line(shelf, tmp_path):
    twinloop("data", "merge", shelf / "sim", shelf / "field", "--out", "all", cwd=tmp_path)
    parts = twinloop_json(
        "data", "split", "all", "--parts", "train=0.7,test=0.3", "--out", "parts", cwd=tmp_path
    )
    assert {name: part["episodes"] for name, part in parts.items()} == {"train": 6, "test": 3}
    twinloop("data", "export", "all", "--out", "t.parquet", cwd=tmp_path)
    twinloop("data", "export", "all", "--as", "hdf5", "--out", "t.h5", cwd=tmp_path)
    twinloop("data", "export", "all", "--as", "lerobot", "--out", "copy", cwd=tmp_path)
    assert "already exists" in twinloop("data", "export", "all", "--out", "t.parquet", cwd=tmp_path, code=1)
    assert "did you mean 'hdf5'" in twinloop(
        "data", "export", "all", "--as", "hdf", "--out", "x", cwd=tmp_path, code=2
    )
    for number in range(9):
        assert_same_episode(
            open_dataset(tmp_path / "copy").episode(number), toy_episode(number, schema=WITH_CAMERA)
        )


def test_show_draws_a_png_and_a_page(shelf, tmp_path):
    twinloop("data", "show", f"{shelf / 'sim'}#2", "--out", "a.png", cwd=tmp_path)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    twinloop("data", "show", f"{shelf / 'sim'}#2", "--out", "a.html", cwd=tmp_path)
    page = (tmp_path / "a.html").read_text()
    assert "wood_2" in page and "http:" not in page and "https:" not in page
    assert "no episode 77" in twinloop("data", "show", f"{shelf / 'sim'}#77", cwd=tmp_path, code=2)
    assert "DATASET#NUMBER" in twinloop("data", "show", "sim", cwd=tmp_path, code=2)


def test_labels_need_a_name_and_a_target(tmp_path):
    with make_dataset(tmp_path / "a", STATE_ONLY) as writer:
        for seed in range(4):
            writer.add(toy_episode(seed))
    twinloop("data", "label", "a", "--where", "seed >= 2", "--failure", "jammed", "--by", "ann", cwd=tmp_path)
    failed = "select failure from episodes order by episode_index"
    assert [row["failure"] for row in twinloop_json("data", "query", "a", failed, cwd=tmp_path)] == [
        "slipped",
        None,
        "jammed",
        "jammed",
    ]
    assert "--by NAME" in twinloop("data", "label", "a", 1, "--success", cwd=tmp_path, code=2)
    assert "no episodes are named" in twinloop(
        "data", "label", "a", "--success", "--by", "ann", cwd=tmp_path, code=2
    )
    assert "exclude" in twinloop(
        "data", "label", "a", 1, "--success", "--failure", "x", "--by", "a", cwd=tmp_path, code=2
    )


def test_the_history_of_labels_says_who_said_what(tmp_path):
    with make_dataset(tmp_path / "a", STATE_ONLY) as writer:
        for seed in range(2):
            writer.add(toy_episode(seed))
    assert "no labels" in twinloop("data", "label", "a", "--history", cwd=tmp_path)
    twinloop("data", "label", "a", 0, 1, "--success", "--by", "ann", cwd=tmp_path)
    twinloop("data", "label", "a", 1, "--failure", "jammed", "--by", "ben", cwd=tmp_path)
    said = twinloop_json("data", "label", "a", 1, "--history", cwd=tmp_path)
    assert [(one["episode"], one["field"], one["value"], one["by"]) for one in said] == [
        (1, "success", True, "ann"),
        (1, "failure", "jammed", "ben"),
    ]


def test_a_query_with_its_words_swapped_is_told_the_right_order(shelf):
    said = twinloop("data", "query", "select count(*) from episodes", "sim", cwd=shelf, code=2)
    assert "SELECT last" in said and 'twinloop data query sim "select count(*) from episodes"' in said


@pytest.mark.parametrize("width", [60, 80, 200])
def test_tables_fit_the_terminal(shelf, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    for words in (("twin", "show", "so101_pick_place"), ("data", "info", "sim"), ("check", "sim")):
        for line in twinloop(*words, cwd=shelf).splitlines():
            if not line.startswith(("lag of", "id ", "error", "  ->", "so101_pick_place, version")):
                assert len(line.rstrip()) <= max(width, 80), line


def test_one_is_singular(tmp_path):
    with make_dataset(tmp_path / "one", STATE_ONLY) as writer:
        writer.add(toy_episode(0))
    assert "one: 1 episode, 30 frames" in twinloop("data", "info", "one", cwd=tmp_path)
    assert "1 episode, 30 frames" in twinloop("data", "verify", "one", cwd=tmp_path)


def test_verify_names_the_broken_file_and_repair_says_what_was_lost(tmp_path):
    with make_dataset(tmp_path / "a", STATE_ONLY) as writer:
        for seed in range(6):
            writer.add(toy_episode(seed))
            if seed == 3:
                writer.commit()
    assert "ok; 6 episodes" in twinloop("data", "verify", "a", cwd=tmp_path)
    broken = tmp_path / "a/data/chunk-000/file-001.parquet"
    broken.write_bytes(broken.read_bytes()[:-100])
    said = twinloop("data", "verify", "a", cwd=tmp_path, code=1)
    assert "data/chunk-000/file-001.parquet" in said and "episodes 4-5" in said
    repaired = twinloop("data", "verify", "a", "--repair", cwd=tmp_path)
    assert "lost: episode 4" in repaired and "lost: episode 5" in repaired
    assert "ok; 4 episodes" in twinloop("data", "verify", "a", cwd=tmp_path)


def test_errors_are_json_too_when_json_is_asked_for(tmp_path):
    error = twinloop_json("data", "info", "nowhere", cwd=tmp_path, code=2)
    assert error == {
        "error": "nowhere does not exist.",
        "remedy": "check the path; `twinloop data ls FOLDER` lists datasets",
        "exit_code": 2,
    }
