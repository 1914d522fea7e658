"""Training: recipes, repeatability, resuming, and what is refused."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.learning.examples import TINY, Standin, point
from twinloop.cli.options import make_config
from twinloop.consent.records import add_consent
from twinloop.consent.withdraw import withdraw_consent
from twinloop.datasets.labels import add_labels
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.writer import make_dataset
from twinloop.errors import ConsentError, DamagedDataset, LearnError, QualityError, UnknownName, WrongUse
from twinloop.learning import fit
from twinloop.learning.config import TrainConfig
from twinloop.learning.samples import Batch
from twinloop.learning.train import train
from twinloop.policies.networks.policy import load_policy
from twinloop.quality.check import check_dataset
from twinloop.quality.require import override
from twinloop.quality.settings import Settings
from twinloop.testing.robots import FakeRobot
from twinloop.workspace import init_workspace

REAL = replace(TINY, recipe="real-only")


class Stopped(Exception):
    """Somebody pressed Ctrl-C."""


def stop_at(step):
    def on_validation(point, steps):
        if point.step == step:
            raise Stopped

    return on_validation


def changed(dataset, out, **signals):
    """A copy of a dataset with some signals replaced by a function of them."""
    with make_dataset(out, dataset.schema) as writer:
        for episode in dataset:
            made = dict(episode.signals) | {name: f(episode[name]) for name, f in signals.items()}
            writer.add(replace(episode, signals=made))
    return open_dataset(out)


def test_the_validation_error_falls_and_the_same_seed_gives_the_same_policy(panda_data, tmp_path):
    config = replace(TINY, steps=60, validate_every=20)
    first = train(panda_data, out=tmp_path / "a", config=config)
    curve = [p["validation"] for p in first.training_record.results["curve"]]
    assert curve[-1] < curve[0] and first.training_record.results["validation"] == min(curve)
    again = train(panda_data, out=tmp_path / "b", config=config)
    other = train(panda_data, out=tmp_path / "c", config=replace(config, seed=1))
    assert again.id == first.id != other.id


@pytest.mark.parametrize(("step", "head"), [(10, "regression"), (15, "transformer")])
def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(panda_data, tmp_path, step, head):
    config = replace(TINY, head=head)
    whole = train(panda_data, out=tmp_path / "whole", config=config)
    with pytest.raises(Stopped):
        train(panda_data, out=tmp_path / "cut", config=config, on_validation=stop_at(step))
    with pytest.raises(LearnError, match="unfinished"):
        train(panda_data, out=tmp_path / "cut", config=config)
    with pytest.raises(LearnError, match="another run; got width"):
        train(panda_data, out=tmp_path / "cut", config=replace(config, width=17), resume=True)
    resumed = train(panda_data, out=tmp_path / "cut", config=config, resume=True)
    assert resumed.id == whole.id
    steps = [p["step"] for p in resumed.training_record.results["curve"]]
    assert steps == [p["step"] for p in whole.training_record.results["curve"]]
    assert not (tmp_path / "cut/.training").exists()


def test_fine_tuning_that_was_stopped_does_not_pretrain_again(tmp_path):
    sim, real = point(tmp_path / "sim"), point(tmp_path / "real", episodes=6)
    config = replace(TINY, recipe="pretrain-finetune", head="flow")
    whole = train(sim, real, out=tmp_path / "whole", config=config)
    heard = []

    def on_validation(point, steps):
        heard.append(point.stage)
        if point.stage == "finetune" and len(heard) == 6:
            raise Stopped

    with pytest.raises(Stopped):
        train(sim, real, out=tmp_path / "cut", config=config, on_validation=on_validation)
    heard.clear()
    resumed = train(sim, real, out=tmp_path / "cut", config=config, on_validation=on_validation, resume=True)
    assert set(heard) == {"finetune"} and resumed.id == whole.id
    assert [p["stage"] for p in resumed.training_record.results["curve"]] == ["pretrain"] * 4 + [
        "finetune"
    ] * 2


def test_training_stops_when_validation_no_longer_improves(tmp_path):
    data = point(tmp_path / "data")
    config = replace(REAL, steps=5000, validate_every=1, patience=3, learning_rate=1.0)
    made = train(real=data, out=tmp_path / "p", config=config)
    errors = [p["validation"] for p in made.training_record.results["curve"]]
    best = int(np.argmin(errors))
    assert len(errors) == best + 4 and len(errors) < 5000


@pytest.mark.parametrize("moves", ["head", "adapter"])
def test_fine_tuning_moves_what_it_says_and_nothing_else(tmp_path, moves):
    sim, real = point(tmp_path / "sim"), point(tmp_path / "real", episodes=6)
    before = train(sim, out=tmp_path / "before", config=TINY)
    config = replace(TINY, recipe="pretrain-finetune", finetune=moves, finetune_rate=0.01)
    after = train(real=real, out=tmp_path / "after", config=config, start=tmp_path / "before")
    was, now = before.network.state_dict(), after.network.state_dict()
    moved = {name for name in was if not np.array_equal(was[name], now[name])}
    expected = {"head": "head.", "adapter": "trunk.domain"}[moves]
    assert moved and all(name.startswith((expected, "trunk.domain")) for name in moved)
    added = {name for name in now if name not in was}
    assert bool(added) == (moves == "adapter") and all(".adapter." in name for name in added)
    assert after.domains == ("sim", "real")
    assert [entry["role"] for entry in after.training_record.datasets] == ["sim", "real"]


def test_co_training_tells_simulated_from_real(tmp_path):
    sim = point(tmp_path / "sim")
    real = changed(sim, tmp_path / "real", action=lambda a: a + np.float32(0.2))
    config = replace(
        TINY, recipe="co-train", mix=0.5, steps=300, validate_every=50, learning_rate=0.01, batch=64
    )
    made = train(sim, real, out=tmp_path / "p", config=config)
    seen = np.zeros((1, len(TINY.history), made.interface.observation_size), np.float32)
    apart = made.predict(seen, real=True)[0, 0] - made.predict(seen)[0, 0]
    assert np.allclose(apart, 0.2, atol=0.05), (
        "real demonstrations are answered as real, simulated ones as simulated"
    )


def test_a_policy_remembers_the_data_it_saw(tmp_path):
    data = point(tmp_path / "data", episodes=7)
    train(real=data, out=tmp_path / "p", config=REAL)
    entry = load_policy(tmp_path / "p").training_record.datasets[0]
    assert entry["id"] == data.id and entry["version"] == data.manifest.fingerprint
    assert len(entry["episodes"]) == 7 == entry["used"]


def test_a_recipe_says_which_data_it_needs(panda_data, tmp_path):
    with pytest.raises(WrongUse, match="needs real data"):
        train(panda_data, out=tmp_path / "p", config=replace(TINY, recipe="co-train"))
    with pytest.raises(WrongUse, match="no use for the real data"):
        train(panda_data, panda_data, out=tmp_path / "p", config=TINY)
    with pytest.raises(UnknownName, match="did you mean 'co-train'"):
        TrainConfig(recipe="cotrain")
    with pytest.raises(WrongUse, match="must last until"):
        TrainConfig(n_action_steps=20, inference_delay_steps=10)
    assert not (tmp_path / "p").exists()


def test_another_action_dimension_is_refused(panda_data, tmp_path):
    fake = point(tmp_path / "fake")
    config = replace(TINY, recipe="co-train", observations=("observation.state",))
    with pytest.raises(LearnError, match=r"another action than the policy; got 2 numbers; expected 8"):
        train(panda_data, fake, out=tmp_path / "p", config=config)


def test_data_without_a_success_is_refused(tmp_path):
    fake = Standin()
    fake.steer = lambda: np.full(2, -0.5)
    data = point(tmp_path / "failures", robot=fake)
    with pytest.raises(LearnError, match=r"no episode .* succeeded.*8 failures of 8"):
        train(real=data, out=tmp_path / "p", config=REAL)


def test_only_successes_are_learned_from_and_labels_count(tmp_path):
    data = point(tmp_path / "data", episodes=9)
    add_labels(data.root, [data.episode(0).id], {"success": False}, by="tester")
    made = train(real=data.root, out=tmp_path / "p", config=REAL)
    assert made.training_record.datasets[0]["used"] == 8
    assert data.episode(0).id not in made.training_record.datasets[0]["episodes"]


def test_too_few_episodes_are_refused(tmp_path):
    data = point(tmp_path / "few", episodes=4)
    with pytest.raises(LearnError, match=r"too few .* got 4 usable of 4; expected at least 5"):
        train(real=data, out=tmp_path / "p", config=REAL)


def test_data_that_does_not_fit_the_normalisation_is_refused(tmp_path):
    sim = point(tmp_path / "sim")

    def shift(x):
        return x + np.float32(2.5)

    elsewhere = changed(sim, tmp_path / "elsewhere", **{"observation.state": shift, "action": shift})
    config = replace(TINY, recipe="pretrain-finetune")
    with pytest.raises(LearnError, match=r"does not fit the normalisation .* standard deviations away"):
        train(sim, elsewhere, out=tmp_path / "p", config=config)


def test_a_persons_demonstrations_need_consent(tmp_path):
    unnamed = point(tmp_path / "unnamed", robot=FakeRobot())
    expired = point(tmp_path / "unknown", robot=FakeRobot(), consent="consent-9")
    for data in (unnamed, expired):
        with pytest.raises(ConsentError, match="may not be used to train"):
            train(real=data, out=tmp_path / "p", config=REAL, workspace=tmp_path)


def test_who_withdraws_consent_is_told_of_every_policy_that_learned_from_them(tmp_path):
    workspace = init_workspace(tmp_path / "cell").root
    (tmp_path / "signed.txt").write_text("yes")
    people = {}
    for number in (7, 8):
        given = add_consent(workspace, f"person-{number}", ["train"], document=tmp_path / "signed.txt")
        words = {"operator": f"person-{number}", "consent": given.id, "first": 10 * number}
        data = point(workspace / f"data/by-{number}", robot=FakeRobot(), **words)
        train(real=data, out=workspace / f"policies/of-{number}", config=REAL, workspace=workspace)
        people[number] = given.id
    told = withdraw_consent(workspace, people[7], by="tester", reason="asked to")
    assert [policy.name for policy in told.policies] == ["of-7"]
    assert not (workspace / "data/by-7").exists() or len(open_dataset(workspace / "data/by-7")) == 0
    assert len(open_dataset(workspace / "data/by-8")) == 8


def test_data_of_blocked_quality_is_refused(tmp_path):
    data = point(tmp_path / "data")
    broken = changed(data, tmp_path / "nan", **{"observation.state": lambda x: np.where(x > 0.4, np.nan, x)})
    with pytest.raises(QualityError, match="cannot be used to train"):
        train(real=broken, out=tmp_path / "p", config=REAL)


def test_what_is_wrong_with_a_failed_episode_does_not_matter(tmp_path):
    data = point(tmp_path / "data")
    with make_dataset(tmp_path / "mixed", data.schema) as writer:
        for number, episode in enumerate(data):
            if number == 3:
                broken = episode.signals | {
                    "observation.state": np.full_like(episode["observation.state"], np.nan)
                }
                failed = replace(episode.outcome, success=False, failure="dropped")
                episode = replace(episode, signals=broken, outcome=failed)
            writer.add(episode)
    made = train(real=tmp_path / "mixed", out=tmp_path / "p", config=REAL)
    assert len(made.training_record.datasets[0]["episodes"]) == len(data) - 1


def test_some_of_the_simulation_is_shown_as_real_and_nothing_real_as_simulated():
    domain = np.repeat([0.0, 1.0], 2000).astype(np.float32)[:, None]
    none = np.zeros((len(domain), 0), np.float32)
    batch = Batch(none, none, none, domain, none)
    lent = fit._relabel_as_real(batch, 0.1, np.random.default_rng(0)).domain[:, 0]
    assert lent[:2000].mean() == pytest.approx(0.1, abs=0.02) and np.all(lent[2000:] == 1.0)
    assert np.array_equal(fit._relabel_as_real(batch, 0.0, np.random.default_rng(0)).domain, domain)
    with pytest.raises(WrongUse, match="sim_as_real_fraction is out of range"):
        replace(TINY, sim_as_real_fraction=1.0)


def test_swapped_sides_and_one_data_set_on_both_are_refused(panda_data, tmp_path):
    shown = point(tmp_path / "real", episodes=6)
    config = replace(TINY, recipe="co-train")
    with pytest.raises(WrongUse, match="swapped"):
        train(shown, panda_data, out=tmp_path / "p", config=config)
    with pytest.raises(WrongUse, match="as simulated and as real"):
        train(shown, shown, out=tmp_path / "p", config=config)
    assert not (tmp_path / "p").exists()


def test_files_that_were_changed_after_their_commit_are_refused(tmp_path):
    shown = point(tmp_path / "real", episodes=6)
    train(None, shown, out=tmp_path / "p", config=replace(TINY, recipe="real-only"))
    file = next((tmp_path / "real/data").rglob("*.parquet"))
    file.write_bytes(file.read_bytes() + b"more")
    with pytest.raises(DamagedDataset, match="not what was committed"):
        train(None, shown, out=tmp_path / "q", config=replace(TINY, recipe="real-only"))


def test_one_folder_is_trained_by_one_process_at_a_time(tmp_path):
    data = point(tmp_path / "real")
    refused = []

    def on_validation(point, steps):
        if not refused:  # before the first checkpoint: whoever is refused must not clear anything away
            with pytest.raises(LearnError, match=r"is being trained by process \d+") as caught:
                train(real=data, out=tmp_path / "p", config=REAL, resume=True)
            refused.append(caught)

    made = train(real=data, out=tmp_path / "p", config=REAL, on_validation=on_validation)
    assert refused and load_policy(tmp_path / "p").id == made.id
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == ["policy.json", "weights.safetensors"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"history": (-0.5, 0)}, "whole numbers"),
        ({"history": (0, -5)}, "must end with now"),
        ({"cameras": (3,)}, "cameras are names"),
        ({"adapt_weight": math.nan}, "adapt_weight is out of range"),
        ({"mix": math.nan}, "mix is out of range"),
        ({"learning_rate": math.inf}, "positive number"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(wrong, said):
    with pytest.raises(WrongUse, match=said):
        TrainConfig(**wrong)


def test_fine_tuning_goes_on_from_all_that_the_policy_has(tmp_path):
    sim, real = point(tmp_path / "sim"), point(tmp_path / "real", episodes=6)
    tune = replace(TINY, recipe="pretrain-finetune", finetune="adapter", adapter_rank=4)
    first = train(sim, real, out=tmp_path / "first", config=tune).with_action_steps(5)
    first.save(tmp_path / "shorter")
    start = tmp_path / "shorter"
    again = train(real=real, start=start, out=tmp_path / "again", config=TrainConfig(recipe="pretrain-finetune", finetune_steps=5, validate_every=5))  # fmt: skip
    names = {name for name in again.network.state_dict() if ".adapter." in name}
    assert again.network.shape == first.network.shape and names and again.execution == first.execution
    assert again.training_record.twin == first.training_record.twin
    for wrong, said in (({"adapter_rank": 8}, "an adapter already"), ({"width": 99}, "another width")):
        with pytest.raises(WrongUse, match=said):
            train(real=real, start=start, out=tmp_path / "no", config=replace(tune, **wrong))
    assert not (tmp_path / "no").exists()


def test_what_fails_before_the_first_step_stands_in_nobodys_way(tmp_path):
    real = point(tmp_path / "real")
    for wrong in ({"width": 10**10}, {"chunk": 10**11, "n_action_steps": 3}):
        with pytest.raises(LearnError, match=r"too little memory .* width"):
            train(real=real, out=tmp_path / "p", config=replace(REAL, **wrong))
        assert not (tmp_path / "p").exists()
    train(real=real, out=tmp_path / "p", config=REAL)


def test_an_observation_that_nobody_made_is_refused(tmp_path):
    real = point(tmp_path / "real")
    with pytest.raises(UnknownName, match=r"observation\.stat"):
        train(
            real=real,
            out=tmp_path / "p",
            config=replace(REAL, observations=("observation.state", "observation.stat")),
        )


def test_readings_beyond_all_measure_are_refused(tmp_path):
    def spoil(values):
        spoiled = values.copy()
        spoiled[3] = 1e30
        return spoiled

    data = changed(point(tmp_path / "real"), tmp_path / "spoiled", **{"observation.state": spoil})
    report = check_dataset(data, Settings(purpose="train"))
    for code in {finding.code for finding in report.blocking}:
        override(report, data, code, "ann", "it was like that")
    with pytest.raises(LearnError, match=r"too large to learn from; got up to 1e\+30"):
        train(real=data, out=tmp_path / "p", config=REAL)
    assert not (tmp_path / "p").exists()


def test_options_are_read_as_a_person_writes_them():
    assert make_config(TrainConfig, {}, ["learning_rate=1e-3", "mix=.5", "history=[-3, 0]"]) == TrainConfig(
        learning_rate=1e-3, mix=0.5, history=(-3, 0)
    )
    for wrong in ("minutes=abc", "minutes=[1]", "learning_rate=fast", "observations=[1]", "steps=1e3"):
        with pytest.raises(WrongUse):
            make_config(TrainConfig, {}, [wrong])
