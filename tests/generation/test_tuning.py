"""A twin's fastest settings whose trajectories stay close to fine ones."""

import pytest

from tests.terminal import twinloop, twinloop_json
from twinloop.errors import WrongUse
from twinloop.generation.tuning import Setting, Tuning, apply_setting, tune_twin
from twinloop.records import load_record
from twinloop.twins import load_twin


def test_settings_are_written_into_the_model_and_make_another_version():
    twin = load_twin("franka_reach")
    tuned = apply_setting(twin, Setting(0.004, 1e-6))
    assert (tuned.physics_dt_s, tuned.substeps) == (0.004, 5)
    assert tuned.patch.model.opt.tolerance == 1e-6 and tuned.parent == twin.content_hash
    assert tuned.patch.model.opt.integrator == twin.patch.model.opt.integrator, "the rest stays"
    assert apply_setting(tuned, Setting(0.004, 1e-6)).content_hash == tuned.content_hash


def test_the_fastest_close_setting_is_chosen_and_saved_with_the_twin(tmp_path):
    said = twinloop_json("tune", "franka_reach", "--episodes", "3", "--out", "tuned", cwd=tmp_path)
    close = [one for one in said["tried"] if one["close"]]
    assert said["chosen"] == min(close, key=lambda one: one["cpu_s"])["setting"]
    assert load_twin(tmp_path / "tuned").physics_dt_s == said["chosen"]["timestep_s"]
    kept = load_record(Tuning, tmp_path / "tuned")
    assert kept.tried[0].setting == Setting(load_twin("franka_reach").physics_dt_s)


def test_tolerances_that_nothing_keeps_choose_nothing(tmp_path):
    said = twinloop("tune", "franka_reach", "--episodes", "1", "--joints", "1e-9", cwd=tmp_path, code=1)
    assert "no setting stays within" in said


def test_a_twin_without_a_task_cannot_be_tuned():
    from dataclasses import replace

    with pytest.raises(WrongUse, match="no task"):
        tune_twin(replace(load_twin("franka_reach"), task=""))
