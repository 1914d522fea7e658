"""Consent: uses nobody agreed to are refused, and a withdrawal leaves no byte of the person's episodes."""

import json
import os
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

import av
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.datasets.examples import STATE_ONLY, WITH_CAMERA, toy_episode
from twinloop.cli import app
from twinloop.consent.records import add_consent, load_consents
from twinloop.consent.require import check_consent, require_consent
from twinloop.consent.withdraw import load_tombstones, withdraw_consent
from twinloop.datasets.cache import cached_frames, cached_rows
from twinloop.datasets.commit import writer_lock
from twinloop.datasets.export import export
from twinloop.datasets.labels import add_labels
from twinloop.datasets.merge import merge
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.verify import verify
from twinloop.datasets.writer import make_dataset
from twinloop.episode import Provenance
from twinloop.errors import ConsentError, LockedDataset, UnknownName, WrongUse
from twinloop.testing import assert_same_episode
from twinloop.workspace import init_workspace

TODAY = date(2026, 6, 1)


def shown(seed, consent=None, person=None, schema=WITH_CAMERA, **more):
    """A demonstration by a person."""
    provenance = Provenance(
        source="real", actor="operator", consent=consent, actor_id=person, seed=seed, **more
    )
    return toy_episode(seed, rows=8 + seed % 3, schema=schema, provenance=provenance)


def write(path, episodes, schema=WITH_CAMERA):
    with make_dataset(path, schema) as writer:
        for episode in episodes:
            writer.add(episode)


@pytest.fixture
def workspace(tmp_path):
    root = init_workspace(tmp_path / "cell").root
    (root / "signed.pdf").write_bytes(b"I agree. Signed, somebody")
    return root


@pytest.fixture
def busy(workspace):
    """Two people in two datasets, of which one is a merge that shares video files with the other by hard links."""
    for name in ("one", "two"):
        add_consent(
            workspace, name, ["record", "train"], document=workspace / "signed.pdf", consent_id=f"c-{name}"
        )
    episodes = [shown(seed, "c-one" if seed % 3 == 1 else "c-two") for seed in range(7)]
    write(workspace / "data/a", episodes)
    write(workspace / "data/b", [shown(seed, "c-two") for seed in range(20, 23)])
    merge([workspace / "data/a", workspace / "data/b"], workspace / "data/merged")
    return workspace, episodes


def packets_of(root, number):
    """The encoded frames of one episode."""
    frames = open_dataset(root).episode(number).frames["front"]
    with av.open(str(frames.path)) as container:
        stream = container.streams.video[0]
        sizes = [bytes(packet) for packet in container.demux(stream) if packet.size]
    return [packet for packet in sizes[frames.first : frames.first + frames.count] if len(packet) > 24]


def everything(root):
    """All bytes of all files, and what Parquet files hold behind their compression."""
    content = []
    for path in sorted(root.rglob("*")):
        if path.is_file() and "tombstones" not in path.name:
            content.append(path.read_bytes())
            if path.suffix == ".parquet":
                table = pq.read_table(path, partitioning=None)
                content += [b.to_pybytes() for c in table.columns for k in c.chunks for b in k.buffers() if b]
                content.append(json.dumps(table.to_pylist(), default=str).encode())
    return b"\n".join(content)


def test_no_byte_of_the_removed_rows_and_frames_is_left_in_the_workspace(busy):
    workspace, episodes = busy
    for name in ("a", "merged"):
        dataset = open_dataset(workspace / "data" / name)
        cached_rows(dataset), cached_frames(dataset, "front")
    os.link(next((workspace / "data/a/videos").rglob("*.mp4")), workspace / "reports/copy.mp4")
    add_labels(workspace / "data/a", [episodes[1].id], {"success": True}, by="ann")
    gone, kept = [1, 4], [0, 2, 3, 5, 6]
    patterns = [packet for number in gone for packet in packets_of(workspace / "data/a", number)]
    kept_packets = {packet for number in kept for packet in packets_of(workspace / "data/a", number)}
    patterns = [packet for packet in patterns if packet not in kept_packets]
    for number in gone:
        episode = episodes[number]
        patterns += [episode.id.encode(), episode["observation.state"].tobytes(), episode.time_s.tobytes()]
        patterns += [episode["observation.force"].tobytes(), repr(float(episode.time_s[3])).encode()]
    before = everything(workspace)
    assert len(patterns) > 12 and all(pattern in before for pattern in patterns)
    withdraw_consent(workspace, "c-one", by="dpo", reason="asked by mail")
    after = everything(workspace)
    assert [pattern for pattern in patterns if pattern in after] == []
    assert b"c-one" in after and b'"one"' not in after, "the record stays, the pseudonym does not"
    assert all(packet in after for packet in kept_packets)
    assert not (workspace / "reports/copy.mp4").exists()


def test_what_is_kept_is_what_it_was_and_the_datasets_are_sound(busy):
    workspace, episodes = busy
    identity = open_dataset(workspace / "data/a").id
    withdraw_consent(workspace, "c-one", by="dpo", reason="asked")
    for name, expected in (
        ("a", episodes),
        ("merged", episodes + [shown(s, "c-two") for s in range(20, 23)]),
    ):
        dataset = open_dataset(workspace / "data" / name)
        assert verify(workspace / "data" / name).ok
        for got, want in zip(dataset, [e for e in expected if e.provenance.consent != "c-one"], strict=True):
            assert_same_episode(got, want)
    dataset = open_dataset(workspace / "data/a")
    assert dataset.id == identity
    assert [step.operation for step in dataset.manifest.history] == ["recorded", "withdrawn"]
    assert sorted(p.name for p in (workspace / "data").iterdir()) == ["a", "b", "merged"]


def test_the_tombstone_names_episodes_policies_and_files_to_look_at_and_no_person(busy):
    workspace, episodes = busy
    export(workspace / "data/a", workspace / "reports/all.parquet", "transitions")
    shutil.copy(workspace / "reports/all.parquet", workspace / "reports/by-hand.parquet")
    seen = {"id": open_dataset(workspace / "data/a").id, "version": "v"}
    for name, datasets in {
        "saw": [seen],
        "chose": [{**seen, "episodes": [episodes[0].id]}],
        "chose-them": [{**seen, "episodes": [episodes[4].id]}],
        "elsewhere": [{"id": "other", "version": "1"}],
    }.items():
        (workspace / "policies" / name).mkdir()
        (workspace / "policies" / name / "policy.json").write_text(json.dumps({"datasets": datasets}))
    (workspace / "policies/odd").mkdir()
    (workspace / "policies/odd/policy.json").write_text("{}")
    tombstone = withdraw_consent(workspace, "c-one", by="dpo", reason="asked")
    assert set(tombstone.episode_ids) == {episodes[1].id, episodes[4].id}
    assert {(p.name, p.certain) for p in tombstone.policies} == {
        ("saw", True),
        ("chose-them", True),
        ("odd", False),
    }
    assert tombstone.artefacts == ("reports/all.parquet",)
    assert [Path(path).name for path in tombstone.mentions] == ["by-hand.parquet"]
    assert [(Path(found.path).name, found.certain) for found in tombstone.found] == [
        ("by-hand.parquet", True)
    ]
    (line,) = load_tombstones(workspace)
    assert (line["by"], line["reason"], line["consent"]) == ("dpo", "asked", "c-one")
    assert {Path(removal["dataset"]).name for removal in line["removals"]} == {"a", "merged"}
    assert '"one"' not in (workspace / "consents/tombstones.jsonl").read_text()
    (workspace / "reports/by-hand.parquet").unlink()
    again = withdraw_consent(workspace, "c-one", by="dpo", reason="asked")
    assert again.found == () and again.is_complete and not list(workspace.glob("consents/withdrawing-*"))
    last = withdraw_consent(workspace, "c-one", by="dpo", reason="asked")
    assert last.removals == () and len(load_tombstones(workspace)) == 2


def test_what_derives_from_the_episodes_goes_with_them(workspace):
    add_consent(workspace, "one", ["train"], document=workspace / "signed.pdf", consent_id="c-one")
    own = shown(1, "c-one", schema=STATE_ONLY)
    child = toy_episode(2, provenance=Provenance(source="sim", parents=(own.id,)))
    grandchild = toy_episode(3, provenance=Provenance(source="sim", parents=(child.id,)))
    unnamed = shown(4, None, person="one", schema=STATE_ONLY)
    write(workspace / "data/real", [own, unnamed, shown(5, "c-two", schema=STATE_ONLY)], STATE_ONLY)
    write(workspace / "data/sim", [grandchild, child, toy_episode(9)], STATE_ONLY)
    tombstone = withdraw_consent(workspace, "c-one", by="dpo", reason="asked")
    assert set(tombstone.episode_ids) == {own.id, child.id, grandchild.id, unnamed.id}
    assert len(open_dataset(workspace / "data/real")) == len(open_dataset(workspace / "data/sim")) == 1


def test_a_dataset_that_was_all_one_person_becomes_empty(workspace):
    add_consent(workspace, "one", ["train"], document=workspace / "signed.pdf", consent_id="c-one")
    write(workspace / "data/a", [shown(seed, "c-one") for seed in range(3)])
    withdraw_consent(workspace, "c-one", by="dpo", reason="asked")
    assert len(open_dataset(workspace / "data/a")) == 0
    assert list((workspace / "data/a").rglob("*.mp4")) == []


def test_nothing_is_removed_while_a_dataset_is_being_recorded(busy):
    workspace, episodes = busy
    with writer_lock(workspace / "data/merged"), pytest.raises(LockedDataset):
        withdraw_consent(workspace, "c-one", by="dpo", reason="asked")
    assert len(open_dataset(workspace / "data/a")) == len(episodes)
    withdraw_consent(workspace, "c-one", by="dpo", reason="asked")


KILLED = """
import os, shutil, sys
from pathlib import Path
from twinloop.consent import removal, withdraw
left = int(sys.argv[2])
def deadly(function):
    def call(*a, **k):
        global left
        left -= 1
        if left < 0:
            os._exit(9)
        return function(*a, **k)
    return call
Path.rename = deadly(Path.rename)
removal.shutil.rmtree = deadly(shutil.rmtree)
withdraw.append_jsonl = deadly(withdraw.append_jsonl)
withdraw.delete_pseudonym = deadly(withdraw.delete_pseudonym)
withdraw.withdraw_consent(Path(sys.argv[1]), "c-one", by="dpo", reason="asked")
"""


def test_a_withdrawal_that_is_killed_anywhere_is_finished_by_running_it_again(workspace):
    add_consent(workspace, "one", ["train"], document=workspace / "signed.pdf", consent_id="c-one")
    codes = []
    for step in (1, 3, 4, 6, 11, 40):
        consents = (workspace / "consents/consents.jsonl").read_text()
        own = [shown(100 * step + seed, "c-one", schema=STATE_ONLY) for seed in range(2)]
        other = [shown(100 * step + seed, "c-two", schema=STATE_ONLY) for seed in range(50, 52)]
        for name in ("x", "y"):
            write(workspace / f"data/{name}{step}", [own[0], other[0], own[1], other[1]], STATE_ONLY)
        done = subprocess.run([sys.executable, "-c", KILLED, str(workspace), str(step)], capture_output=True)
        codes.append(done.returncode)
        assert done.returncode in (0, 9), done.stderr.decode()
        withdraw_consent(workspace, "c-one", by="dpo", reason="asked")
        for name in ("x", "y"):
            left = open_dataset(workspace / f"data/{name}{step}")
            assert [episode.id for episode in left] == [episode.id for episode in other]
        assert not [path for path in workspace.rglob(".*") if path.name != ".lock"]
        assert not list(workspace.glob("consents/withdrawing-*"))
        recorded = {
            e for line in load_tombstones(workspace) for r in line["removals"] for e in r["episode_ids"]
        }
        assert {episode.id for episode in own} <= recorded
        assert load_consents(workspace)["c-one"].pseudonym == ""
        (workspace / "consents/consents.jsonl").write_text(consents)
        for name in ("x", "y"):
            shutil.rmtree(workspace / f"data/{name}{step}")
    assert codes[0] == 9 and codes[-1] == 0


def test_episodes_without_a_valid_consent_for_the_use_are_refused_with_the_reason(workspace):
    signed = workspace / "signed.pdf"
    add_consent(
        workspace, "p1", ["record", "train"], document=signed, given=date(2026, 1, 1), consent_id="good"
    )
    add_consent(workspace, "p2", ["record"], document=signed, given=date(2026, 1, 1), consent_id="narrow")
    add_consent(
        workspace,
        "p3",
        ["train"],
        document=signed,
        given=date(2025, 1, 1),
        expires=date(2026, 5, 31),
        consent_id="old",
    )
    add_consent(workspace, "p4", ["train"], document=signed, given=date(2026, 1, 1), consent_id="back")
    withdraw_consent(workspace, "back", by="dpo", reason="asked")
    names = ["good", "narrow", "old", "back", None, "nobody"]
    episodes = [shown(seed, name, schema=STATE_ONLY) for seed, name in enumerate(names)]
    episodes += [toy_episode(10), toy_episode(11, provenance=Provenance(source="real", actor="policy"))]
    write(workspace / "data/a", episodes, STATE_ONLY)
    dataset = open_dataset(workspace / "data/a")
    reasons = {o.episode: o.reason for o in check_consent(dataset, "train", workspace, TODAY)}
    assert sorted(reasons) == [1, 2, 3, 4, 5]
    for episode, words in enumerate(
        ["not for train", "expired on 2026-05-31", "withdrawn on", "no consent", "not in"]
    ):
        assert words in reasons[episode + 1]
    with pytest.raises(ConsentError, match="5 of 8 episodes have no valid consent"):
        require_consent(dataset, "train", workspace, TODAY)
    assert 2 not in {o.episode for o in check_consent(dataset, "train", workspace, date(2026, 5, 31))}
    with pytest.raises(UnknownName, match="did you mean 'train'"):
        require_consent(dataset, "trian", workspace, TODAY)


def test_a_dataset_without_people_needs_no_consent(workspace):
    write(workspace / "data/sim", [toy_episode(seed) for seed in range(3)], STATE_ONLY)
    require_consent(open_dataset(workspace / "data/sim"), "publish", workspace, TODAY)


def test_a_consent_needs_a_pseudonym_a_known_scope_and_a_document(workspace):
    signed = workspace / "signed.pdf"
    for name in ("Ann Smith", "ann@example.org", ""):
        with pytest.raises(WrongUse, match="pseudonyms"):
            add_consent(workspace, name, ["train"], document=signed)
    with pytest.raises(UnknownName, match="use"):
        add_consent(workspace, "p1", ["sell"], document=signed)
    with pytest.raises(WrongUse, match="cannot be read"):
        add_consent(workspace, "p1", ["train"], document=workspace / "missing.pdf")
    with pytest.raises(WrongUse, match="expire before"):
        add_consent(workspace, "p1", ["train"], document=signed, given=TODAY, expires=date(2026, 1, 1))
    assert add_consent(workspace, "p1", ["train"], document=signed).id == "c0001"
    assert add_consent(workspace, "p1", ["train"], document=signed).id == "c0002"
    with pytest.raises(WrongUse, match="already"):
        add_consent(workspace, "p1", ["train"], document=signed, consent_id="c0001")


def test_consent_from_the_command_line(workspace, monkeypatch):
    def twinloop(*words, code=0):
        done = CliRunner().invoke(app, ["data", "consent", *words, *place])
        assert done.exit_code == code, done.output
        return done.output

    place = ["--workspace", str(workspace)]
    monkeypatch.chdir(workspace)
    added = twinloop("add", "op-1", "--scope", "record,train", "--document", "signed.pdf", "--json")
    identity = json.loads(added)["id"]
    write(workspace / "data/a", [shown(1, identity, schema=STATE_ONLY), toy_episode(2)], STATE_ONLY)
    assert "op-1" in twinloop("ls")
    assert "may be used to train" in twinloop("check", "data/a")
    assert "not for publish" in twinloop("check", "data/a", "--use", "publish", code=1)
    assert "1 episode and 0 artefacts removed" in twinloop(
        "withdraw", identity, "--by", "dpo", "--reason", "asked"
    )
    assert "op-1" not in twinloop("ls")
    wrong = CliRunner().invoke(
        app,
        ["data", "consent", "add", "op-2", "--scope", "train", "--document", "signed.pdf", "--until", "soon"],
    )
    assert isinstance(wrong.exception, WrongUse) and "YYYY-MM-DD" in str(wrong.exception)
