"""Whoever can write the workspace, and nothing else, cannot forge the record."""

import json
import shutil
from dataclasses import asdict, replace

import pytest

from tests.promotion.conftest import make
from tests.promotion.signed.people import (
    follow_in_mlflow,
    forge,
    stranger,
    with_champions,
)
from twinloop.errors import TamperedRecord
from twinloop.promotion.chain import append_entry, make_entry, read_chain
from twinloop.promotion.keys import (
    find_signing_key,
    make_key,
)
from twinloop.promotion.record import read_aliases
from twinloop.promotion.registry import PolicyRegistry

pytestmark = pytest.mark.filterwarnings("ignore")


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
