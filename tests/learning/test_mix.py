"""Choosing the sim share: a cheap search that ends with the very policy that the share would have given."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from tests.learning.examples import TINY, point
from twinloop.datasets.writer import make_dataset
from twinloop.errors import LearnError, WrongUse
from twinloop.learning.mix import SHARES as SEVEN
from twinloop.learning.mix import (
    MixChoice,
    Probe,
    _scenes_in,
    best_share,
    choose_mix,
    load_choice,
    next_share,
    scores,
    train_auto,
    twin_of,
)
from twinloop.learning.train import train
from twinloop.policies.networks.policy import load_policy
from twinloop.twins import load_twin

CO = replace(TINY, recipe="co-train", steps=30, validate_every=5)


def shifted(source, out, by):
    """The same recordings with other commands."""
    with make_dataset(out, source.schema) as writer:
        for episode in source:
            signals = dict(episode.signals) | {"action": episode["action"] + np.float32(by)}
            writer.add(replace(episode, signals=signals))
    return out


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("mix")
    return point(root / "sim", episodes=10), point(root / "real", episodes=6, first=40)


def test_a_paused_training_goes_on_as_if_nothing_had_been(data, tmp_path):
    whole = train(*data, out=tmp_path / "whole", config=CO)
    paused = train(*data, out=tmp_path / "p", config=CO, pause_at=10)
    assert paused.training_record.results["curve"][-1]["step"] == 10
    assert not (tmp_path / "p/policy.json").exists()
    later = train(*data, out=tmp_path / "p", config=CO, pause_at=20, resume=True)
    assert [p["step"] for p in later.training_record.results["curve"]] == [
        5,
        10,
        15,
        20,
    ] and later.id != paused.id
    end = train(*data, out=tmp_path / "p", config=CO, resume=True)
    assert end.id == whole.id and load_policy(tmp_path / "p").id == whole.id
    with pytest.raises(WrongUse, match="a multiple of 5"):
        train(*data, out=tmp_path / "q", config=CO, pause_at=7)


def test_the_policy_is_the_one_that_its_share_gives_at_a_third_of_the_cost(data, tmp_path):
    lines = []
    made = train_auto(*data, out=tmp_path / "auto", config=CO, log=lines.append)
    choice = load_choice(tmp_path / "auto")
    assert made.training_record.config["mix"] == choice.share
    again = train(*data, out=tmp_path / "again", config=replace(CO, mix=choice.share))
    assert again.id == made.id, "bit for bit"
    assert choice.cost_updates <= 7 * CO.steps / 3
    assert {probe.updates for probe in choice.probes} == {10} and 3 <= len(choice.probes) <= 5
    assert lines[-1] == f"chose {choice.share:g}"
    assert {path.name for path in (tmp_path / "auto").iterdir()} == {
        "policy.json", "weights.safetensors", "mix.json",
    }  # fmt: skip
    assert not (tmp_path / "auto.mix").exists()


def test_more_simulation_is_chosen_where_it_helps_and_less_where_it_misleads(data, tmp_path):
    """Known truth: with the real commands in simulation, or with wrong ones that only the domain tells apart."""
    sim, real = data
    config = replace(CO, steps=120, validate_every=20, batch=32, learning_rate=3e-3)
    wrong = shifted(sim, tmp_path / "wrong", 0.5)
    choice = choose_mix(wrong, real, config=config, folder=tmp_path / "a", shares=(0.05, 0.97))
    assert choice.share == 0.05
    errors = {probe.share: probe.real_error for probe in choice.probes}
    assert errors[0.05] < errors[0.97]


def test_a_search_that_was_stopped_goes_on(data, tmp_path):
    class Stopped(Exception):
        pass

    lines = []

    def log(line):
        lines.append(line)
        if len(lines) == 2:
            raise Stopped

    with pytest.raises(Stopped):
        train_auto(*data, out=tmp_path / "p", config=CO, log=log)
    with pytest.raises(LearnError, match="unfinished search"):
        train_auto(*data, out=tmp_path / "p", config=CO)
    resumed = train_auto(*data, out=tmp_path / "p", config=CO, resume=True)
    whole = train_auto(*data, out=tmp_path / "whole", config=CO)
    assert resumed.id == whole.id
    assert load_choice(tmp_path / "p").probes == load_choice(tmp_path / "whole").probes


def test_both_scores_count_and_the_twin_decides_between_equals():
    def probes(*pairs):
        return [Probe(0.1 * k, 5, error, success) for k, (error, success) in enumerate(pairs)]

    assert np.argmax(scores(probes((0.3, 0.5), (0.2, 0.6), (0.4, 0.1)))) == 1, "best in both"
    assert np.argmax(scores(probes((0.2, 0.5), (0.3, 0.6)))) == 0, "one each: the error"
    assert np.argmax(scores(probes((0.2, 0.0), (0.1, 0.0), (0.3, 0.0)))) == 1, (
        "nothing succeeds yet: the error"
    )
    assert np.argmax(scores(probes((0.2, None), (0.1, None)))) == 1


def test_the_twin_of_simulated_data_is_found(panda_data, data):
    found = twin_of(panda_data)
    assert found is not None and found.name == "franka_pick_place"
    assert twin_of(data[1]) is None


def test_shares_are_tried_where_the_simulated_data_was(panda_data):
    where = _scenes_in(panda_data, load_twin("franka_pick_place"))
    assert where.names == ["object_offset_x_m", "object_offset_y_m"]
    assert (where["object_offset_x_m"].low, where["object_offset_x_m"].high) == (-0.05, 0.05)


def test_shares_are_tried_in_a_twin_as_on_a_robot(panda_data, tmp_path):
    config = replace(CO, steps=6, validate_every=1)
    other = shutil.copytree(panda_data.root, tmp_path / "other")
    choice = choose_mix(panda_data, other, config=config, folder=tmp_path / "m", shares=(0.3, 0.9), scenes=1)
    assert all(probe.twin_success in (0.0, 1.0) for probe in choice.probes)
    assert (
        isinstance(choice, MixChoice)
        and json.loads((tmp_path / "m/mix.json").read_text())["share"] == choice.share
    )


def test_what_cannot_be_searched_is_refused(data, tmp_path):
    with pytest.raises(WrongUse, match="only co-training"):
        choose_mix(*data, config=TINY, folder=tmp_path / "m")
    for shares in ((0.5,), (0.0, 0.5), (0.5, 1.0)):
        with pytest.raises(WrongUse, match="at least two shares between 0 and 1"):
            choose_mix(*data, config=CO, folder=tmp_path / "m", shares=shares)
    (tmp_path / "x").mkdir()
    (tmp_path / "x/mix.json").write_text("{}")
    with pytest.raises(WrongUse, match="not a valid MixChoice"):
        load_choice(tmp_path / "x")


@pytest.mark.parametrize("best", [0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 0.97])
def test_the_climb_finds_the_lowest_error_with_at_most_five_of_seven_shares(best):
    """Known truth: an error that falls to one share and rises after it."""
    found = {}
    while len(found) < 5 and (share := next_share(SEVEN, found)) is not None:
        found[share] = Probe(share, 5, abs(SEVEN.index(share) - SEVEN.index(best)) + 0.01 * share, None)
    assert best_share(found) == best


def test_a_training_too_short_to_compare_anything_says_so(data, tmp_path):
    with pytest.raises(WrongUse, match=r"got 3 updates; expected at least 5[\s\S]*validate_every=1"):
        choose_mix(*data, config=replace(CO, steps=3), folder=tmp_path / "search")
    assert not (tmp_path / "search").exists()
