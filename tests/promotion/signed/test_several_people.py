"""Who wrote what in a record that several people, or processes, write."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.promotion.signed.people import (
    become,
    follow_in_mlflow,
    forge,
    with_champions,
)
from twinloop.errors import GateError, TamperedRecord, WrongUse
from twinloop.promotion.chain import head_of, read_chain
from twinloop.promotion.keys import (
    distrust_key,
    make_key,
    read_public_key,
    trust_key,
)
from twinloop.promotion.registry import PolicyRegistry

pytestmark = pytest.mark.filterwarnings("ignore")


def test_without_keys_a_user_notices_what_somebody_else_wrote_and_is_warned(
    registry, policies, twinloop, monkeypatch
):
    monkeypatch.chdir(registry.root)
    policies[0].save("policies/p0")
    code, _, err = twinloop("promote", "policies/p0", "--by", "ann", "--override", "first")
    assert code == 0 and "UNSIGNED" in err
    registry.promote(policies[1], None, by="ann", override="better")
    code, out, err = twinloop("registry", "verify")
    assert code == 0 and "intact: 4 entries" in out and "UNSIGNED" in err
    entry = forge(registry, policies[0].id)
    for change in (None, follow_in_mlflow):
        if change:
            change(registry, entry)
        for look in (registry.verify, lambda: registry.roll_back(by="ann", reason="x")):
            with pytest.raises(TamperedRecord, match="entry 5, promote by ann, is not yours"):
                look()
    assert "is not yours" in twinloop("registry", "verify")[2]
    head = str(head_of(read_chain(registry.record.file)))
    words = ("registry", "accept", "--by", "ann", "--reason", "ben told me", "--head")
    assert "not the one that was examined" in twinloop(*words, f"4:{entry.previous}")[2]
    code, out, err = twinloop(*words, head)
    assert code == 0, err
    assert registry.verify().head.number == 5 and registry.state().aliases["champion"] == "1"


def test_what_was_written_before_there_was_a_key_counts_once_it_is_accepted(registry, policies, twinloop):
    with_champions(registry, policies[:2])
    make_key("ann")
    with pytest.raises(TamperedRecord, match="entry 1, register by ann, is not signed") as refused:
        registry.verify()
    head = refused.value.remedy.split("--head ")[1].split()[0]
    registry.accept(head, by="ann", reason="my own")
    found = registry.verify().signatures
    assert (found.signed, found.accepted, found.unsigned, found.keys) == (1, 4, 0, ("ann",))
    code, out, err = twinloop("registry", "log", "--workspace", registry.root)
    assert code == 0 and "accepted the record as it was: my own" in " ".join(out.split()), err
    registry.roll_back(by="ann", reason="x")
    forge(registry, policies[1].id)
    with pytest.raises(TamperedRecord, match="entry 7, promote by ann, is not signed"):
        registry.verify()


def test_two_people_trust_each_other_and_one_leaves(registry, policies, tmp_path, monkeypatch):
    anns = tmp_path / "ann.pub"
    anns.write_text(make_key("ann").line)
    registry.promote(policies[0], None, by="ann", override="first")
    become("ben", tmp_path, monkeypatch)
    bens = tmp_path / "ben.pub"
    bens.write_text(make_key("ben").line)
    with pytest.raises(TamperedRecord, match="a key that you do not trust") as refused:
        registry.verify()
    assert "twinloop key trust FILE" in refused.value.remedy
    trust_key(read_public_key(anns))
    registry.promote(policies[1], None, by="ben", override="better")
    become("user", tmp_path, monkeypatch)
    trust_key(read_public_key(bens))
    assert registry.verify().signatures.keys == ("ann", "ben")
    distrust_key("ben")
    with pytest.raises(TamperedRecord, match="entry 3, register by ben, was signed by a key that you do not"):
        registry.verify()
    head = str(head_of(read_chain(registry.record.file)))
    registry.accept(head, by="ann", reason="ben left; I was there")
    assert registry.verify().signatures.accepted == 2
    assert registry.roll_back(by="ann", reason="x").entry.details["version"] == "1"


def test_who_trusts_keys_no_longer_is_told_so(registry, policies):
    make_key("ann")
    with_champions(registry, policies[:2])
    distrust_key("ann")
    with pytest.raises(TamperedRecord, match="was signed when it was last seen, and you trust no keys"):
        registry.verify()


def test_a_user_who_trusts_keys_and_has_none_cannot_change_the_registry(
    registry, policies, tmp_path, monkeypatch
):
    line = make_key("ann").line
    become("ben", tmp_path, monkeypatch)
    Path(tmp_path / "ann.pub").write_text(line)
    trust_key(read_public_key(tmp_path / "ann.pub"))
    with pytest.raises(WrongUse, match="you trust keys, but have none to sign with"):
        registry.promote(policies[0], None, by="ben", override="first")
    assert not registry.record.file.exists()
    with pytest.raises(GateError):
        registry.policy("champion")


def test_a_command_that_is_typed_again_does_nothing_and_a_second_rollback_is_asked_for(
    registry, policies, twinloop, monkeypatch
):
    monkeypatch.chdir(registry.root)
    with_champions(registry, policies)
    words = ("rollback", "--by", "eve", "--reason", "drops the cup")
    assert "rolled back from version 3 to 2" in twinloop(*words)[1]
    code, out, _ = twinloop(*words)
    assert code == 0 and "nothing changed" in out and "rollback --from 2" in out
    assert json.loads(twinloop(*words, "--json")[1])["how"] == "repeated"
    code, _, err = twinloop(*words, "--from", "3")
    assert code == 1 and "version 3 is not the champion" in err
    assert "rolled back from version 2 to 1" in twinloop(*words, "--from", "2")[1]
    assert "nothing changed" in twinloop(*words, "--from", "2")[1]
    assert registry.state().champions == ("1",) and registry.verify().head.number == 8


def test_two_processes_that_promote_at_once_are_both_recorded_one_after_the_other(policies, tmp_path, empty):
    make_key("lab-pc")
    root = tmp_path / "cell"
    root.mkdir()
    shutil.copyfile(empty, root / "mlflow.db")
    begin, started = os.pipe(), []
    for policy, by in zip(policies[:2], ("ann", "ben"), strict=True):
        child = os.fork()
        if child == 0:
            try:
                registry = PolicyRegistry(root)
                os.read(begin[0], 1)
                registry.promote(policy, None, by=by, override="at once")
            finally:
                os._exit(1 if sys.exc_info()[0] else 0)
        started.append(child)
    os.write(begin[1], b"go")
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in started] == [0, 0]
    registry = PolicyRegistry(root)
    entries = registry.entries()
    assert [e.action for e in entries] == ["register", "promote"] * 2
    assert {e.by for e in entries} == {"ann", "ben"} and registry.verify().signatures.keys == ("lab-pc",)
    assert registry.state().champions == ("1", "2")
