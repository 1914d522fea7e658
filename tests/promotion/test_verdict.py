"""Evidence, statistics and verdict: what is promoted, what is refused and why, and when more trials are asked for."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from twinloop.errors import GateError, WrongUse
from twinloop.promotion.checks import Check
from twinloop.promotion.evidence import (
    Contender,
    Evidence,
    PairedTrial,
    draw_scenes,
    load_evidence,
    load_trials,
    make_evidence,
)
from twinloop.promotion.listing import find_verdicts
from twinloop.promotion.rules import Rules
from twinloop.promotion.statistics import measure
from twinloop.promotion.verdict import decide, evidence_hash, load_verdict
from twinloop.records import save_record

NEW, OLD = Contender("new", "1" * 16), Contender("old", "2" * 16)
TWIN = {"name": "cell", "version": "1", "hash": "abc"}


def scenes(rng, count, new, old, bad=None):
    """Trials with these chances of success; where `bad` holds the candidate always fails and the champion never does."""
    made = []
    for number in range(count):
        x = float(rng.uniform(-1, 1))
        harmed = bad is not None and bad(x)
        made.append(
            PairedTrial(
                number,
                bool(rng.random() < new) and not harmed,
                harmed or bool(rng.random() < old),
                {"x": x},
            )
        )
    return made


def campaign(new, old, real, seed=0, simulated=300, bad=None):
    """Evidence whose real trials are of drawn scenes, and turn out much as simulated."""
    rng = np.random.default_rng(seed)
    listed = scenes(rng, simulated, new, old, bad)
    drawn = draw_scenes([trial.scene for trial in listed], 5, real)
    return Evidence(NEW, OLD, TWIN, tuple(listed), tuple(listed[k] for k in drawn), "r1", False, 5)


def verdict(evidence, rules=None, checks=()):
    rules = rules or Rules()
    return decide(evidence, measure(evidence, rules, twin_is_current=True), rules, checks)


def test_a_clearly_better_candidate_is_promoted_with_its_interval():
    found = verdict(campaign(0.95, 0.5, 60))
    assert found.decision == "promote" and found.statistics.grounds == "real and simulated"
    assert found.statistics.low > 0.0 and found.statistics.low < 0.45 < found.statistics.high
    assert {part.standing for part in found.statistics.slices} == {"not worse"}
    assert found.statistics.correlation > 0.9 and "gain +4" in found.sentence


def test_one_that_is_no_better_is_asked_for_more_and_refused_when_trials_are_used_up():
    few, many = campaign(0.7, 0.7, 20, seed=2), campaign(0.7, 0.7, 100, seed=2)
    assert verdict(few).decision in ("more", "refuse")
    found = verdict(many)
    assert found.decision == "refuse" and "used up" in found.sentence


def test_the_forecast_of_trials_is_about_right():
    evidence = campaign(0.8, 0.6, 150, seed=4)
    early = replace(evidence, real=evidence.real[:30], simulated=())
    asked = verdict(early)
    assert asked.decision == "more" and 5 <= asked.more <= 120


def test_a_slice_that_gets_worse_refuses_although_the_mean_is_better():
    evidence = campaign(1.0, 0.2, 60, bad=lambda x: x < -0.6)
    assert measure(evidence, Rules()).promoting
    found = verdict(evidence, Rules(slice_margin=0.05))
    parts = {part.name.split()[1]: part.standing for part in found.statistics.slices}
    assert parts[">"] == "not worse"
    harsh = campaign(1.0, 0.2, 60, bad=lambda x: x < 0.0)
    refused = verdict(harsh)
    assert (
        refused.decision == "refuse"
        and "x <= " in refused.sentence
        and "is worse by more than 10" in refused.sentence
    )


def test_simulated_trials_of_a_twin_that_is_not_current_say_nothing_about_slices():
    evidence = replace(campaign(0.95, 0.5, 60), real=())
    rules = Rules()
    assert {s.standing for s in measure(evidence, rules, twin_is_current=True).slices} == {"not worse"}
    assert {s.standing for s in measure(evidence, rules).slices} == {"open"}


def test_without_a_champion_success_must_exceed_the_threshold():
    rng = np.random.default_rng(3)
    trials = [PairedTrial(k, bool(rng.random() < 0.97)) for k in range(120)]
    alone = Evidence(NEW, None, TWIN, (), tuple(trials))
    found = verdict(alone, Rules(threshold=0.8))
    assert (
        found.decision == "promote" and "no slices" in found.sentence and "success rate 9" in found.sentence
    )
    assert found.statistics.low > 0.8
    assert verdict(alone, Rules(threshold=0.99)).decision == "refuse"


def test_simulation_alone_never_promotes_unless_it_is_asked_to():
    evidence = replace(campaign(0.95, 0.5, 1), real=())
    asked = verdict(evidence)
    assert asked.decision == "more" and "no trials yet" in asked.sentence
    only = verdict(evidence, Rules(simulation_only=True))
    assert only.decision == "promote" and "simulated pairs" in only.sentence


def test_a_failed_check_refuses_whatever_the_trials_say():
    bad = Check("replay", "failed", "held-out replay error rose")
    found = verdict(campaign(0.95, 0.5, 60), checks=[bad, Check("drift", "not evaluated", "-", needed=False)])
    assert found.decision == "refuse" and "held-out replay error rose" in found.sentence
    assert (
        verdict(campaign(0.95, 0.5, 60), checks=[replace(bad, accepted="ann: known")]).decision == "promote"
    )


def test_real_scenes_that_were_not_drawn_are_not_combined_with_simulated_ones():
    evidence = campaign(0.95, 0.5, 40)
    picked = replace(evidence, real=tuple(sorted(evidence.real, key=lambda t: t.scene)))
    assert evidence.combinable and not picked.combinable
    assert measure(picked, Rules()).grounds == "real"


def test_evidence_and_verdict_are_files_that_come_back_the_same(tmp_path):
    evidence = campaign(0.9, 0.5, 30)
    assert load_evidence(save_record(evidence, tmp_path / "e.json")) == evidence
    found = verdict(evidence)
    assert load_verdict(found.save(tmp_path)) == load_verdict(tmp_path) == found
    assert found.evidence_hash == evidence_hash(evidence)
    changed = evidence.with_real(PairedTrial(0, True, False, {"x": 0.0}))
    assert evidence_hash(changed) != found.evidence_hash


def test_trials_are_read_from_evaluations(tmp_path):
    def entry(contender, outcomes):
        return {"policy": contender.name, "policy_id": contender.id, "where": "r1", "seed": 0, "standin": False, "twin": None, "outcomes": outcomes}  # fmt: skip

    file = tmp_path / "runs.json"
    file.write_text(json.dumps({"evaluations": [entry(NEW, [True, False]), entry(OLD, [False, False])]}))
    assert [t.difference for t in load_trials(file, NEW, OLD).trials] == [1.0, 0.0]
    assert [t.champion for t in load_trials(file, NEW, None).trials] == [None, None]
    unsure = [entry(NEW, [True, None, True]), entry(OLD, [None, False, False])]
    file.write_text(json.dumps({"evaluations": unsure}))
    assert [t.scene for t in load_trials(file, NEW, OLD).trials] == [2], "unjudged pairs are left out"
    file.write_text(json.dumps({"evaluations": [entry(NEW, [True, False]), entry(OLD, [False, False])]}))
    with pytest.raises(GateError, match=r"no evaluation of other \(3\); available: new"):
        load_trials(file, Contender("other", "3"), None)
    file.write_text(json.dumps({"evaluations": [entry(NEW, [True, False]), entry(OLD, [False])]}))
    with pytest.raises(GateError, match="evaluated in different scenes"):
        load_trials(file, NEW, OLD)
    file.write_text(json.dumps({"evaluations": [entry(NEW, [True]) | {"twin": "cell"}]}))
    with pytest.raises(WrongUse, match="not a valid EvaluatedPolicy"):
        load_trials(file, NEW, None)
    file.write_text("{")
    with pytest.raises(WrongUse, match="is not JSON"):
        load_trials(file, NEW, OLD)


def test_simulated_trials_do_not_pass_as_real_nor_a_stand_in_as_either(tmp_path):
    robot = {"policy": "new", "policy_id": NEW.id, "where": "r1", "seed": 0, "outcomes": [True] * 30}
    robot |= {"standin": False, "twin": None}

    def file(name, **changed):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"evaluations": [robot | changed]}))
        return path

    real, simulated = file("real"), file("simulated", where="cell", twin=TWIN)
    standin = file("standin", where="standin-mild", standin=True)
    with pytest.raises(GateError, match="was simulated; got trials in twin cell; expected trials on a robot"):
        make_evidence(NEW, None, TWIN, real=simulated)
    for path, who in ((real, "robot r1"), (standin, "stand-in standin-mild")):
        with pytest.raises(GateError, match=f"was not simulated in a twin; got {who}"):
            make_evidence(NEW, None, TWIN, simulated=path)
    found = make_evidence(NEW, None, TWIN, simulated=simulated, real=real)
    assert (len(found.simulated), len(found.real), found.robot, found.standin) == (30, 30, "r1", False)
    told = verdict(make_evidence(NEW, None, TWIN, real=standin))
    assert (told.robot, told.standin) == ("standin-mild", True) and "30 stand-in trials" in told.sentence
    del robot["twin"]
    with pytest.raises(GateError, match="does not state whether it was simulated"):
        make_evidence(NEW, None, TWIN, real=file("unsaid"))


def test_rules_and_evidence_that_make_no_sense_are_refused():
    with pytest.raises(WrongUse, match="alpha is out of range"):
        Rules(alpha=0.7)
    with pytest.raises(WrongUse, match="at least one trial"):
        Rules(max_trials=0)
    with pytest.raises(GateError, match="has no outcome of the champion"):
        Evidence(NEW, OLD, TWIN, (), (PairedTrial(0, True),))


def test_every_verdict_of_a_workspace_is_listed_and_a_damaged_one_is_named(tmp_path, twinloop):
    for folder, found in (("gates/a", campaign(0.95, 0.5, 60)), ("gates/b", campaign(0.5, 0.5, 60))):
        save_record(verdict(found), tmp_path / folder / "verdict.json")
    (tmp_path / "gates/odd").mkdir()
    (tmp_path / "gates/odd/verdict.json").write_text("{}")
    shutil.copytree(tmp_path / "gates/a", tmp_path / "registry/verdicts/x")
    odd, *rest = find_verdicts(tmp_path)
    assert odd.folder == "gates/odd" and "not a valid Verdict" in odd.problem
    assert {(one.folder, one.verdict.decision) for one in rest} == {
        ("gates/a", "promote"),
        ("gates/b", "refuse"),
    }
    code, text, _ = twinloop("registry", "verdicts", "--workspace", str(tmp_path))
    assert code == 0 and "promote" in text and "not a valid Verdict" in " ".join(text.split())
