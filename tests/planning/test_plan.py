"""Plans from evidence: order, numbers, progress, review, and what is refused."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.coverage import worlds
from tests.diagnosis.test_result import make_diagnosis
from tests.report.nouns import make_identification
from twinloop.coverage.result import Outcomes
from twinloop.coverage.rule import Range
from twinloop.coverage.run import measure_coverage
from twinloop.datasets.writer import append_to
from twinloop.diagnosis.result import Cost
from twinloop.episode import Provenance
from twinloop.errors import WrongUse
from twinloop.identification.result import Estimate
from twinloop.planning.costs import Costs
from twinloop.planning.items import load_plan
from twinloop.planning.needs import DimensionCost, Needs, Slice, TargetRegion, read_needs
from twinloop.planning.progress import plan_review, plan_status
from twinloop.planning.run import make_plan, plan
from twinloop.report.plan_sheet import write_plan_sheet
from twinloop.stats.interval import Interval

FAR = TargetRegion(
    "object.x at the start above 0.6 m",
    (Range("object.x at the start", "m", low=0.6, seen=(0.6, 0.7)),),
    "select episode_index from episodes",
    0.3,
    30,
    Outcomes(27, 30, 7, 70, None, {}),
)
LATENCY = DimensionCost("latency", 23.0, 17.0, 29.0)
CONTACT = DimensionCost("contact", 14.0, 9.0, 19.0)


def region(name, variable, unit, low, high, fraction, episodes):
    """A region of one variable in which no outcome is known."""
    outcomes = Outcomes(0, 0, 0, 0, None, {})
    conditions = (Range(variable, unit, low=low, high=high),)
    return TargetRegion(name, conditions, "select 1", fraction, episodes, outcomes)


def estimate(name, dimension, status, half_width):
    """A parameter whose value is 1."""
    return Estimate(
        1.0, 1.0 - half_width, 1.0 + half_width, name=name, dimension=dimension, nominal=1.0, prior=(0.5, 1.5), status=status,
    )  # fmt: skip


def test_the_best_gain_per_hour_comes_first_and_every_number_says_why():
    made = make_plan(Needs(costs=(CONTACT, LATENCY), regions=(FAR,), successes=66, trials=100), Costs())
    rates = [item.gain_per_hour for item in made.items]
    assert rates == sorted(rates, reverse=True) and len(rates) == 3
    assert made.success == 0.66
    for item in made.items:
        assert item.gain.low <= item.gain.points <= item.gain.high
        assert "power 80%" in item.power or "no trials" in item.power
        assert item.minutes > 0 and item.command.startswith("twinloop ")
    assert made.trials > 0 and made.hours > sum(item.hours for item in made.items)


def test_contact_needs_real_data_and_places_can_be_simulated():
    forced = region("wrist_force.z above 5 N", "wrist_force.z", "N", 5.0, 9.0, 0.1, 10)
    needs = Needs(costs=(CONTACT,), regions=(FAR, forced), twin="franka_pick_place")
    items = {item.id: item for item in make_plan(needs, Costs()).items}
    assert "force-regulated" in items["contact-1"].required and items["contact-1"].simulation.startswith("no")
    assert items["region-1"].required is None
    assert "object_offset_x_m of franka_pick_place" in items["region-1"].simulation
    assert items["region-2"].required == "force-regulated contact" and items[
        "region-2"
    ].simulation.startswith("no")


def test_what_cannot_be_set_up_is_not_asked_for():
    own = region("gripper.target between 0 and 0.08 m", "gripper.target", "m", 0.0, 0.08, 0.7, 9)
    high = replace(FAR, conditions=(*FAR.conditions, Range("object.z at the start", "m", low=0.0, high=0.01)))
    made = make_plan(Needs(regions=(own, high)), Costs(), sources={"diagnosis": "d", "coverage": "c"})
    [item] = made.items
    assert item.title == FAR.name and all(set(one) == {"object.x at the start, m"} for one in item.settings)
    assert any("gripper.target" in line and "set up before" in line for line in made.assumptions)
    assert any("names no dimension" in line for line in made.assumptions)


def test_what_the_twin_cannot_set_is_not_promised_from_simulation():
    strange = region("smoke above 3", "smoke", "1", 3.0, 9.0, 0.1, 10)
    [item] = make_plan(Needs(regions=(strange,), twin="franka_pick_place"), Costs()).items
    assert item.simulation == "no: nothing in franka_pick_place sets smoke"


def test_unknown_parameters_become_excitation_runs():
    unknown = (
        estimate("action_delay_s", "latency", "weak", 0.4),
        estimate("joint1_friction_nm", "actuation", "not identifiable", 0.9),
    )
    made = make_plan(Needs(costs=(LATENCY,), unidentified=unknown, twin="franka_pick_place"), Costs())
    [item] = made.items  # the loss in latency is what the runs are for
    assert item.kind == "excitation" and item.unit == "runs" and item.episodes == 20
    assert (
        "--parameters action_delay_s,joint1_friction_nm" in item.command and "twinloop excite" in item.command
    )
    assert 9.0 < item.gain.points < 21.0
    [blind] = make_plan(Needs(unidentified=unknown), Costs()).items
    assert blind.gain.points is None and blind.gain_per_hour is None and str(blind.gain) == "not estimated"


def test_many_unknown_parameters_do_not_make_a_long_title():
    unknown = tuple(estimate(f"p{k}", "actuation", "weak", 0.5) for k in range(14))
    [item] = make_plan(Needs(unidentified=unknown), Costs()).items
    assert item.title == "excitation runs for p0, p1, p2 and 11 more" and "p13 (weak)" in item.why


def test_what_is_identified_is_simulated_and_not_recorded_again():
    needs = Needs(costs=(LATENCY,), identified=frozenset({"latency"}), twin="franka_pick_place")
    [item] = make_plan(needs, Costs()).items
    assert item.episodes == 0 and item.kind == "nothing" and item.simulation.startswith("yes, first")
    assert "twinloop generate" in item.command and item.gain.points > 0.0


def test_only_what_a_diagnosis_names_is_planned_for_and_folders_are_read(tmp_path):
    make_diagnosis().save(tmp_path)
    kinds = (("a", "latency", "identifiable"), ("b", "actuation", "weak"), ("c", "actuation", "identifiable"))
    estimates = tuple(estimate(*kind, 0.1) for kind in kinds)
    replace(make_identification("cell"), estimates=estimates).save(tmp_path / "cell")
    found = read_needs(tmp_path, identification=tmp_path / "cell")
    [cost] = found.costs
    assert (cost.dimension, cost.points, found.trials) == ("actuation", pytest.approx(55.0), 16)
    assert [one.condition for one in found.slices] == ["object x below 0.5", "object x above 0.5"]
    assert found.identified == {"latency"}
    assert [one.name for one in found.unidentified] == ["b"]
    with pytest.raises(WrongUse, match=r"(?s)coverage\.json.*--out"):
        read_needs(coverage=tmp_path)


def test_conditions_under_which_it_fails_are_recorded_when_no_coverage_is_known():
    slices = (
        Slice("object x above 0.51", 22, 30),
        Slice("object x below 0.51", 8, 30),
        Slice("order of recording above 30", 25, 30),
    )
    [item] = make_plan(Needs(slices=slices, successes=30, trials=60), Costs()).items
    assert item.title == "object x above 0.51" and item.gain.low > 0.0
    assert "plan-condition-1" in item.command and "plan-condition-1" in item.counts


def test_costs_change_the_order():
    needs = Needs(costs=(LATENCY, CONTACT))
    assert make_plan(needs, Costs()).items[0].id == "latency-1"
    dear = Costs(excitation_run=500.0)
    assert make_plan(needs, dear).items[0].id == "contact-1"


def test_a_diagnosis_is_read_as_diagnose_writes_it_and_as_a_person_would(tmp_path):
    lost = Cost("latency", Interval(0.21, 0.15, 0.27), 0.2)
    halves = {
        "condition": "object x",
        "split_at": 0.51,
        "lower": [22, 30],
        "upper": [8, 30],
        "p_value": 0.001,
    }
    make_diagnosis(costs=(lost,), slices=(halves,), trials=60, successes=30).save(tmp_path)
    found = read_needs(tmp_path)
    assert found.costs == (DimensionCost("latency", 21.0, 15.0, 27.0),) and found.twin == "franka_pick_place"
    assert found.slices[1] == Slice("object x above 0.51", 22, 30)
    by_hand = {"losses": [{"dimension": "contact", "points": 14, "low": 9, "high": 19}]}
    (tmp_path / "b.json").write_text(json.dumps(by_hand))
    assert read_needs(tmp_path / "b.json").costs == (CONTACT,)


def test_what_is_no_evidence_is_refused(tmp_path):
    with pytest.raises(WrongUse, match="made from evidence"):
        plan()
    for text, message in (
        ("{", "not JSON"),
        ("{}", "is not a valid Diagnosis"),
        ('{"losses": [{"dimension": "latency"}]}', "losses.0.points"),
        ('{"losses": [{"dimension": "luck", "points": 9, "low": 1, "high": 12}]}', "no such gap dimension"),
    ):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(WrongUse, match=message):
            plan(diagnosis=tmp_path / "bad.json")
    with pytest.raises(WrongUse, match="not a valid Plan"):
        load_plan(tmp_path / "bad.json")
    with pytest.raises(WrongUse, match="cannot read"):
        load_plan(tmp_path / "none.json")


@pytest.fixture(scope="module")
def field(tmp_path_factory):
    """Real runs that fail far out, where nothing was simulated; the coverage of them and the plan that follows."""
    folder = tmp_path_factory.mktemp("field")
    real, sim = worlds.scenes(60, 1), worlds.scenes(150, 2)
    worlds.write(folder / "real", real, 0, source="real", fails=lambda s: s[0] > 0.54)
    worlds.write(folder / "sim", sim[sim[:, 0] < 0.54], 1000, source="sim")
    result = measure_coverage(folder / "real", folder / "sim")
    (folder / "coverage.json").write_text(json.dumps(result.as_json()))
    made = plan(coverage=folder / "coverage.json")
    (folder / "plan.json").write_text(json.dumps(made.as_json()))
    return folder, made


def test_a_plan_keeps_its_words(field, tmp_path):
    folder, made = field
    again = load_plan(folder / "plan.json")
    assert again == made
    page = write_plan_sheet(again, tmp_path / "sheet.html").read_text()
    assert page.count("☐") == sum(item.episodes for item in made.items)
    assert (
        "@media print" in page
        and "http:" not in page
        and "https:" not in page
        and made.items[0].title in page
    )


def test_status_counts_what_was_recorded_since_and_where(field):
    folder, made = field
    [item] = made.items
    assert item.kind == "demonstrations" and item.gain.points > 5.0
    before, after = (datetime.fromisoformat(made.made_at) + timedelta(hours=h) for h in (-1, 1))
    new = worlds.scenes(40, 5)
    new[:, 0] = [0.58] * 7 + [0.45] * 33
    worlds.write(folder / "new", new[:0], 0, source="real")
    with append_to(folder / "new") as writer:
        for number, scene in enumerate(new):
            moment = (after if number < 5 or number > 6 else before).astimezone(UTC)
            source = Provenance(source="real", actor="operator", actor_id="p1", recorded_at=moment)
            writer.add(worlds.episode(scene, 5000 + number, source="real", provenance=source))
    [done] = plan_status(made, [folder / "new"])
    assert (done.recorded, done.succeeded, done.left) == (5, 5, item.episodes - 5) and done.problem is None
    with pytest.raises(WrongUse, match="nothing to count in"):
        plan_status(made, [])


def test_an_item_that_cannot_be_counted_says_so(field, tmp_path):
    _, made = field
    from tests.datasets.examples import STATE_ONLY, toy_episode
    from twinloop.datasets.writer import make_dataset

    with make_dataset(tmp_path / "other", STATE_ONLY) as writer:
        writer.add(toy_episode(0))
    [done] = plan_status(made, [tmp_path / "other"])
    assert done.recorded == 0 and "the query failed" in done.problem


@pytest.mark.parametrize(
    ("after", "kept", "words"),
    [(62, True, "agrees"), (40, False, "smaller than promised"), (99, False, "larger than promised")],
)
def test_review_compares_the_promised_gain_with_the_one_reached(tmp_path, after, kept, words):
    made = make_plan(Needs(costs=(LATENCY,), successes=41, trials=100), Costs())
    for name, won in (("before", 410), ("after", 10 * after)):
        (tmp_path / f"{name}.json").write_text(
            json.dumps({"evaluations": [{"successes": won, "episodes": 1000}]})
        )
    found = plan_review(made, tmp_path / "before.json", tmp_path / "after.json", done_items=["latency-1"])
    assert found.kept is kept and words in found.verdict
    assert found.low <= found.gained <= found.high and found.gained == pytest.approx(after - 41)
    with pytest.raises(WrongUse, match="the same evaluation"):
        plan_review(made, tmp_path / "after.json", tmp_path / "after.json", done_items=["latency-1"])
    with pytest.raises(WrongUse, match="no such item"):
        plan_review(made, tmp_path / "before.json", tmp_path / "after.json", done_items=["x"])
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(WrongUse, match="not a valid EvaluationCounts"):
        plan_review(made, tmp_path / "bad.json", tmp_path / "after.json")


def test_a_few_trials_decide_nothing_and_are_not_called_agreement(tmp_path):
    made = make_plan(Needs(costs=(LATENCY,), successes=41, trials=100), Costs())
    for name, won in (("before", 2), ("after", 3)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"successes": won, "episodes": 4}))
    found = plan_review(made, tmp_path / "before.json", tmp_path / "after.json", done_items=["latency-1"])
    assert "undecided" in found.verdict and f"{made.trials} trials" in found.verdict
