"""Folders that appear when they are complete: two writers at once, and what a killed one leaves."""

import os
import stat
import subprocess

import pytest

from tests.datasets.examples import STATE_ONLY, toy_episode
from twinloop.consent.records import add_consent
from twinloop.datasets.merge import merge
from twinloop.datasets.partial_folder import find_leftovers, partial_folder, remove_leftovers
from twinloop.datasets.verify import verify
from twinloop.datasets.writer import make_dataset
from twinloop.doctor import examine
from twinloop.errors import DatasetError, LockedDataset, NoDataset
from twinloop.twins import load_twin, save_twin


@pytest.fixture
def dataset(tmp_path):
    with make_dataset(tmp_path / "a", STATE_ONLY) as writer:
        writer.add(toy_episode(1))
    return tmp_path / "a"


@pytest.fixture(scope="module")
def ended_process():
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_a_second_writer_of_a_folder_is_told_which_process_writes_it(dataset, tmp_path):
    other = tmp_path / f".both.{os.getppid()}.partial"
    other.mkdir()
    with pytest.raises(LockedDataset, match=f"being written by process {os.getppid()}"):
        merge([dataset], tmp_path / "both")
    assert [path.name for path in tmp_path.glob(".both*")] == [other.name]


def test_a_writer_that_comes_second_at_the_end_says_so(tmp_path):
    out = tmp_path / "out"
    with pytest.raises(DatasetError, match="already exists and is not empty"), partial_folder(out):
        out.mkdir()
        (out / "file").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_a_killed_writer_left_is_found_and_removed(dataset, tmp_path, ended_process):
    left = tmp_path / f".both.{ended_process}.partial"
    left.mkdir()
    (left / "rows").write_bytes(b"0" * 1000)
    (tmp_path / f".both.{os.getpid()}.spool").mkdir()
    (tmp_path / ".notes.partial").touch()
    with pytest.raises(NoDataset, match=f"never completed: process {ended_process}"):
        verify(tmp_path / "both")
    left.rename(left := tmp_path / f".a.{ended_process}.partial")
    checked = verify(dataset)
    assert checked.ok
    assert [finding.file for finding in checked.findings] == [left.name]
    found = find_leftovers(tmp_path.parent, below=True)
    assert [(one.path, one.target, one.bytes) for one in found] == [(left, dataset, 1000)]
    remove_leftovers(found)
    assert not left.exists()
    assert verify(dataset).findings == ()


def test_doctor_names_what_killed_writers_left(tmp_path, ended_process, monkeypatch):
    for slow in ("_rendering", "_training_device"):
        monkeypatch.setattr(f"twinloop.doctor.{slow}", lambda: None)
    left = tmp_path / "data" / f".both.{ended_process}.partial"
    left.mkdir(parents=True)
    findings = [finding for finding in examine(tmp_path) if finding and finding.name == "unfinished"]
    assert [str(left) in finding.found for finding in findings] == [True]
    assert "--remove-unfinished" in findings[0].remedy


def test_an_interrupted_writer_is_continued(tmp_path, ended_process):
    left = tmp_path / f".out.{ended_process}.partial"
    left.mkdir()
    (left / "half").touch()
    with partial_folder(tmp_path / "out", resume=True) as folder:
        assert (folder / "half").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_saved_twin_respects_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        folder = save_twin(load_twin("servo_pendulum"), tmp_path / "mine")
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in (folder, *folder.iterdir())} == {0}


def test_consents_cannot_be_read_by_everybody(tmp_path):
    document = tmp_path / "signed.pdf"
    document.touch()
    add_consent(tmp_path, "operator-1", ["train"], document=document)
    assert stat.S_IMODE((tmp_path / "consents").stat().st_mode) & 0o007 == 0
