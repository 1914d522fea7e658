"""Whose episodes a workspace holds, under which consent, and what a withdrawal would remove."""

import json
from datetime import date

import pytest

from tests.datasets.test_consent import shown, write
from twinloop.consent.people import survey_people
from twinloop.consent.records import add_consent, load_consents
from twinloop.consent.withdraw import plan_withdrawal, withdraw_consent
from twinloop.datasets.reader import open_dataset
from twinloop.workspace import init_workspace

TODAY = date(2026, 6, 1)


@pytest.fixture
def workspace(tmp_path):
    """Two consents, of which one ends soon, and a person without one."""
    root = init_workspace(tmp_path / "cell").root
    (root / "signed.pdf").write_bytes(b"I agree")
    for name, expires in (("ada", None), ("bob", date(2026, 6, 20))):
        add_consent(
            root, name, ["record", "train"], document=root / "signed.pdf", consent_id=f"c-{name}",
            given=date(2026, 1, 1), expires=expires,
        )  # fmt: skip
    write(root / "data/a", [shown(1, "c-ada"), shown(2, "c-bob"), shown(3, "c-bob")])
    write(root / "data/b", [shown(4, None, "eve"), shown(5, None, "ada")])
    return root


def test_every_person_is_listed_with_consent_standing_and_episodes(workspace):
    found = survey_people(workspace, TODAY)
    assert [(one.person, one.consent, one.standing, one.episodes) for one in found] == [
        ("ada", "c-ada", "valid", 2),
        ("bob", "c-bob", "expires soon", 2),
        ("eve", None, "no consent", 1),
    ]
    assert found[0].datasets == {"data/a": 1, "data/b": 1}
    assert [one.standing for one in survey_people(workspace, date(2026, 7, 1))][:2] == ["valid", "expired"]
    assert survey_people(workspace, date(2025, 7, 1))[0].standing == "not yet valid"


def test_a_dry_run_says_what_a_withdrawal_removes_and_changes_nothing(workspace, twinloop, monkeypatch):
    seen = {"id": open_dataset(workspace / "data/a").id, "version": "v"}
    policy = workspace / "loop/train-1/first/policy.json"
    policy.parent.mkdir(parents=True)
    policy.write_text(json.dumps({"datasets": [seen]}))
    planned = plan_withdrawal(workspace, "c-bob")
    assert [one.name for one in planned.policies] == ["first"] and len(planned.episode_ids) == 2
    assert (
        load_consents(workspace)["c-bob"].withdrawn is None and len(open_dataset(workspace / "data/a")) == 3
    )
    monkeypatch.chdir(workspace)
    code, text, _ = twinloop("data", "consent", "withdraw", "c-bob", "--dry-run")
    assert code == 0 and "2 episodes would be removed" in text and "policy first stays" in text
    done = withdraw_consent(workspace, "c-bob", by="dpo", reason="asked")
    assert done.episode_ids == planned.episode_ids and done.policies == planned.policies
    [gone] = [one for one in survey_people(workspace, TODAY) if one.consent == "c-bob"]
    assert (gone.person, gone.standing, gone.episodes) == ("", "withdrawn", 0)
    code, text, _ = twinloop("data", "consent", "people")
    assert code == 0 and "withdrawn" in text and "no consent" in text
