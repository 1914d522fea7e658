"""Every simulated episode can be replayed bit for bit from what its dataset stores."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

import twinloop as tl
from twinloop.datasets.layout import TWINS
from twinloop.datasets.merge import merge
from twinloop.errors import GenerationError, WrongUse
from twinloop.generation.open_loop import replay_actions
from twinloop.generation.record import load_generation, recorded_job, this_build
from twinloop.generation.replay import replay
from twinloop.generation.run import generate, make_job
from twinloop.randomization import load_randomization

CONFIG = {
    "name": "small",
    "scene": {"robot": "franka_panda", "task": "pick_and_place"},
    "randomization": {
        "physics": {
            "object_mass_kg": [0.05, 0.4],
            "friction_coefficient": [0.2, 1.1],
            "object_position_noise_cm": [-2, 2],
            "action_delay_s": [0.0, 0.04],
            "encoder_noise_rad": [0.0, 0.002],
        },
        "visual": {"lighting_intensity": [0.3, 1.8]},
    },
}
EPISODES = 12


@pytest.fixture(scope="module")
def twin():
    return tl.load_twin("franka_pick_place").with_values(object_mass_kg=0.12)


@pytest.fixture(scope="module")
def job(twin):
    return make_job(twin, load_randomization(CONFIG, twin), expert_noise=0.3, max_steps=150)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, job):
    return generate(job, episodes=EPISODES, seed=5, out=tmp_path_factory.mktemp("sim") / "sim-v1", workers=2)


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_every_episode_is_made_again_bit_for_bit(dataset, threads):
    for number in range(0, EPISODES, threads):
        result = replay(dataset, number, threads=threads)
        assert result.same, result.differences
        assert result.replayed.id == result.original.id
        assert not result.build_changes
        assert all(error.largest == 0.0 for error in result.errors)


def test_provenance_says_everything_needed(dataset, twin):
    for number in range(EPISODES):
        made = dataset.episode(number).provenance
        assert made.source == "sim" and made.actor == "expert" and made.recorded_at is None
        assert (made.twin, made.twin_version, made.twin_hash) == (twin.name, twin.version, twin.content_hash)
        assert made.engine and made.engine_version and made.seed is not None and made.actor_id
        assert set(made.draw) >= {"object_mass_kg", "action_delay_s"} and made.randomization == "small"
        assert set(made.software) >= {"twinloop", "numpy"}


def test_the_kept_record_is_the_job_that_ran(dataset, job):
    record = load_generation(dataset.root, dataset.id)
    assert record.seed == 5 and record.episodes == EPISODES and record.build == this_build()
    kept = recorded_job(dataset.root, record)
    assert kept.twin.content_hash == job.twin.content_hash
    assert replace(kept, twin=job.twin) == job


def test_an_edited_record_is_noticed(dataset, tmp_path):
    copy = shutil.copytree(dataset.root, tmp_path / "copy")
    path = next((copy / "meta/twinloop/generation").iterdir())
    path.write_text(path.read_text().replace('"seed": 5', '"seed": 6'))
    with pytest.raises(GenerationError, match="was edited"):
        load_generation(copy, dataset.id)


def test_merged_episodes_can_still_be_made_again(dataset, job, tmp_path):
    other = generate(job, episodes=4, seed=6, out=tmp_path / "sim-v2", workers=1)
    merged = merge([other.root, dataset.root], tmp_path / "merged").dataset
    for number in (0, 3, 4, 4 + 9):
        assert replay(merged, number).same


def test_another_build_is_named(dataset, monkeypatch):
    monkeypatch.setattr(
        "twinloop.generation.replay.this_build", lambda engine: this_build(engine) | {"mujoco": "99.0"}
    )
    changes = replay(dataset, 0).build_changes
    assert len(changes) == 1 and changes[0].startswith("mujoco:") and changes[0].endswith("99.0 now")


def test_another_or_a_lost_twin_is_refused(dataset, tmp_path):
    with pytest.raises(GenerationError, match="another twin"):
        replay(dataset, 0, twin=tl.load_twin("franka_pick_place"))
    copy = shutil.copytree(dataset.root, tmp_path / "copy")
    shutil.rmtree(copy / TWINS)
    with pytest.raises(GenerationError, match="is not stored"):
        replay(copy, 0)


def test_a_real_episode_is_not_made_again_but_its_actions_can_be_sent_to_a_twin(dataset, tmp_path, twin):
    episode = dataset.episode(2)
    real = replace(episode.with_provenance(source="real", engine=None), schema=episode.schema)
    with tl.make_dataset(tmp_path / "real", real.schema) as writer:
        writer.add(real)
    with pytest.raises(WrongUse, match="not simulated"):
        replay(tmp_path / "real", 0)
    nominal = replay_actions(real, twin)
    drawn = replay_actions(
        real, twin, {n: v for n, v in episode.provenance.draw.items() if "noise_rad" not in n}
    )
    assert nominal.replayed.provenance.parents == (real.id,)
    apart = {error.signal: error.root_mean_square for error in drawn.errors}
    assert apart["action"] == 0.0
    assert apart["observation.state"] < 2e-3
    assert (
        apart["simulation.object"]
        <= {e.signal: e.root_mean_square for e in nominal.errors}["simulation.object"]
    )


def test_actions_recorded_at_another_rate_are_held(dataset, twin):
    episode = dataset.episode(1)
    slow = tl.make_episode(
        replace(episode.schema, rate_hz=25.0),
        episode.time_s[::2],
        {name: rows[::2] for name, rows in episode.signals.items()},
    )
    result = replay_actions(slow, twin)
    assert abs(len(result.replayed) - len(episode)) <= 1
    np.testing.assert_array_equal(result.replayed["action"][:2], np.repeat(episode["action"][:1], 2, axis=0))


def test_actions_for_another_robot_are_refused(dataset):
    with pytest.raises(WrongUse, match="do not fit"):
        replay_actions(dataset.episode(0), tl.load_twin("servo_pendulum"))


def test_the_verb_can_be_called_by_the_package_name(tmp_path, job):
    assert len(tl.generate(job, episodes=1, seed=0, out=tmp_path / "one", workers=1)) == 1
    with pytest.raises(WrongUse, match="number of episodes is missing"):
        tl.generate("franka_pick_place", out=tmp_path / "none")
