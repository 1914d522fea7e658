"""Drift against known truth: what moved is named, with its dimension and its date; what did not is left alone."""

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import twinloop as tl
from twinloop.cli import main
from twinloop.errors import WrongUse
from twinloop.identification.drift import UNEXPLAINED, in_time_order, watch_drift
from twinloop.report.identification_plots import draw_drift
from twinloop.twins import load_twin

from .worlds import record

USUAL = {"motor_friction_nm": 0.02, "load_mass_kg": 0.49}
AT, COUNT, BASELINE = 14, 24, 12


def lifetime(change, seed=0, scatter=0.03, count=COUNT):
    """Episodes of one machine, each a little different, which changes for good at episode AT."""
    twin, rng = load_twin("servo_pendulum"), np.random.default_rng(seed)
    made = []
    for number in range(count):
        truth = {name: value * np.exp(scatter * rng.standard_normal()) for name, value in USUAL.items()}
        if number >= AT:
            truth = {**truth, **{name: truth.get(name, 1.0) * factor for name, factor in change.items()}}
        made.append(record(twin, truth, 100 * seed + number, seconds=1.0, rate_hz=100.0, quantum=0.001534))
    return made


def look(episodes, **how):
    return watch_drift(
        load_twin("servo_pendulum"), episodes, list(USUAL), baseline=BASELINE, threads=1, **how
    )


@pytest.fixture(scope="module")
def aged():
    return look(lifetime({"motor_friction_nm": 1.3}))


def test_friction_that_grew_is_an_ageing_actuator_and_no_changed_scene(aged):
    (change,) = aged.moved
    assert change.name == "motor_friction_nm" and aged.dimensions == ("actuation",)
    assert abs(change.began - AT) <= 1 and AT <= change.alarmed < AT + 10
    assert change.low <= 0.026 <= change.high and change.after / change.before == pytest.approx(1.3, rel=0.1)
    assert aged.as_json()["drift"] is True


def test_a_heavier_load_is_a_changed_scene_also_on_the_command_line(tmp_path, monkeypatch, capsys):
    episodes = lifetime({"load_mass_kg": 1.3}, seed=1)
    with tl.make_dataset(tmp_path / "real", episodes[0].schema) as writer:
        for episode in episodes:
            writer.add(episode)
    words = ["--twin", "servo_pendulum", "--parameters", ",".join(USUAL), "--baseline", BASELINE]
    words += ["--plot", tmp_path / "drift.png", "--threads", 1, "--json"]
    monkeypatch.setattr(sys, "argv", ["twinloop", "drift", str(tmp_path / "real"), *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 1, "drift was found"
    found = json.loads(capsys.readouterr().out)
    assert found["dimensions"] == ["object"]
    assert [c["name"] for c in found["changes"] if c["role"] == "moved"] == ["load_mass_kg"]
    assert (tmp_path / "drift.png").stat().st_size > 1000


def test_a_machine_that_stays_as_it_is_raises_nothing():
    found = look(lifetime({}, seed=2))
    assert found.changes == () and found.unwatched == () and found.dimensions == ()
    assert [series.name for series in found.series] == [*USUAL, UNEXPLAINED]
    assert all(max(series.evidence) < 0.0 for series in found.series)
    assert all(0.0 < series.scatter < 0.2 * abs(series.level) for series in found.series[:2])


@pytest.mark.slow
def test_a_change_in_an_unlisted_parameter_is_noticed():
    found = look(lifetime({"torque_scale": 0.75}, seed=3, count=32))
    assert found.moved, "the servo lost a quarter of its strength"


def test_a_image_shows_every_series(aged, tmp_path):
    assert draw_drift(aged, tmp_path / "drift.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(WrongUse, match="PNG"):
        draw_drift(aged, tmp_path / "drift.pdf")


def test_episodes_are_taken_in_the_order_of_recording():
    episodes = lifetime({})[:4]
    start = datetime(2026, 1, 1, tzinfo=UTC)
    dated = [
        replace(e, provenance=replace(e.provenance, recorded_at=start - timedelta(hours=i)))
        for i, e in enumerate(episodes)
    ]
    assert [e.id for e in in_time_order(dated)] == [e.id for e in reversed(dated)]
    assert in_time_order([*dated[:2], episodes[2]]) == [*dated[:2], episodes[2]]


def test_too_little_is_refused():
    episodes = lifetime({})[:6]
    with pytest.raises(WrongUse, match="too few episodes"):
        watch_drift(load_twin("servo_pendulum"), episodes, list(USUAL), baseline=6)
    with pytest.raises(WrongUse, match="too few episodes"):
        watch_drift(load_twin("servo_pendulum"), episodes, list(USUAL), baseline=2)
    with pytest.raises(WrongUse, match="between 0 and 1"):
        watch_drift(load_twin("servo_pendulum"), episodes, list(USUAL), baseline=5, chance=0.0)
