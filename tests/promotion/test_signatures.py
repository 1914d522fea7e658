"""Whoever can write the workspace, and nothing else, can neither forge the record nor take anything away from it."""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="needs: pip install 'twinloop[learn]'")
pytest.importorskip("cryptography", reason="needs: pip install 'twinloop[learn]'")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.promotion.conftest import make
from twinloop.errors import GateError, TamperedRecord, WrongUse
from twinloop.promotion import keys
from twinloop.promotion.chain import append_entry, head_of, make_entry, read_chain
from twinloop.promotion.keys import (
    SigningKey,
    distrust_key,
    find_signing_key,
    list_keys,
    make_key,
    read_public_key,
    trust_key,
)
from twinloop.promotion.mirror import HEAD_TAG, MODEL
from twinloop.promotion.record import read_aliases
from twinloop.promotion.registry import PolicyRegistry
from twinloop.workspace import init_workspace

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def user(tmp_path, monkeypatch):
    """A user's folder of its own."""
    return become("user", tmp_path, monkeypatch)


def become(name, tmp_path, monkeypatch):
    """Be somebody else, or the same person on another machine."""
    folder = tmp_path / name
    monkeypatch.setenv("TWINLOOP_CONFIG", str(folder))
    return folder


@pytest.fixture
def registry(tmp_path, empty):
    return make(tmp_path / "cell", empty)


def with_champions(registry, policies):
    for policy in policies:
        registry.promote(policy, None, by="ann", override="better")
    return registry


def without_mlflow(registry, tmp_path):
    """The same folder, with an empty database: MLflow keeps the one that was deleted open in this process."""
    return PolicyRegistry(registry.root, f"sqlite:///{tmp_path}/{time.monotonic_ns()}.db")


def forge(registry, policy_id, key=None):
    """A promotion, recorded by somebody who can write the workspace: every hash is right."""
    entries = read_chain(registry.record.file)
    last = entries[-1].details
    version = next(e.details["version"] for e in entries if e.details.get("policy_id") == policy_id)
    details = {
        "version": version,
        "policy": "p0",
        "policy_id": policy_id,
        "stage": "full",
        "fraction": None,
        "from": last["aliases"]["champion"],
        "aliases": {**last["aliases"], "champion": version},
        "decision": "promote",
        "override": "trust me",
    }
    entry = make_entry(entries, "promote", "ann", details, "0" * 16, key)
    append_entry(registry.record.file, entry)
    return entry


def follow_in_mlflow(registry, entry):
    """What the forger also does in MLflow's database, which lies in the workspace."""
    client = registry._mirror._client
    client.set_registered_model_alias(MODEL, "champion", entry.details["aliases"]["champion"])
    client.set_registered_model_tag(MODEL, HEAD_TAG, f"{entry.number}:{entry.hash}")


def stranger():
    return SigningKey("ann", Ed25519PrivateKey.generate())


def as_ann(entry):
    """An entry that claims to be signed by the key that a registry trusts."""
    ann = next(iter(keys.trusted_keys()))
    return replace(entry, key=ann, signature=stranger().sign(entry.hash))


FORGERIES = {
    "unsigned": (None, "entry 5, promote by ann, is not signed"),
    "by a stranger": (stranger, "was signed by a key that you do not trust"),
}


@pytest.mark.parametrize("with_mlflow", [False, True])
@pytest.mark.parametrize("how", FORGERIES)
def test_a_forged_promotion_with_the_right_hash_is_never_carried_out(
    registry, policies, tmp_path, how, with_mlflow
):
    make_key("ann")
    with_champions(registry, policies[:2])
    key, message = FORGERIES[how]
    entry = forge(registry, policies[0].id, key() if key else None)
    if with_mlflow:
        follow_in_mlflow(registry, entry)
    for look in (
        registry.verify,
        lambda: registry.verify(restore=True),
        lambda: registry.policy("champion"),
        lambda: registry.roll_back(by="ann", reason="x"),
        lambda: registry.promote(policies[2], None, by="ann", override="x"),
    ):
        with pytest.raises(TamperedRecord, match=message):
            look()
    assert message.split(",")[-1] in read_aliases(tmp_path / "cell")["problem"]
    assert len(read_chain(registry.record.file)) == 5, "nobody wrote on"
    assert registry._mirror.aliases()["champion"] == ("1" if with_mlflow else "2")


def test_a_signature_of_something_else_does_not_count(registry, policies):
    make_key("ann")
    with_champions(registry, policies[:2])
    entries = read_chain(registry.record.file)
    entry = forge(registry, policies[0].id)
    lines = registry.record.file.read_text().splitlines(keepends=True)
    claimed = json.loads(lines[-1]) | {"key": entries[0].key, "signature": entries[0].signature}
    lines[-1] = json.dumps(claimed) + "\n"
    registry.record.file.write_text("".join(lines))
    with pytest.raises(TamperedRecord, match="entry 5 was edited"):
        registry.verify()
    signed = make_entry(entries, "promote", "ann", entry.details, "0" * 16, find_signing_key("ann"))
    false = replace(signed, signature=entries[0].signature)
    registry.record.file.write_text("".join(lines[:-1]))
    append_entry(registry.record.file, false)
    with pytest.raises(TamperedRecord, match="claims to be signed by ann, but was not"):
        registry.verify()


def test_a_record_whose_signatures_were_taken_out_is_refused(registry, policies):
    make_key("ann")
    with_champions(registry, policies[:2])
    rewritten = []
    for entry in read_chain(registry.record.file):
        rewritten.append(make_entry(rewritten, entry.action, entry.by, entry.details, entry.intent, None))
    registry.record.file.write_text("".join(json.dumps(asdict(e)) + "\n" for e in rewritten))
    follow_in_mlflow(registry, rewritten[-1])
    with pytest.raises(TamperedRecord, match="was rewritten: entry 4 differs"):
        registry.verify(restore=True)


def test_the_registry_of_another_workspace_is_refused_although_it_is_signed(
    registry, policies, tmp_path, empty
):
    make_key("ann")
    with_champions(registry, policies[:2])
    other = with_champions(make(tmp_path / "trial", empty), policies)
    shutil.rmtree(registry.folder)
    shutil.copytree(other.folder, registry.folder)
    with pytest.raises(TamperedRecord, match="was rewritten: entry 4 differs"):
        PolicyRegistry(registry.root, other.uri).verify(restore=True)


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


@pytest.mark.parametrize(("umask", "allowed"), [(0o000, 0o770), (0o022, 0o750), (0o077, 0o700)])
def test_others_can_read_neither_the_registry_nor_keys_whatever_the_umask(
    tmp_path, policies, user, umask, allowed
):
    before = os.umask(umask)
    try:
        make_key("ann")
        (tmp_path / "cell").mkdir()
        with_champions(PolicyRegistry(tmp_path / "cell"), policies[:1]).verify()
    finally:
        os.umask(before)
    assert (user / "keys" / "ann.pem").stat().st_mode & 0o777 == 0o600
    for path in (user, user / "keys", user / "trusted", user / "registries"):
        assert path.stat().st_mode & 0o077 == 0, path
    assert (tmp_path / "cell" / "mlflow.db").stat().st_mode & 0o007 == 0
    found = [tmp_path / "cell" / "registry", *(tmp_path / "cell" / "registry").rglob("*")]
    assert len(found) > 6
    for path in found:
        assert path.stat().st_mode & 0o777 & ~allowed == 0, (path, oct(path.stat().st_mode))


def test_keys_are_kept_apart_and_chosen_by_name(tmp_path, user, monkeypatch, twinloop):
    assert "none; registries are unsigned" in twinloop("key", "ls")[1]
    assert find_signing_key("eve") is None
    code, out, err = twinloop("key", "new", "ann")
    assert code == 0 and "ssh-ed25519 AAAA" in out, err
    assert "there is a key 'ann' already" in twinloop("key", "new", "ann")[2]
    assert "bad name of a key" in twinloop("key", "new", "../ann")[2]
    assert find_signing_key("eve").name == "ann", "the only one"
    make_key("lab-pc")
    assert find_signing_key("ann").name == "ann"
    with pytest.raises(WrongUse, match="several keys to sign with; available: ann, lab-pc"):
        find_signing_key("eve")
    monkeypatch.setenv("TWINLOOP_KEY", "lab-pc")
    assert find_signing_key("ann").name == "lab-pc"
    private = user / "keys" / "lab-pc.pem"
    private.chmod(0o640)
    with pytest.raises(WrongUse, match="others can read this private key"):
        find_signing_key("ann")
    private.chmod(0o600)
    line = twinloop("key", "show", "ann")[1]
    (tmp_path / "ann.pub").write_text(line)
    become("ben", tmp_path, monkeypatch)
    assert "trusted ann" in twinloop("key", "trust", tmp_path / "ann.pub")[1]
    assert json.loads(twinloop("key", "ls", "--json")[1])[0]["public"] == line.strip()
    monkeypatch.delenv("TWINLOOP_KEY")
    make_key("ben")
    (tmp_path / "other.pub").write_text(stranger().public.line)
    assert "another key is trusted as 'ann'" in twinloop("key", "trust", tmp_path / "other.pub")[2]
    (tmp_path / "bad.pub").write_text("ssh-rsa AAAA ann")
    assert "is not a public key" in twinloop("key", "trust", tmp_path / "bad.pub")[2]
    assert twinloop("key", "distrust", "ann")[0] == 0 and [k.name for k in list_keys()] == ["ben"]
    assert "no trusted key is called 'ann'" in twinloop("key", "distrust", "ann")[2]


def test_openssh_reads_the_public_key(tmp_path):
    if shutil.which("ssh-keygen") is None:
        pytest.skip("needs ssh-keygen")
    (tmp_path / "ann.pub").write_text(make_key("ann").line)
    done = subprocess.run(["ssh-keygen", "-l", "-f", tmp_path / "ann.pub"], capture_output=True, text=True)
    assert done.returncode == 0 and "ED25519" in done.stdout


def test_keys_inside_the_workspace_are_refused(tmp_path, policies, empty, monkeypatch):
    monkeypatch.setenv("TWINLOOP_CONFIG", str(tmp_path / "cell" / ".twinloop"))
    with pytest.raises(WrongUse, match="is inside the workspace: whoever can write it could sign"):
        make(tmp_path / "cell", empty)


def test_a_registered_policy_that_was_exchanged_is_not_deployed(registry, policies):
    make_key("ann")
    with_champions(registry, policies[:2])
    place = registry.folder / "policies" / policies[1].id
    policies[1].with_name("other").save(place)
    with pytest.raises(TamperedRecord, match="is not the file that was recorded"):
        registry.policy("champion")


def test_entries_that_do_not_follow_from_those_before_are_refused_even_if_signed(registry, policies):
    key = make_key("ann")
    assert key.trusted
    with_champions(registry, policies[:2])
    entries = read_chain(registry.record.file)
    good = entries[-1].details
    whole = registry.record.file.read_bytes()
    for action, change in {
        "promote": {"aliases": {"champion": "2", "challenger": "1", "shadow": None}},
        "rollback": {"version": "9"},
        "withdraw": {"stage": "shadow"},
        "register": {"version": "3", "policy_id": "../../etc"},
        "dance": {},
    }.items():
        entry = make_entry(entries, action, "ann", {**good, **change}, "0" * 16, find_signing_key("ann"))
        append_entry(registry.record.file, entry)
        with pytest.raises(TamperedRecord, match="entry 5 of the record does not follow"):
            registry.verify()
        registry.record.file.write_bytes(whole)
    for line in (b"[1]\n", b'{"number": 1}\n', b"[" * 100_000 + b"\n", b"\xff\xfe\n"):
        registry.record.file.write_bytes(whole + line)
        with pytest.raises(TamperedRecord, match="entry 5 cannot be read"):
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
