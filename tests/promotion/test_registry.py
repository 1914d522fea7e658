"""The registry: who may come in, the way back, and a record that shows whatever was done to it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import twinloop as tl
from tests.learning.examples import Standin
from tests.promotion.conftest import make
from twinloop.errors import GateError, TamperedRecord, WrongUse
from twinloop.learning.tracking import DATABASE
from twinloop.promotion.champion import find_champion, promote
from twinloop.promotion.checks import CHECKS, Check
from twinloop.promotion.evidence import Evidence, PairedTrial
from twinloop.promotion.mirror import MODEL, MlflowMirror
from twinloop.promotion.release import load_shadow
from twinloop.promotion.rules import Rules
from twinloop.promotion.run import make_contender
from twinloop.promotion.statistics import measure
from twinloop.promotion.verdict import decide
from twinloop.workspace import init_workspace

pytest.importorskip("sqlalchemy", reason="needs: pip install 'twinloop[learn]'")
pytestmark = pytest.mark.filterwarnings("ignore")


PASSED = tuple(Check(name, "passed", "fine") for name in CHECKS.names())


@pytest.fixture
def registry(tmp_path, empty):
    return make(tmp_path, empty)


def judged(folder, candidate, champion=None, gain=0.5, rules=None, **more):
    """A verdict on forty trials, with its evidence beside it."""
    rng = np.random.default_rng(0)
    trials = tuple(
        PairedTrial(k, bool(rng.random() < 0.45 + gain), bool(rng.random() < 0.4) if champion else None)
        for k in range(60)
    )
    rules = rules or Rules(threshold=0.6)
    found = Evidence(
        make_contender(candidate),
        make_contender(champion) if champion else None,
        {"hash": "x"},
        (),
        trials,
        "r1",
    )
    if rules.simulation_only:
        found = replace(found, simulated=trials, real=())
    folder.mkdir(parents=True, exist_ok=True)
    found.save(folder)
    return decide(found, measure(found, rules), rules, PASSED).save(folder)


def with_two_champions(registry, policies, folder):
    first, second = policies[:2]
    registry.promote(first, judged(folder / "a", first), by="ann")
    registry.promote(second, judged(folder / "b", second, first), by="ben")
    return registry


def test_only_a_verdict_that_promotes_lets_a_policy_in(registry, policies, tmp_path):
    first, second, third = policies
    with pytest.raises(GateError, match="has no verdict"):
        registry.promote(first, None, by="ann")
    refused = judged(tmp_path / "r", first, gain=0.0)
    with pytest.raises(GateError, match="the verdict on p0 is 'refuse'"):
        registry.promote(first, refused, by="ann")
    with pytest.raises(GateError, match="about another policy"):
        registry.promote(second, judged(tmp_path / "a", first), by="ann")
    assert registry.entries() == [], "what was refused leaves no trace"
    registry.promote(first, judged(tmp_path / "a", first), by="ann")
    with pytest.raises(GateError, match="not against the current champion"):
        registry.promote(third, judged(tmp_path / "c", third, second), by="ann")
    with pytest.raises(GateError, match="simulation only"):
        registry.promote(
            second, judged(tmp_path / "s", second, first, rules=Rules(simulation_only=True)), by="ann"
        )
    assert registry.policy("champion").id == first.id
    with pytest.raises(GateError, match="there is no shadow"):
        registry.policy("shadow")


def test_a_verdict_that_was_edited_or_does_not_follow_from_its_evidence_is_found_out(
    registry, policies, tmp_path
):
    file = judged(tmp_path / "a", policies[0], gain=0.0)
    words = json.loads(file.read_text())
    file.write_text(json.dumps(words | {"decision": "promote"}))
    with pytest.raises(GateError, match="its evidence gives 'refuse'"):
        registry.promote(policies[0], file, by="ann")
    file.write_text(json.dumps(words | {"decision": "promote", "checks": []}))
    with pytest.raises(GateError, match="lacks checks: artefacts, attempts, consent, drift"):
        registry.promote(policies[0], file, by="ann")
    other = judged(tmp_path / "b", policies[0])
    other.with_name("evidence.json").write_text((tmp_path / "a" / "evidence.json").read_text())
    with pytest.raises(GateError, match="does not belong to the evidence next to it"):
        registry.promote(policies[0], other, by="ann")


def test_an_override_is_recorded_with_name_and_reason(registry, policies, tmp_path):
    refused = judged(tmp_path / "r", policies[0], gain=0.0)
    with pytest.raises(WrongUse, match="needs a name"):
        registry.promote(policies[0], refused, by=" ", override="demo")
    with pytest.raises(WrongUse, match="an override needs a reason"):
        registry.promote(policies[0], refused, by="ann", override="  ")
    entry = registry.promote(policies[0], refused, by="ann", override="the only one we have").entry
    assert entry.by == "ann" and entry.details["override"] == "the only one we have"
    assert "is 'refuse'" in entry.details["overrides"] and entry.details["decision"] == "refuse"


def test_rolling_back_restores_the_champion_before_and_is_recorded(registry, policies, tmp_path):
    with_two_champions(registry, policies, tmp_path)
    assert registry.policy("champion").id == policies[1].id
    entry = registry.roll_back(by="eve", reason="drops the cup").entry
    assert registry.policy("champion").id == policies[0].id
    assert entry.details["reason"] == "drops the cup" and registry.entries()[-1] == entry
    with pytest.raises(GateError, match="no earlier champion"):
        registry.roll_back(by="eve", reason="again")
    registry.promote(policies[1], judged(tmp_path / "b2", policies[1], policies[0]), by="ben")
    assert registry.state().champions == ("1", "2") and len(registry.versions()) == 2
    assert registry.verify().head.number == len(registry.entries())


def test_who_becomes_champion_again_is_no_longer_shadow(registry, policies, tmp_path):
    with_two_champions(registry, policies, tmp_path)
    registry.promote(policies[0], None, by="ben", stage="shadow", override="look at the old one again")
    assert registry.state().aliases["shadow"] == "1"
    registry.roll_back(by="eve", reason="drops the cup")
    assert registry.state().aliases == {"champion": "1", "challenger": None, "shadow": None}
    registry.verify()


def test_mlflow_shows_versions_aliases_and_the_verdict(registry, policies, tmp_path):
    with_two_champions(registry, policies, tmp_path)
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=registry.uri, registry_uri=registry.uri)
    found = client.get_model_version_by_alias(MODEL, "champion")
    assert found.tags["policy_id"] == policies[1].id and found.tags["decision"] == "promote"
    assert len(found.tags["verdict"]) == 64 and Path(found.source.removeprefix("file://")).is_dir()
    client.set_registered_model_alias(MODEL, "champion", "1")
    with pytest.raises(
        TamperedRecord, match="alias champion was changed outside the record; got 1; expected 2"
    ):
        registry.verify()
    with pytest.raises(TamperedRecord, match="changed outside the record"):
        registry.roll_back(by="eve", reason="x")
    registry.verify(restore=True)
    assert str(client.get_model_version_by_alias(MODEL, "champion").version) == "2"
    registry.roll_back(by="eve", reason="x")


def test_a_lost_database_is_told_and_made_again_from_the_record(
    twinloop,
    registry,
    policies,
    tmp_path,
    empty,
    monkeypatch,
):
    monkeypatch.chdir(tmp_path)
    with_two_champions(registry, policies, tmp_path)
    registry.promote(policies[2], None, by="ann", override="try it", stage="shadow")
    noted = str(registry.verify().head)
    before = registry.state()
    fresh = tmp_path / "fresh"
    shutil.copytree(registry.folder, fresh / "registry")
    again = make(fresh, empty)
    for look in (again.verify, lambda: again.roll_back(by="eve", reason="x")):
        with pytest.raises(TamperedRecord, match="its database was lost"):
            look()
    with pytest.raises(TamperedRecord, match="was truncated"):
        again.verify(f"9:{noted.partition(':')[2]}", restore=True)
    with pytest.raises(TamperedRecord, match="its database was lost"):
        again.verify()
    code, out, err = twinloop("registry", "verify", "--restore", "--workspace", "fresh", "--head", noted)
    assert code == 0 and noted in out, err
    assert again.state() == before and str(again.verify().head) == noted
    from mlflow.tracking import MlflowClient

    found = MlflowClient(tracking_uri=again.uri, registry_uri=again.uri).get_registered_model(MODEL)
    assert {alias: str(v) for alias, v in found.aliases.items()} == {"champion": "2", "shadow": "3"}
    again.roll_back(by="eve", reason="x")
    assert again.policy("champion").id == policies[0].id


def test_a_release_goes_by_stages(registry, policies, tmp_path):
    first, second, _ = policies
    registry.promote(first, judged(tmp_path / "a", first), by="ann")
    verdict = judged(tmp_path / "b", second, first)
    registry.promote(second, verdict, by="ann", stage="shadow")
    assert registry.policy("shadow").id == second.id and registry.policy("champion").id == first.id
    registry.promote(second, verdict, by="ann", stage="canary", fraction=0.2)
    assert registry.state().aliases == {"champion": "1", "challenger": "2", "shadow": None}
    assert registry.state().fraction == 0.2
    registry.withdraw("canary", by="ann", reason="too slow")
    assert registry.state().aliases["challenger"] is None and registry.state().fraction is None
    registry.promote(second, verdict, by="ann")
    assert registry.state().aliases == {"champion": "2", "challenger": None, "shadow": None}
    registry.verify()


def test_a_champion_does_not_step_down_and_leave_nobody(registry, policies):
    first, second, _ = policies
    registry.promote(first, None, by="ann", override="in use")
    for stage in ("shadow", "canary"):
        with pytest.raises(GateError, match="would leave no champion"):
            registry.promote(first, None, by="ann", override="look again", stage=stage)
    registry.promote(second, None, by="ann", override="better")
    registry.promote(first, None, by="ann", override="look again", stage="shadow")
    assert registry.state().aliases == {"champion": "2", "challenger": None, "shadow": "1"}


def edit(lines):
    lines[1] = lines[1].replace('"by": "ann"', '"by": "bob"')
    return lines


TAMPERINGS = {
    "edited": (edit, "entry 2 was edited"),
    "deleted": (lambda lines: lines[:1] + lines[2:], "entry 2 does not follow"),
    "first deleted": (lambda lines: lines[1:], "entry 1 does not follow"),
    "reordered": (lambda lines: [lines[1], lines[0], *lines[2:]], "entry 1 does not follow"),
    "inserted": (lambda lines: [lines[0], *lines], "entry 2 does not follow"),
    "truncated": (lambda lines: lines[:-1], "was truncated: it ends with entry 3; expected at least 4"),
    "emptied": (lambda lines: [], "was truncated: it ends with entry 0"),
    "spoiled": (lambda lines: [*lines[:-1], "{"], "entry 4 cannot be read"),
}


@pytest.mark.parametrize("how", TAMPERINGS)
def test_whatever_is_done_to_the_record_is_told(registry, policies, tmp_path, how):
    with_two_champions(registry, policies, tmp_path)
    change, told = TAMPERINGS[how]
    lines = registry.record.file.read_text().splitlines()
    assert len(lines) == 4
    registry.record.file.write_text("".join(line + "\n" for line in change(lines)))
    with pytest.raises(TamperedRecord, match=told):
        registry.verify()
    with pytest.raises(TamperedRecord, match=told):
        registry.roll_back(by="eve", reason="x")


def test_a_record_that_was_rewritten_whole_does_not_hold_a_head_that_was_noted(
    registry, policies, tmp_path, empty
):
    noted = str(with_two_champions(registry, policies, tmp_path / "one").verify().head)
    other = with_two_champions(make(tmp_path / "two", empty), policies, tmp_path / "two")
    assert other.verify().head.number == registry.verify(noted).head.number
    with pytest.raises(TamperedRecord, match="was rewritten"):
        other.verify(noted)
    with pytest.raises(TamperedRecord, match="not the head"):
        other.verify("nonsense")


def test_policies_verdicts_and_evidence_in_the_registry_may_not_change(registry, policies, tmp_path):
    with_two_champions(registry, policies, tmp_path)
    evidence = next(registry.folder.glob("verdicts/*/evidence.json"))
    before = evidence.read_text()
    evidence.write_text(before.replace("true", "false", 1))
    with pytest.raises(TamperedRecord, match="is not the evidence that was recorded"):
        registry.verify()
    evidence.write_text(before)
    weights = registry.folder / "policies" / policies[0].id / "weights.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(TamperedRecord, match="is not the file that was recorded"):
        registry.roll_back(by="eve", reason="x")


def test_whatever_a_registered_policy_says_of_itself_may_not_change(registry, policies, tmp_path):
    with_two_champions(registry, policies, tmp_path)
    file = registry.folder / "policies" / policies[0].id / "policy.json"
    words = json.loads(file.read_text())
    words.pop("check")  # whoever changes a policy on purpose takes its check sum out as well
    for change in (
        {"name": "x"},
        {"twin": {"name": "x", "version": "1", "hash": "1"}},
        {"datasets": []},
        {"results": {}},
        {"domains": ["x"]},
    ):
        assert words != words | change
        file.write_text(json.dumps(words | change))
        with pytest.raises(TamperedRecord, match="is not the file that was recorded"):
            registry.verify()
        with pytest.raises(TamperedRecord, match="is not the file that was recorded"):
            registry.roll_back(by="eve", reason="x")


def test_a_step_that_was_interrupted_after_it_was_recorded_is_finished(
    registry, policies, tmp_path, monkeypatch
):
    first, second = policies[:2]
    registry.promote(first, judged(tmp_path / "a", first), by="ann")
    registry.promote(second, judged(tmp_path / "b", second, first), by="ann", stage="shadow")

    def killed(self, entry):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MlflowMirror, "follow", killed)
        with pytest.raises(KeyboardInterrupt):
            registry.promote(second, tmp_path / "b" / "verdict.json", by="ann")
    registry.roll_back(by="eve", reason="go back")
    assert registry.policy("champion").id == first.id
    assert registry.verify().head.number == 6


def test_the_commands_promote_list_log_verify_and_roll_back(twinloop, policies, tmp_path, monkeypatch, empty):
    make(tmp_path, empty)
    monkeypatch.chdir(tmp_path)
    first, second = policies[:2]
    first.save("p0"), second.save("p1")
    judged(tmp_path / "a", first), judged(tmp_path / "b", second, first)
    code, out, err = twinloop("promote", "p0", "--verdict", "a/verdict.json", "--by", "ann")
    assert code == 0 and "promoted version 1 to full" in out, err
    code, _, err = twinloop("promote", "p1", "--by", "ann")
    assert code == 1 and "has no verdict" in err
    code, out, _ = twinloop("promote", "p1", "--verdict", "b/verdict.json", "--by", "ann", "--json")
    assert code == 0 and json.loads(out)["details"]["aliases"]["champion"] == "2"
    code, out, _ = twinloop("rollback", "--by", "eve", "--reason", "drops the cup")
    assert code == 0 and "rolled back from version 2 to 1: drops the cup" in out
    code, out, _ = twinloop("registry", "ls", "--json")
    assert [v["aliases"] for v in json.loads(out)["versions"]] == [["champion"], []]
    code, out, _ = twinloop("registry", "log")
    assert code == 0 and out.count("promoted") == 2
    code, out, _ = twinloop("registry", "verify", "--json")
    assert code == 0 and json.loads(out)["entries"] == 5
    record = tmp_path / "registry" / "record.jsonl"
    record.write_text(record.read_text().replace("drops the cup", "all was well"))
    code, _, err = twinloop("registry", "verify")
    assert code == 1 and "entry 5 was edited" in err
    code, _, err = twinloop("promote", "p1", "--by", "ann", "--stage", "half", "--override", "x")
    assert code == 2 and "unknown stage" in err


def test_the_champion_and_its_shadow_are_recorded_by_what_they_are(
    twinloop,
    registry,
    policies,
    tmp_path,
    monkeypatch,
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("twinloop.robots.open_robot", lambda url: Standin())
    words = (
        "record",
        "--robot",
        "x",
        "--twin",
        "franka_push",
        "--episodes",
        1,
        "--seconds",
        0.2,
        "--out",
        "used",
    )
    code, _, err = twinloop(*words, "--policy", "champion")
    assert code == 2 and "there is no registry" in err
    registry.promote(policies[0], None, by="ann", override="in use")
    registry.promote(policies[1], None, by="ann", override="try it", stage="shadow")
    code, _, err = twinloop(*words, "--policy", "champion", "--shadow", "shadow")
    assert code == 0 and "UNSIGNED" in err, err
    assert tl.open_dataset("used").episode(0).provenance.actor_id == f"p0@{policies[0].id}"
    assert len(load_shadow(tmp_path / "used.shadow.jsonl", policies[1].id)) == 1


def test_status_says_who_is_what(twinloop, policies, tmp_path, monkeypatch, empty):
    init_workspace(tmp_path / "cell")
    monkeypatch.chdir(tmp_path / "cell")
    assert "registry" not in twinloop("status")[1]
    registry = make(tmp_path / "cell", empty)
    registry.promote(policies[0], None, by="ann", override="in use")
    registry.promote(policies[1], None, by="ann", override="try it", stage="shadow")
    assert "registry: champion p0 (version 1), shadow p1 (version 2)\n" in twinloop("status")[1]
    told = json.loads(twinloop("status", "--json")[1])["registry"]
    assert told.pop("warning").startswith("UNSIGNED") and told == {
        "champion": "p0 (version 1)",
        "shadow": "p1 (version 2)",
    }
    registry.record.file.write_text(registry.record.file.read_text().replace("try it", "it works"))
    assert "entry 4 was edited" in twinloop("status")[1]


def test_a_registry_that_is_not_there_is_told_and_not_made(twinloop, tmp_path, monkeypatch, empty):
    monkeypatch.chdir(tmp_path)
    reading = (
        ("registry", "ls"),
        ("registry", "log"),
        ("registry", "verify"),
        ("registry", "release", "used", "--stage", "full"),
        ("registry", "repair"),
        ("registry", "anchor"),
        ("registry", "accept", "--head", f"0:{'0' * 64}", "--by", "ann", "--reason", "x"),
        ("rollback", "--by", "ann", "--reason", "x"),
    )
    for words in reading:
        for place, answer in (("typo/ws", "typo/ws is not a folder"), (".", "there is no registry in")):
            code, out, err = twinloop(*words, "--workspace", place)
            assert code == 2 and answer in err and not out
    assert list(tmp_path.iterdir()) == []
    shutil.copyfile(empty, tmp_path / DATABASE)
    code, _, err = twinloop("registry", "verify")
    assert code == 2 and "there is no registry in" in err, "training alone makes a database, not a registry"


def test_the_rival_of_a_candidate_stays_the_same_once_it_is_champion(registry, policies):
    first, second, third = policies
    assert registry.previous_champion(first.id) is None
    registry.promote(first, None, by="ann", override="in use")
    assert registry.previous_champion(first.id) is None
    for candidate, previous in ((second, first), (third, second)):
        assert registry.previous_champion(candidate.id).id == previous.id
        registry.promote(candidate, None, by="ann", override="better")
        assert registry.previous_champion(candidate.id).id == previous.id
    registry.roll_back(by="ann", reason="it fell")
    assert registry.previous_champion(third.id).id == second.id


def test_a_second_round_of_the_loop_meets_the_champion_of_the_first(registry, policies, tmp_path):
    first, second, third = policies
    assert find_champion(tmp_path / "fresh", second) is None
    before = find_champion(registry.root, second, first)
    assert before.id == first.id
    judged(tmp_path / "gate", second, first)
    champion = promote(second, tmp_path / "gate", registry.root, by="loop", previous=before)
    assert champion.policy_id == registry.policy("champion").id == second.id
    assert find_champion(registry.root, second, first).id == before.id, "the champion that it had to beat"
    assert find_champion(registry.root, third, first).id == second.id
    assert find_champion(registry.root, None).id == second.id
