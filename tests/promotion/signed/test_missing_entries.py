"""Whoever can write the workspace, and nothing else, cannot take anything away from the record unnoticed."""

import shutil
import subprocess

import pytest

from tests.promotion.conftest import make
from tests.promotion.signed.people import (
    become,
    with_champions,
    without_mlflow,
)
from twinloop.errors import TamperedRecord
from twinloop.workspace import init_workspace

pytestmark = pytest.mark.filterwarnings("ignore")


def test_missing_last_entries_are_noticed_also_without_mlflow(registry, policies, tmp_path):
    with_champions(registry, policies[:2])
    registry.roll_back(by="ann", reason="drops the cup")
    lines = registry.record.file.read_text().splitlines(keepends=True)
    registry.record.file.write_text("".join(lines[:4]))
    again = without_mlflow(registry, tmp_path)
    for look in (again.verify, lambda: again.verify(restore=True), lambda: again.policy("champion")):
        with pytest.raises(TamperedRecord, match="was truncated: it ends with entry 4") as refused:
            look()
    registry.folder.rename(tmp_path / "away")
    with pytest.raises(TamperedRecord, match="ends with entry 0"):
        again.promote(policies[0], None, by="ann", override="x")
    shutil.rmtree(registry.folder)
    (tmp_path / "away").rename(registry.folder)
    head = refused.value.remedy.split("--head ")[1].split()[0]
    again.accept(head, by="ann", reason="the backup is all there is")
    assert again.verify(restore=True).head.number == 4


def test_a_workspace_that_is_made_anew_begins_without_a_registry(tmp_path, policies, empty):
    init_workspace(tmp_path / "again")
    registry = with_champions(make(tmp_path / "again", empty), policies[:1])
    shutil.rmtree(tmp_path / "again")
    with pytest.raises(TamperedRecord, match="was truncated"):
        without_mlflow(registry, tmp_path).verify()
    shutil.rmtree(tmp_path / "again", ignore_errors=True)
    init_workspace(tmp_path / "again")
    with_champions(without_mlflow(registry, tmp_path), policies[:1])


def anchors(tmp_path):
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "heads.git"], check=True)
    return {
        "file": f"file:{tmp_path / 'share' / 'heads.jsonl'}",
        "git": f"git:{tmp_path / 'heads.git'}",
        "mlflow": f"mlflow:sqlite:///{tmp_path / 'server.db'}",
    }


@pytest.mark.parametrize("kind", ["file", "git", "mlflow"])
def test_an_anchor_notices_what_is_missing_on_a_machine_that_never_saw_it(
    registry, policies, tmp_path, monkeypatch, kind
):
    (tmp_path / "share").mkdir()
    address = anchors(tmp_path)[kind]
    with_champions(registry, policies[:1])
    registry.record.set_anchor(address)
    become("other", tmp_path, monkeypatch)
    registry.record.set_anchor(address)
    become("user", tmp_path, monkeypatch)
    registry.promote(policies[1], None, by="ann", override="better")
    assert registry.verify().anchor == address
    lines = registry.record.file.read_text().splitlines(keepends=True)
    registry.record.file.write_text("".join(lines[:2]))
    again = without_mlflow(registry, tmp_path)
    become("other", tmp_path, monkeypatch)
    for look in (lambda: again.verify(restore=True), lambda: again.roll_back(by="ann", reason="x")):
        with pytest.raises(
            TamperedRecord, match=r"ends with entry 2; expected at least 4 entries .stored at"
        ) as refused:
            look()
    become("third", tmp_path, monkeypatch)
    with pytest.raises(TamperedRecord, match="ends with entry 2"):
        again.record.set_anchor(address)
    become("other", tmp_path, monkeypatch)
    head = refused.value.remedy.split("--head ")[1].split()[0]
    again.accept(head, by="ann", reason="the backup is all there is")
    assert again.verify().head.number == 2
    again.promote(policies[1], None, by="ann", override="better")


def test_an_anchor_is_outside_and_answers(registry, policies, tmp_path, twinloop, monkeypatch):
    monkeypatch.chdir(registry.root)
    words = ("registry", "anchor")
    assert "there is no registry in" in twinloop(*words, f"file:{tmp_path}/heads")[2]
    with_champions(registry, policies[:1])
    for place in ("file:heads", "git:.", "mlflow:sqlite:///mlflow.db"):
        code, _, err = twinloop(*words, place)
        assert code == 2 and "is inside the workspace" in err
    assert "no kind of anchor is called 'ftp'" in twinloop(*words, "ftp:x")[2]
    assert "not the address of an anchor" in twinloop(*words, "heads")[2]
    code, _, err = twinloop(*words, f"git:{tmp_path}/nowhere.git")
    assert code == 1 and "git repository cannot be used" in err and "Traceback" not in err
    assert twinloop(*words, f"file:{tmp_path}/heads")[1] == f"anchor file:{tmp_path}/heads\n"
    assert twinloop(*words)[1] == f"anchor file:{tmp_path}/heads\n"
    (tmp_path / "heads").unlink()
    with pytest.raises(TamperedRecord, match="no longer has a head of this registry"):
        registry.verify()
    twinloop(*words, f"file:{tmp_path}/heads")
    assert registry.verify().anchor == f"file:{tmp_path}/heads"
    assert twinloop(*words, "none")[1] == "anchor none\n" and registry.verify().anchor is None


def test_a_torn_last_line_is_set_aside_by_the_command_that_the_error_names(
    registry, policies, twinloop, monkeypatch
):
    monkeypatch.chdir(registry.root)
    with_champions(registry, policies[:2])
    whole = registry.record.file.read_bytes()
    for torn, left in ((whole[-300:-40], True), (whole.splitlines()[-1][:-1], True), (b"", False)):
        registry.record.file.write_bytes(whole + torn)
        code, _, err = twinloop("rollback", "--by", "ann", "--reason", "x")
        if left:
            assert code == 1 and "entry 5 is incomplete" in err and "twinloop registry repair" in err
        code, out, err = twinloop("registry", "repair")
        assert code == 0 and ("set aside" in out) == left, err
        assert registry.record.file.read_bytes()[: len(whole)] == whole
    assert len(list(registry.folder.glob("record.torn-*"))) == 2
    assert registry.verify().head.number == 5, "the command without a torn line went through"


def test_an_entry_that_lacks_only_its_line_end_is_completed_and_counts(registry, policies):
    with_champions(registry, policies[:2])
    whole = registry.record.file.read_bytes()
    registry.record.file.write_bytes(whole[:-1])
    with pytest.raises(TamperedRecord, match="entry 4 is incomplete"):
        registry.verify()
    assert registry.record.repair() is None
    assert registry.record.file.read_bytes() == whole and registry.verify().head.number == 4
