"""What shows a person's episodes is on the ledger, goes with a withdrawal, and a search finds what was copied by hand."""

import base64
import csv
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner

from tests.coverage import worlds
from twinloop.cli import app
from twinloop.consent.records import add_consent, consents_lock
from twinloop.consent.withdraw import load_tombstones, plan_withdrawal, withdraw_consent
from twinloop.coverage.run import measure_coverage
from twinloop.datasets.artefacts import LEDGER, load_artefacts, register_artefact
from twinloop.datasets.export import export
from twinloop.datasets.merge import merge
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.split import split
from twinloop.datasets.writer import make_dataset
from twinloop.episode import Camera, Provenance
from twinloop.errors import ConsentError
from twinloop.generation.videos import record_outcomes, record_video, write_video
from twinloop.quality.finding import QualityReport
from twinloop.report.coverage_page import write_coverage_page
from twinloop.report.episode_page import draw_episode
from twinloop.report.loop_page import REPORT
from twinloop.report.page import write_page
from twinloop.report.quality_page import write_quality_page
from twinloop.twins import load_twin
from twinloop.workspace import init_workspace

THEIRS, OTHERS = (1, 4, 7), 0
"""Numbers of the episodes of the person who withdraws, and of one of somebody else's."""
SCHEMA = replace(worlds.SEEN, cameras=(Camera("top", 48, 64),))
WORDS = {"by": "dpo", "reason": "asked"}


def in_view(episode, seed):
    """The episode, seen by a camera above a cluttered table that slides by: every episode has a scene of its own."""
    rng = np.random.default_rng([seed, 7])
    table = np.kron(rng.integers(0, 256, (8, 20, 3)), np.ones((6, 6, 1))).astype(np.uint8)
    frames = np.stack([table[:, row : row + 64] for row in range(len(episode))])
    return replace(episode, schema=SCHEMA, frames={"top": frames})


@pytest.fixture
def cell(tmp_path, monkeypatch):
    root = init_workspace(tmp_path / "cell").root
    (root / "signed.pdf").write_bytes(b"I agree")
    for name in ("one", "two"):
        add_consent(root, name, ["record", "train"], document=root / "signed.pdf", consent_id=f"c-{name}")
    with make_dataset(root / "data/real", SCHEMA) as writer:
        for number, scene in enumerate(worlds.scenes(12, 1)):
            person = Provenance("real", actor="operator", consent="c-one" if number in THEIRS else "c-two")
            writer.add(in_view(worlds.episode(scene, number, camera=True, provenance=person), number))
    with make_dataset(root / "data/sim", SCHEMA) as writer:
        for number, scene in enumerate(worlds.scenes(12, 2)):
            writer.add(in_view(worlds.episode(scene, 100 + number, camera=True), 100 + number))
    monkeypatch.chdir(tmp_path)
    return root


def frame_of(root, number, row=9):
    return np.asarray(open_dataset(root / "data/real").episode(number).frames["top"][row])


def write_artefacts(cell, outside):
    """Everything that commands write about the episodes; the names of the files in the workspace."""
    real, sim, reports = open_dataset(cell / "data/real"), open_dataset(cell / "data/sim"), cell / "reports"
    found = measure_coverage(real, sim, points=200, images=False)
    write_coverage_page(found, reports / "coverage.html", (real, sim))
    for number in (OTHERS, THEIRS[0]):
        draw_episode(real.episode(number), reports / f"show-{number}.png", dataset=real)
        draw_episode(real.episode(number), reports / f"show-{number}.html", dataset=real)
        record_video(real.episode(number), reports / f"video-{number}.webm", dataset=real)
    draw_episode(real.episode(THEIRS[0]), outside / "mine.png", dataset=real)
    report = QualityReport(str(real.root), real.id, "v", "train", 12)
    write_quality_page(report, real, reports / "quality.html")
    export(real.root, reports / "all.parquet", "transitions")
    export(real.root, outside / "lerobot", "lerobot")
    merge([real.root], outside / "merged")
    split(real.root, cell / "data/parts", {"a": 0.5, "b": 0.5})
    videos = record_outcomes({"first": (real, True)}, load_twin("servo_pendulum"), reports / "videos")
    write_page(
        reports / REPORT, "page.html", shows=[video.file for video in videos], title="loop", provenance=[]
    )
    shown = [f"show-{THEIRS[0]}.png", f"show-{THEIRS[0]}.html", f"video-{THEIRS[0]}.webm"]
    return {f"reports/{name}" for name in ("coverage.html", "quality.html", "all.parquet", *shown)}


def copy_by_hand(cell, number, folder):
    """Copies that no command of ours wrote: the files of one episode's frames and rows."""
    folder.mkdir()
    frame, dataset = frame_of(cell, number), open_dataset(cell / "data/real")
    Image.fromarray(frame).resize((128, 96)).save(folder / "frame.png")
    Image.fromarray(frame).save(folder / "frame.jpg", quality=80)
    encoded = base64.b64encode((folder / "frame.jpg").read_bytes()).decode()
    (folder / "page.html").write_text(
        f"<!doctype html><p>report</p><img src='data:image/jpeg;base64,{encoded}'>"
    )
    notebook = {"cells": [{"outputs": [{"data": {"image/jpeg": encoded}}]}]}
    (folder / "notes.ipynb").write_text(json.dumps(notebook))
    episode = dataset.episode(number)
    frames = np.stack(
        [np.kron(np.asarray(one), np.ones((2, 2, 1), np.uint8)) for one in episode.frames["top"]]
    )
    write_video(frames, np.zeros((20, 128, 3), np.uint8), folder / "film.webm", 20.0)
    state = episode["observation.state"]
    with (folder / "dump.csv").open("w") as file:
        csv.writer(file).writerows([time, *row] for time, row in zip(episode.time_s, state, strict=True))
    (folder / "rows.json").write_text(json.dumps([{"state": row.tolist()} for row in state[5:]]))
    (folder / "columns.json").write_text(json.dumps({"elbow": np.round(state[:, 1], 5).tolist()}))
    np.save(folder / "rows.npy", state)
    return {path.name for path in folder.iterdir()}


def test_a_withdrawal_removes_what_shows_the_person_names_what_it_cannot_and_finds_copies(cell, tmp_path):
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    theirs = write_artefacts(cell, outside)
    kept = {path for path in (cell / "reports").iterdir() if f"-{OTHERS}." in path.name}
    others = copy_by_hand(cell, OTHERS, cell / "reports/others")
    copies = copy_by_hand(cell, THEIRS[1], cell / "reports/.hidden")
    shutil.copy(cell / "reports/coverage.html", cell / "notes.html")
    ids = {open_dataset(cell / "data/real").episode(number).id for number in THEIRS}

    before = {
        path: path.read_bytes() for path in cell.rglob("*") if path.is_file() and path.suffix != ".lock"
    }
    plan = plan_withdrawal(cell, "c-one")
    assert set(plan.artefacts) == theirs
    assert set(plan.outside) == {str(outside / name) for name in ("mine.png", "lerobot", "merged")}
    after = {path: path.read_bytes() for path in cell.rglob("*") if path.is_file() and path.suffix != ".lock"}
    assert {p: b for p, b in after.items() if p.name not in (".lock", "lock")} == {
        p: b for p, b in before.items() if p.name not in (".lock", "lock")
    }, "a plan changes nothing"

    told = []
    done = withdraw_consent(cell, "c-one", **WORDS, on_plan=lambda plan: told.append(set(plan.artefacts)))
    assert told == [theirs] and set(done.artefacts) == theirs and set(done.outside) == set(plan.outside)
    assert not any((cell / name).exists() for name in theirs)
    assert kept and all(path.exists() for path in kept) and (outside / "mine.png").exists()
    found = {os.path.relpath(one.path, cell): one for one in done.found if one.certain}
    assert set(found) == {f"reports/.hidden/{name}" for name in copies} | {"notes.html"}
    assert (
        "1 frame" in found["reports/.hidden/page.html"].what and "copy of a file" in found["notes.html"].what
    )
    assert others == copies, "and none of the same files of somebody else is named"
    assert not done.is_complete and load_tombstones(cell)[-1]["found"]

    shutil.rmtree(cell / "reports/.hidden")
    (cell / "notes.html").unlink()
    done = withdraw_consent(cell, "c-one", **WORDS)
    assert done.is_complete and set(done.outside) == set(plan.outside), "listed until they are gone"
    assert not list(cell.glob("consents/withdrawing-*"))
    for name in ("mine.png", "lerobot", "merged"):
        path = outside / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert withdraw_consent(cell, "c-one", **WORDS).outside == ()
    inside = [one for one in load_artefacts(cell) if one.is_inside(cell)]
    assert not ids & {episode for one in inside for episode in one.episodes}


def test_an_artefact_is_on_the_ledger_before_it_is_written_and_only_if_people_are_in_it(cell, tmp_path):
    real, sim = open_dataset(cell / "data/real"), open_dataset(cell / "data/sim")
    draw_episode(sim.episode(0), cell / "reports/sim.png", dataset=sim)
    assert load_artefacts(cell) == [], "nobody is in a simulation"
    with pytest.raises(IsADirectoryError):
        (cell / "reports/folder.png").mkdir()
        draw_episode(real.episode(1), cell / "reports/folder.png", dataset=real)
    draw_episode(real.episode(1), tmp_path / "out.png", dataset=real)
    draw_episode(real.episode(4), tmp_path / "out.png", dataset=real)
    first, second = load_artefacts(cell)
    assert first.path == "reports/folder.png" and first.episodes == (real.episode(1).id,)
    assert second.path == str(tmp_path / "out.png") and len(second.episodes) == 2, "of whatever it has shown"
    child = worlds.episode(worlds.scenes(1, 5)[0], 50).with_provenance(parents=(real.episode(1).id,))
    register_artefact(cell / "reports/preview.png", "image", [child])
    assert set(load_artefacts(cell)[-1].episodes) == {child.id, real.episode(1).id}
    lines = len((cell / LEDGER).read_text().splitlines())
    draw_episode(real.episode(1), tmp_path / "out.png", dataset=real)
    assert len((cell / LEDGER).read_text().splitlines()) == lines, "nothing new, no new line"


def test_a_link_that_leads_out_of_the_workspace_is_outside(cell, tmp_path):
    (tmp_path / "drive").mkdir()
    (cell / "reports/drive").symlink_to(tmp_path / "drive")
    real = open_dataset(cell / "data/real")
    draw_episode(real.episode(1), cell / "reports/drive/x.png", dataset=real)
    draw_episode(real.episode(1), tmp_path / "gone/x.png", dataset=real)
    (tmp_path / "gone").rename(tmp_path / "unmounted")
    done = withdraw_consent(cell, "c-one", **WORDS)
    assert set(done.outside) == {str(tmp_path / "drive/x.png"), str(tmp_path / "gone/x.png")}
    assert (tmp_path / "drive/x.png").exists()


def test_two_withdrawals_at_once_are_refused_clearly(cell):
    with consents_lock(cell), pytest.raises(ConsentError, match="being changed by process"):
        withdraw_consent(cell, "c-one", **WORDS)
    assert len(open_dataset(cell / "data/real")) == 12


KILLED = """
import os, sys
from pathlib import Path
from twinloop.consent import withdraw
left = int(sys.argv[2])
def deadly(function):
    def call(*a, **k):
        global left
        left -= 1
        if left < 0:
            os._exit(9)
        return function(*a, **k)
    return call
Path.unlink = deadly(Path.unlink)
for name in ("save_record", "change_artefacts", "remove_episodes", "search_copies", "append_jsonl", "delete_pseudonym"):
    setattr(withdraw, name, deadly(getattr(withdraw, name)))
withdraw.withdraw_consent(Path(sys.argv[1]), "c-one", by="dpo", reason="asked")
"""


@pytest.mark.parametrize("step", [9, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 4, 6, 8, 11))])
def test_a_withdrawal_that_is_killed_anywhere_is_finished_with_its_artefacts(cell, step):
    real = open_dataset(cell / "data/real")
    for number in (0, 1, 4):
        draw_episode(real.episode(number), cell / f"reports/{number}.png", dataset=real)
    Image.fromarray(frame_of(cell, 7)).resize((64, 48)).save(cell / "copy.png")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(cell), str(step)], capture_output=True, text=True
    )
    assert killed.returncode == 9, killed.stderr
    done = withdraw_consent(cell, "c-one", **WORDS)
    assert [os.path.relpath(one.path, cell) for one in done.found] == ["copy.png"], (
        "found after the frames are gone"
    )
    assert sorted(path.name for path in (cell / "reports").iterdir()) == ["0.png"]
    (cell / "copy.png").unlink()
    assert withdraw_consent(cell, "c-one", **WORDS).is_complete
    assert {one.path for one in load_artefacts(cell)} == {"reports/0.png"}


def test_the_command_says_first_what_it_removes_and_ends_with_1_while_copies_are_left(cell):
    def twinloop(*words, code=0):
        done = CliRunner().invoke(app, ["data", *words])
        assert done.exit_code == code, done.output
        return " ".join(done.output.split())

    place = ("--workspace", str(cell))
    twinloop("show", f"{cell}/data/real#1", "--out", f"{cell}/reports/one.png")
    dump = CliRunner().invoke(app, ["data", "query", f"{cell}/data/real", "select * from frames", "--csv"])
    (cell / "dump.csv").write_text(dump.stdout)
    shown = twinloop("consent", "withdraw", "c-one", "--dry-run", *place)
    assert (
        "3 episodes would be removed from" in shown
        and "one.png, which shows removed episodes, would be" in shown
    )
    assert (cell / "reports/one.png").exists() and len(open_dataset(cell / "data/real")) == 12
    assert "a withdrawal needs a name" in str(CliRunner().invoke(app, ["data", "consent", "withdraw", "c-one", *place]).exception)  # fmt: skip
    words = ("consent", "withdraw", "c-one", "--by", "dpo", "--reason", "asked", *place)
    shown = twinloop(*words, code=1)
    assert shown.index("will be deleted") < shown.index(
        "consent c-one is withdrawn; 3 episodes and 1 artefact"
    )
    assert "dump.csv" in shown and "runs of values" in shown and "copies are left" in shown
    (cell / "dump.csv").unlink()
    assert "no copy of their frames or rows is left" in twinloop(*words)


def test_rows_that_were_kept_are_nobodys_copy(cell):
    """An export of what was kept, made again after the withdrawal, is not named."""
    withdraw_consent(cell, "c-one", **WORDS)
    real = open_dataset(cell / "data/real")
    export(real.root, cell / "reports/again.parquet", "transitions")
    draw_episode(real.episode(real.numbers[0]), cell / "reports/again.png", dataset=real)
    assert len(pq.read_table(cell / "reports/again.parquet")) > 100
    done = withdraw_consent(cell, "c-one", **WORDS)
    assert done.is_complete and done.artefacts == () and (cell / "reports/again.parquet").exists()
