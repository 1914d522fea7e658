"""Configs in the field's usual shape load; everything else says what is wrong and what would be right."""

import math

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from twinloop.errors import InvalidRandomization, TwinloopError, UnknownName, WrongUse
from twinloop.randomization import (
    Categorical,
    Constant,
    LogUniform,
    Mixture,
    Normal,
    Schedule,
    Uniform,
    WholeNumbers,
    distribution_from,
    explain,
    load_config_twin,
    load_generate_config,
    load_randomization,
    make_randomization,
)
from twinloop.twins import load_twin, save_twin

USUAL = """
scene: {robot: franka_panda, task: pick_and_place}
randomization:
  visual: {texture_pool: 200, lighting_intensity: [0.3, 1.8], camera_jitter_deg: [-5, 5]}
  physics: {object_mass_kg: [0.05, 0.4], friction_coefficient: [0.2, 1.1], object_position_noise_cm: [-2, 2]}
rollout: {parallel_envs: 4096, episodes_per_env: 50}
"""
TWIN = load_twin("franka_pick_place")


def load(**randomization):
    return load_randomization({"twin": "franka_pick_place", "randomization": randomization})


def test_the_usual_config_loads_unchanged(tmp_path):
    path = tmp_path / "seed.yaml"
    path.write_text(USUAL)
    config = load_generate_config(path)
    assert (config.name, config.episodes, config.rollout.parallel_envs) == ("seed", 204_800, 4096)
    assert load_config_twin(config).name == "franka_pick_place"
    randomization = load_randomization(path)
    assert randomization["texture_index"] == WholeNumbers(0, 199)
    assert randomization["light_intensity"] == Uniform(0.3, 1.8)
    for axis in ("yaw", "pitch", "roll"):
        assert randomization[f"camera_{axis}_rad"].high == pytest.approx(math.radians(5))
    assert randomization["object_mass_kg"] == Uniform(0.05, 0.4)
    assert randomization["object_friction"] == Uniform(0.2, 1.1)
    assert randomization["object_offset_x_m"] == Uniform(-0.02, 0.02)
    assert len(randomization.names) == 9


def test_explaining_names_dimension_unit_nominal_and_distribution():
    rows = {row.parameter: row for row in explain(load_randomization(yaml.safe_load(USUAL)))}
    mass = rows["object_mass_kg"]
    assert (mass.dimension, mass.unit, mass.nominal) == ("object", "kg", "0.1")
    assert mass.distribution == "uniform 0.05 to 0.4"
    assert rows["object_friction"].dimension == "contact"


def test_every_kind_of_distribution_can_be_written_in_yaml():
    randomization = load(
        object_mass_g={"log_uniform": [50, 400]},
        object_friction={"mixture": [{"weight": 3, "of": [0.5, 1.0]}, {"weight": 1, "of": {"normal": [0.2, 0.02]}}]},
        action_delay_ms={"truncated_normal": {"mean": 60, "std": 30, "low": 0, "high": 200}},
        object_colour=["red", "blue"],
        clutter_count=[0, 3],
        light_intensity={"schedule": {"from": 1.0, "to": [0.3, 1.8], "progress": [0, 0.5]}},
        object_yaw_deg=45,
        encoder_bias_deg={"normal": [0, 1]},
        correlated=[{"parameters": ["contact_time_s", "object_size_cm"], "mean": [0.01, 4.0], "std": [0.001, 0.2], "correlation": [[1, 0.5], [0.5, 1]]}],
    )  # fmt: skip
    assert randomization["object_mass_kg"] == LogUniform(0.05, 0.4)
    assert randomization["action_delay_s"] == Normal(0.06, 0.03, 0.0, 0.2)
    assert randomization["object_colour"] == Categorical(("red", "blue"))
    assert randomization["clutter_count"] == WholeNumbers(0, 3)
    assert randomization["object_yaw_rad"] == Constant(math.pi / 4)
    assert randomization["object_size_m"].std == pytest.approx(0.002)
    assert sum(name.endswith("_encoder_bias_rad") for name in randomization.names) == 7
    assert "becoming uniform 0.3 to 1.8 from progress 0 to 0.5" in str(randomization)


@pytest.mark.parametrize(
    ("randomization", "error", "words"),
    [
        ({"friction_coeficient": [0.2, 1]}, UnknownName, "did you mean 'friction_coefficient'"),
        ({"object_mas_kg": [0.2, 1]}, UnknownName, "did you mean 'object_mass_kg'"),
        ({"object_mass_m": [0.2, 1]}, InvalidRandomization, "did you mean 'object_mass_kg'"),
        ({"camera_jitter": [-1, 1]}, InvalidRandomization, "camera_jitter_rad or camera_jitter_deg"),
        ({"object_mass_kg": [0.4, 0.1]}, InvalidRandomization, r"expected \[0.1, 0.4\]"),
        ({"object_mass_kg": [50, 400]}, InvalidRandomization, "within 0.005 to 2 kg"),
        ({"object_mass_kg": -1}, InvalidRandomization, "outside its bounds"),
        ({"object_mass_kg": {"normal": [0.1, 0.5]}}, InvalidRandomization, "truncated_normal"),
        ({"object_mass_kg": {"normall": [0.1, 0.5]}}, InvalidRandomization, "normal, schedule"),
        ({"object_mass_kg": {"normal": [0.1]}}, InvalidRandomization, "cannot read 'normal'"),
        ({"object_mass_kg": {"log_uniform": [0, 1]}}, InvalidRandomization, "positive"),
        ({"object_mass_kg": [1, 2, 3]}, InvalidRandomization, r"\[low, high\]"),
        ({"object_mass_kg": "heavy"}, InvalidRandomization, "not a finite number"),
        ({"object_mass_kg": True}, InvalidRandomization, "not a distribution"),
        ({"object_colour": "magenta"}, InvalidRandomization, "available: as_drawn"),
        ({"clutter_count": 1.5}, InvalidRandomization, "whole"),
        ({"texture_pool": 0}, InvalidRandomization, "texture_pool is a number"),
        ({"visual": {"object_mass_kg": [0.1, 0.2]}}, InvalidRandomization, "section 'object' or 'physics'"),
        ({"contact": {"light_intensity": [0.5, 1]}}, InvalidRandomization, "section 'visual'"),
        ({"visual": [1, 2]}, InvalidRandomization, "not a mapping"),
        ({"enviroment": {"object_offset_x_m": [-0.1, 0.1]}}, UnknownName, "did you mean 'environment'"),
        ({"object_friction": 0.5, "friction_coefficient": 0.6}, InvalidRandomization, "twice"),
        ({"correlated": [{"parameters": ["object_friction"], "mean": [0.5]}]}, InvalidRandomization, "covariance"),
        (
            {"correlated": [{"parameters": ["object_friction", "object_mass_kg"], "mean": [0.5, 0.1], "covariance": [[1e-4, 2e-4], [2e-4, 1e-4]]}]},
            InvalidRandomization,
            "positive definite",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_with_the_remedy(randomization, error, words):
    with pytest.raises(error, match=words):
        load(**randomization)


@pytest.mark.parametrize(
    ("config", "error", "words"),
    [
        ({"randomisation": {}}, UnknownName, "did you mean 'randomization'"),
        ({"rollout": {"parallel_env": 3}}, UnknownName, "did you mean 'parallel_envs'"),
        ({"rollout": {"parallel_envs": 0}}, InvalidRandomization, "rollout.parallel_envs"),
        ({"rollout": {"parallel_envs": "many"}}, InvalidRandomization, "valid integer"),
        ({"scene": {"robot": "franka_panda"}}, InvalidRandomization, "scene.task"),
        ({"scene": {"robot": "franka_panda", "task": "push"}, "twin": "x"}, InvalidRandomization, "not both"),
    ],
)
def test_a_wrong_config_names_the_key(config, error, words):
    with pytest.raises(error, match=words):
        load_generate_config(config)


def test_a_config_must_say_which_cell_it_is_for():
    with pytest.raises(InvalidRandomization, match="which cell"):
        load_randomization({"randomization": {"object_mass_kg": 0.1}})
    with pytest.raises(UnknownName, match="did you mean 'franka_panda'"):
        load_randomization({"scene": {"robot": "franka", "task": "push"}})
    with pytest.raises(UnknownName, match="pick_and_place, push"):
        load_randomization({"scene": {"robot": "franka_panda", "task": "juggle"}})


def test_a_file_that_is_missing_or_not_yaml_is_named(tmp_path):
    with pytest.raises(WrongUse, match="cannot read"):
        load_randomization(tmp_path / "absent.yaml")
    (tmp_path / "bad.yaml").write_text("a: [1, 2")
    with pytest.raises(InvalidRandomization, match="not YAML"):
        load_randomization(tmp_path / "bad.yaml")
    (tmp_path / "list.yaml").write_text("- 1")
    with pytest.raises(InvalidRandomization, match="expected a mapping"):
        load_randomization(tmp_path / "list.yaml")


numbers = st.floats(0.03, 1.9, allow_nan=False).map(lambda x: round(x, 6))
ranges = st.tuples(numbers, numbers).map(sorted)
plain_distributions = st.one_of(
    numbers.map(Constant),
    ranges.map(lambda r: Uniform(*r)),
    ranges.map(lambda r: LogUniform(*r)),
    ranges.filter(lambda r: r[1] - r[0] > 0.01).map(
        lambda r: Normal(sum(r) / 2, (r[1] - r[0]) / 7, r[0], r[1])
    ),
    st.lists(numbers, min_size=1, max_size=4).map(lambda v: Categorical(tuple(v))),
)
distributions = st.one_of(
    plain_distributions,
    st.lists(st.tuples(plain_distributions, st.floats(0.1, 5)), min_size=1, max_size=3).map(
        lambda parts: Mixture(tuple(p for p, _ in parts), tuple(w for _, w in parts))
    ),
    st.tuples(plain_distributions, plain_distributions, st.booleans()).map(
        lambda s: Schedule(s[0], s[1], 0.0, 0.7 if s[2] else 900.0, s[2])
    ),
)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["object_friction", "servo_stiffness_scale", "light_intensity"]), distributions
    )
)
def test_a_randomization_survives_its_own_yaml(chosen):
    try:
        randomization = make_randomization(TWIN, chosen, name="any")
    except TwinloopError:
        return  # outside a parameter's bounds
    again = load_randomization(yaml.safe_load(randomization.to_yaml()))
    assert again == randomization
    assert again.content_hash == randomization.content_hash


@settings(max_examples=60, deadline=None)
@given(distributions, st.sampled_from([0.01, 2.0, math.pi / 180]))
def test_changing_the_unit_scales_every_quantile(distribution, factor):
    import numpy as np

    if isinstance(distribution, Schedule):
        distribution = distribution.over(100)
    uniform = np.linspace(0.05, 0.95, 10).reshape(5, 2)
    episodes = np.arange(5)
    np.testing.assert_allclose(
        distribution.scaled(factor).quantile(uniform, episodes),
        factor * distribution.quantile(uniform, episodes),
        rtol=1e-6,
    )


def test_the_content_hash_follows_content_and_not_name_or_order():
    first = load(object_mass_kg=[0.1, 0.2], object_friction=[0.3, 0.5])
    second = load(object_friction=[0.3, 0.5], object_mass_kg=[0.1, 0.2])
    other = load(object_friction=[0.3, 0.5], object_mass_kg=[0.1, 0.21])
    assert first.content_hash == second.content_hash != other.content_hash


def test_a_variation_prints_itself_with_unit_and_nominal():
    assert str(load(object_mass_kg=[0.05, 0.4])) == "object_mass_kg: uniform 0.05 to 0.4 kg (nominal 0.1 kg)"
    assert str(distribution_from({"normal": [0, 1]})) == "normal 0 ± 1"


def test_a_twin_folder_is_found_beside_the_config_wherever_one_stands(tmp_path, monkeypatch):
    save_twin(load_twin("servo_pendulum"), tmp_path / "cell/twins/mine")
    (tmp_path / "cell/seed.yaml").write_text("twin: twins/mine\n")
    monkeypatch.chdir(tmp_path)
    twin = load_config_twin(load_generate_config("cell/seed.yaml"))
    assert twin.content_hash == load_twin("servo_pendulum").content_hash
