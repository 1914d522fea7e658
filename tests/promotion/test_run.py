"""The path through a gate: in a twin, on a stand-in, from files, and as a user types it."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from tests.learning.examples import TINY, Standin
from tests.terminal import twinloop
from twinloop.datasets.reader import open_dataset
from twinloop.episode import Outcome
from twinloop.errors import GateError, UnknownName, WrongUse
from twinloop.learning.train import train
from twinloop.promotion.checks import CHECKS, Situation, Subject, accept, run_checks
from twinloop.promotion.evidence import Contender, Evidence, PairedTrial, load_evidence, make_evidence
from twinloop.promotion.rules import Rules
from twinloop.promotion.run import EVIDENCE, GateConfig, gate
from twinloop.promotion.trials import try_on_robot
from twinloop.promotion.verdict import load_verdict
from twinloop.robots import connected, open_robot
from twinloop.supervision.scenes import Scene
from twinloop.testing.gate import check_gate_check
from twinloop.testing.policies import ProportionalPolicy
from twinloop.testing.robots import FakeRobot
from twinloop.twins import load_twin
from twinloop.twins.folder import save_twin

ACCEPTED = Situation(accepted=("replay", "artefacts"), by="ann", reason="a test has no recordings")


@pytest.fixture(scope="module")
def other_policy(panda_data, tmp_path_factory):
    return train(panda_data, out=tmp_path_factory.mktemp("policies") / "other", config=replace(TINY, seed=5))


def subject(twin, folder=None, **more):
    trials = tuple(PairedTrial(k, True, None, {}, int(k == 0)) for k in range(100))
    evidence = Evidence(Contender("a", "1"), None, {"hash": twin.content_hash, "version": "1"}, trials)
    return Subject(folder, **{"evidence": evidence, "rules": Rules(), "twin": twin} | more)


def answers(found):
    return {check.name: (check.status, check.blocks) for check in run_checks(found)}


def test_a_twin_must_have_passed_its_own_gate_and_be_the_one_that_was_simulated(tmp_path):
    twin = load_twin("servo_pendulum")
    assert answers(subject(twin))["replay"] == ("not evaluated", True)
    folder = save_twin(twin, tmp_path / "twin")
    words = {
        "gate": {"accepted": True, "reason": "fell by 40 %"},
        "twin_hash": twin.content_hash,
        "base": "before",
    }
    file = Path(folder) / "identification.json"
    file.write_text(json.dumps(words))
    assert answers(subject(twin, folder))["replay"] == ("passed", False)
    file.write_text(json.dumps(words | {"gate": {"accepted": False, "reason": "rose"}}))
    assert answers(subject(twin, folder))["replay"] == ("failed", True)
    brought_nothing = {"gate": {"accepted": False, "reason": "rose"}, "twin_hash": "another"}
    file.write_text(json.dumps(words | brought_nothing | {"base": twin.content_hash}))
    assert answers(subject(twin, folder))["replay"] == ("passed", False), "the twin itself stands"
    file.write_text(json.dumps(words | {"twin_hash": "another"}))
    assert answers(subject(twin, folder))["replay"] == ("failed", True)
    file.write_text("{}")
    with pytest.raises(GateError, match=r"identification.json cannot be read"):
        run_checks(subject(twin, folder))
    newer = load_twin("cube_toss")
    found = subject(newer, evidence=subject(twin).evidence)
    assert answers(found)["same twin"] == ("failed", True)


def test_drift_artefacts_and_consent_are_looked_at(tmp_path):
    twin = load_twin("servo_pendulum")
    base = subject(twin)
    found = answers(base)
    assert found["drift"] == ("not evaluated", False) and found["artefacts"] == ("passed", False)
    moved = {"drift": True, "dimensions": ["actuation"]}
    assert answers(replace(base, drift=moved))["drift"] == ("failed", True)
    assert answers(replace(base, drift={"drift": False}))["drift"] == ("passed", False)
    alert = {"at": "2026-11-16T00:00:00+00:00", "what": "aged actuator", "changes_twin": True}
    assert answers(replace(base, alerts=(alert,)))["drift"] == ("failed", True)
    shaky = replace(
        base.evidence, simulated=tuple(replace(t, artefacts=t.scene % 2) for t in base.evidence.simulated)
    )
    assert answers(replace(base, evidence=shaky))["artefacts"] == ("failed", True)
    gone = replace(base, datasets=({"id": "gone", "version": "1", "role": "sim", "name": "gone"},))
    assert answers(base)["consent"] == answers(gone)["consent"] == ("not evaluated", False)
    assert answers(replace(gone, workspace=tmp_path))["consent"] == ("not evaluated", False)


def test_a_check_is_let_pass_only_by_somebody_who_says_why():
    checks = run_checks(subject(load_twin("servo_pendulum")))
    with pytest.raises(WrongUse, match="needs a name and a reason"):
        accept(checks, ["replay"], "ann", None)
    with pytest.raises(UnknownName, match="'replay'"):
        accept(checks, ["replai"], "ann", "because")
    passed = {c.name: c for c in accept(checks, ["replay"], "ann", "because")}
    assert passed["replay"].accepted == "ann: because" and not passed["replay"].blocks
    assert set(CHECKS.names()) == set(passed)


@pytest.mark.parametrize("name", CHECKS.names())
def test_every_gate_check_keeps_the_protocol(name):
    check_gate_check(name, CHECKS.get(name), load_twin("servo_pendulum"))


def test_real_people_in_the_training_data_must_have_agreed_and_not_changed_their_minds(tmp_path):
    from tests.learning.examples import point
    from twinloop.consent.records import add_consent
    from twinloop.consent.withdraw import withdraw_consent

    (tmp_path / "signed.pdf").write_bytes(b"yes")
    for name in ("one", "two"):
        add_consent(tmp_path, name, ["train"], document=tmp_path / "signed.pdf", consent_id=f"c-{name}")
        point(tmp_path / "data/real", episodes=4, robot=FakeRobot(), operator=name, consent=f"c-{name}")
    config = replace(TINY, recipe="real-only")
    policy = train(real=tmp_path / "data/real", out=tmp_path / "p", config=config, workspace=tmp_path)
    (entry,) = policy.training_record.datasets
    base = replace(subject(load_twin("servo_pendulum")), workspace=tmp_path, datasets=(entry,))
    assert answers(base)["consent"] == ("passed", False)
    unlisted = replace(base, datasets=({k: v for k, v in entry.items() if k != "episodes"},))
    assert answers(unlisted)["consent"] == ("passed", False)
    point(tmp_path / "data/real", episodes=1, robot=FakeRobot(), operator="three")
    assert answers(base)["consent"] == ("passed", False), "what it did not see is no objection"
    assert answers(unlisted)["consent"] == ("not evaluated", False), "nobody knows what it saw"
    some = replace(base, datasets=({**entry, "episodes": ["f" * 32]},))
    assert answers(some)["consent"] == ("not evaluated", False), "these are not there"
    asked = open_dataset(tmp_path / "data/real")
    some = replace(base, datasets=({**entry, "episodes": [asked.episode(8).id]},))
    assert answers(some)["consent"] == ("failed", True), "somebody who was never asked"
    withdraw_consent(tmp_path, "c-one", by="dpo", reason="asked by mail")
    (told,) = [check for check in run_checks(base) if check.name == "consent"]
    assert told.blocks and "real: consent was withdrawn; trained on 4 of the episodes" in told.detail
    assert answers(unlisted)["consent"] == ("failed", True)


def test_a_gate_in_the_twin_stores_evidence_and_verdict(tiny_policy, other_policy, tmp_path):
    twin = load_twin("franka_pick_place")
    words = {"champion": other_policy, "out": tmp_path / "g"}
    found = gate(tiny_policy, twin, **words, situation=ACCEPTED, config=GateConfig(scenes=2))
    evidence = load_evidence(tmp_path / "g" / EVIDENCE)
    assert len(evidence.simulated) == 2 and evidence.real == () and evidence.twin["hash"] == twin.content_hash
    assert len({trial.values["object_yaw_rad"] for trial in evidence.simulated}) == 2
    assert load_verdict(tmp_path / "g").decision == found.decision == "more"
    refused = gate(tiny_policy, twin, **words, evidence=evidence)
    assert refused.decision == "refuse" and "never compared with recordings" in refused.sentence
    with pytest.raises(GateError, match="about another candidate"):
        gate(other_policy, twin, evidence=evidence, out=tmp_path / "g")


def test_a_gate_does_not_replace_trials_that_were_made_before(tiny_policy, tmp_path):
    twin, words = load_twin("franka_pick_place"), {"out": tmp_path / "g", "situation": ACCEPTED}
    gate(tiny_policy, twin, **words, config=GateConfig(scenes=2))
    file = tmp_path / "g" / EVIDENCE
    before = file.read_bytes()
    evidence = load_evidence(file)
    for other in (None, replace(evidence, simulated=evidence.simulated[:1])):
        with pytest.raises(GateError, match=r"already holds trials(.|\n)*--evidence .*g/evidence.json"):
            gate(tiny_policy, twin, **words, evidence=other, config=GateConfig(scenes=1, seed=1))
    gate(tiny_policy, twin, **words, evidence=evidence)
    assert file.read_bytes() == before


def test_a_gate_on_a_stand_in_tries_scenes_of_its_list_in_turns(
    tiny_policy, other_policy, short_trials, tmp_path, monkeypatch
):
    pytest.importorskip("pybullet")
    twin = load_twin("franka_pick_place")
    robot = open_robot("standin:ideal")
    heard = []
    from twinloop.promotion.run import Watchers

    watchers = Watchers(on_trial=lambda number, trial, verdict: heard.append((number, trial.scene)))
    with connected(robot):
        words = {"champion": other_policy, "robot": robot, "situation": ACCEPTED, "watchers": watchers}
        words |= {"out": tmp_path / "g"}
        short = {"scenes": 2, "time_limit_s": 0.2}
        gate(tiny_policy, twin, **words, config=GateConfig(rules=Rules(max_trials=1), **short))
        first = load_evidence(tmp_path / "g" / EVIDENCE)
        found = gate(
            tiny_policy, twin, **words, evidence=first, config=GateConfig(rules=Rules(max_trials=2), **short)
        )
    evidence = load_evidence(tmp_path / "g" / EVIDENCE)
    assert evidence.combinable and evidence.standin and len(evidence.real) == 2 == len(heard)
    assert evidence.real[0] == first.real[0], "it goes on from where it was"
    assert [scene for _, scene in heard] == [trial.scene for trial in evidence.real]
    assert {trial.scene for trial in evidence.simulated} == {200, 201}
    for trial in evidence.simulated:
        assert abs(trial.values["object_offset_x_m"]) < 0.15 and abs(trial.values["object_yaw_rad"]) < 3.2
    assert found.decision == "refuse" and "used up" in found.sentence and found.standin

    monkeypatch.setattr("twinloop.promotion.run.usable_cores", lambda: 2)
    with connected(robot):
        both = words | {"out": tmp_path / "both"}
        gate(tiny_policy, twin, **both, config=GateConfig(rules=Rules(max_trials=2), **short))
    at_once = load_evidence(tmp_path / "both" / EVIDENCE)
    assert (at_once.simulated, at_once.real) == (evidence.simulated, evidence.real), "also side by side"

    elsewhere = replace(evidence, robot="standin-mild")
    with (
        connected(robot),
        pytest.raises(
            GateError, match=r"from another robot; got stand-in \S+; expected stand-in standin-mild"
        ),
    ):
        gate(tiny_policy, twin, **words, evidence=elsewhere)
    with connected(robot), pytest.raises(GateError, match="from another robot; got stand-in"):
        gate(tiny_policy, twin, **words, evidence=replace(evidence, standin=False))


def test_earlier_trials_are_neither_lost_nor_left_out(tiny_policy, short_trials, tmp_path):
    pytest.importorskip("pybullet")
    twin, robot = load_twin("franka_pick_place"), open_robot("standin:ideal")
    remembered = replace(ACCEPTED, workspace=tmp_path)
    file = tmp_path / "g" / EVIDENCE

    def run(out="g", most=1, seed=0, **more):
        words = {"robot": robot, "out": tmp_path / out}
        return gate(
            tiny_policy,
            twin,
            **{"situation": remembered} | words | more,
            config=GateConfig(rules=Rules(max_trials=most), scenes=3, seed=seed, time_limit_s=0.2),
        )

    with connected(robot):
        run()
        first = load_evidence(file)
        again = run("another", seed=1)
        assert not load_evidence(tmp_path / "another" / EVIDENCE).real, "no trial is spent on it"
        assert again.decision == "refuse"
        assert (
            f"attempts: 1 earlier trials of these policies on this robot are omitted; continue from them with --evidence {file}"
            in again.sentence
        )

        run(most=2, evidence=first)
        second = load_evidence(file)
        assert second.real[:1] == first.real and len(second.real) == 2
        file.write_text(json.dumps(first.as_json()))
        assert "attempts: 2 earlier trials" in run(most=2, evidence=first).sentence, "it was set back"
        notes = tmp_path / "gates.jsonl"
        notes.write_text(notes.read_text().splitlines(keepends=True)[0])  # as if killed before it took note
        run(most=2, evidence=first)
        assert load_evidence(file) == second
        assert len(open_dataset(second.recordings[0])) == 2, "a recorded trial is not made again"

        file.unlink()
        with pytest.raises(GateError, match=r"holds recordings of trials, but not their evidence.json"):
            run()
        alone = run("third", situation=ACCEPTED)
    assert {check.name: check.status for check in alone.checks}["attempts"] == "not evaluated"


def test_what_was_evaluated_in_a_twin_is_no_real_evidence(twinloop, tiny_policy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny_policy.save(tmp_path / "p")
    code, out, err = twinloop("evaluate", "p", "--twin", "franka_pick_place", "--episodes", "2", "--json")
    assert code == 0, err
    Path("twin.json").write_text(out)
    words = ("gate", "p", "--twin", "franka_pick_place", "--out", "g")
    code, _, err = twinloop(*words, "--real-evidence", "twin.json")
    assert code == 1 and "twin.json was simulated" in err and not Path("g").exists()
    code, out, _ = twinloop(*words, "--sim-evidence", "twin.json", "--json")
    told = json.loads(out)
    assert told["statistics"]["simulated_trials"] == 2
    assert {c["name"]: c["status"] for c in told["checks"]}["same twin"] == "passed"


def test_simulated_trials_from_a_file_say_of_which_twin_they_are_and_how_it_behaved(tmp_path):
    twin, contender = load_twin("servo_pendulum"), Contender("a", "1")
    here = {"name": twin.name, "version": twin.version, "hash": twin.content_hash}
    entry = {"policy": "a", "policy_id": "1", "where": twin.name, "seed": 0, "standin": False, "twin": here}
    entry |= {"outcomes": [True] * 50, "artefacts": [1] + [0] * 49}

    def told(**changed):
        file = tmp_path / "twin.json"
        file.write_text(json.dumps({"evaluations": [entry | changed]}))
        found = answers(subject(twin, evidence=make_evidence(contender, None, here, simulated=file)))
        return found["same twin"], found["artefacts"]

    passed, failed, unknown = ("passed", False), ("failed", True), ("not evaluated", True)
    assert told() == (passed, passed)
    assert told(artefacts=[1, 1] + [0] * 48) == (passed, failed)
    assert told(artefacts=None) == (passed, unknown)
    assert told(twin=here | {"hash": "another"}) == (failed, passed)
    assert told(twin={"name": twin.name}) == (unknown, passed)
    assert told(twin={"name": "cube_toss"}, where="cube_toss") == (failed, passed)


def test_the_command_judges_files_and_writes_a_page(twinloop, tiny_policy, panda_data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny_policy.save(tmp_path / "p")
    entry = {
        "policy": tiny_policy.name,
        "policy_id": tiny_policy.id,
        "where": "r1",
        "seed": 0,
        "standin": False,
        "twin": None,
    }
    runs = {"evaluations": [entry | {"outcomes": [True] * 40}]}
    Path("runs.json").write_text(json.dumps(runs))
    words = ("gate", "p", "--twin", "franka_pick_place", "--real-evidence", "runs.json", "--out", "g")
    code, out, err = twinloop(*words)
    assert code == 0 and "promote: success rate 100.0 %" in out, out + err
    page = Path("g/report.html").read_text()
    assert "<svg" in page and "http:" not in page and "https:" not in page and "Promote." in page
    code, out, _ = twinloop(*words, "--threshold", "0.97", "--json")
    assert code == 1 and json.loads(out)["decision"] in ("more", "refuse")
    code, _, err = twinloop("gate", "p", "--champion", "p")
    assert code == 2 and "the same policy" in err
    code, _, err = twinloop(*words, "--alpha", "2")
    assert code == 2 and "alpha is out of range" in err
    code, _, err = twinloop(*words, "--evidence", "g/evidence.json")
    assert code == 2 and "holds simulated and real trials" in err


def test_the_examples_of_the_page_can_be_typed_one_after_the_other():
    text = (Path(__file__).parents[2] / "docs/how-to/gate.md").read_text()
    champions = {}
    for line in text.split("```bash\n")[1].split("```")[0].splitlines():
        words = shlex.split(line, comments=True)
        said = {name: words[k + 1] for k, name in enumerate(words) if name.startswith("--")}
        if not words:
            continue
        out = said.get("--out", f"gate-{words[2]}")
        assert (out in champions) == (said.get("--evidence") == f"{out}/evidence.json"), line
        assert champions.setdefault(out, said.get("--champion")) == said.get("--champion"), line
    assert champions and "--accept replay --by" in text


def test_an_unjudged_trial_is_neither_a_failure_nor_left_out(tmp_path):
    class Undecided(Standin):
        def judge(self, over=False):
            return Outcome()

    robot = Undecided()
    policy = ProportionalPolicy(robot.description.schema(), [0.5, 0.5], name="pointer")
    with connected(robot):
        for _ in range(2):
            with pytest.raises(GateError, match="outcome of trial 0 is unknown"):
                try_on_robot(policy, None, robot, robot, Scene(0, {}), turn=0, out=tmp_path, time_limit_s=0.2)
        assert len(open_dataset(tmp_path / "pointer")) == 1, "the trial is not repeated but labelled"
        twinloop("data", "label", "pointer", "0", "--success", "--by", "me", cwd=tmp_path)
        trial = try_on_robot(policy, None, robot, robot, Scene(0, {}), turn=0, out=tmp_path, time_limit_s=0.2)
    assert trial.candidate is True


def test_a_candidate_that_exploits_one_simulator_is_refused_and_the_gate_can_require_the_test():
    twin = load_twin("servo_pendulum")
    found = {
        "policy_id": "1",
        "twin_hash": twin.content_hash,
        "verdict": "robust",
        "because": "loses at most 3 points",
    }

    def answer(rules=Rules(), **changes):  # noqa: B008
        quirks = {"quirks": [found | changes]} if changes.pop("tried", True) else None
        return answers(subject(twin, rules=rules, quirks=quirks))["engines"]

    strict = Rules(require_engines=True)
    assert answer(tried=False) == ("not evaluated", False) and answer(strict, tried=False) == (
        "not evaluated",
        True,
    )
    assert answer(strict) == ("passed", False)
    assert answer(verdict="exploits") == ("failed", True), "whether it was asked for or not"
    assert answer(strict, verdict="undecided") == ("not evaluated", True)
    assert answer(strict, policy_id="2") == answer(strict, twin_hash="0") == ("not evaluated", True)
