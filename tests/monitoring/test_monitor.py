"""The monitor against known truth: changes are named by kind, nothing else raises an alarm, and alerts are delivered."""

import json
import subprocess
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest

import twinloop as tl
from tests.identification.test_drift import BASELINE, USUAL, lifetime
from twinloop.errors import PolicyChanged, WrongUse
from twinloop.monitoring.alerts import load_alerts
from twinloop.monitoring.failures import UNSPECIFIED, collect_failures
from twinloop.monitoring.features import episode_features, usual_frames
from twinloop.monitoring.run import MonitorConfig, monitor
from twinloop.monitoring.shifts import find_shifts, kind_of
from twinloop.monitoring.success import first_alarm, follow_success, running_band, success_over_time
from twinloop.monitoring.watch import REPORTS, find_reports
from twinloop.promotion.checks import Subject, run_checks
from twinloop.promotion.evidence import Contender, Evidence
from twinloop.promotion.rules import Rules
from twinloop.twins import load_twin

SCHEMA = tl.Schema(
    signals=(
        tl.Signal("observation.state", (2,), ("rad",), elements=("a.pos", "b.pos")),
        tl.Signal("observation.effort", (2,), ("N·m",), elements=("a.effort", "b.effort")),
        tl.Signal(
            "observation.environment_state", (3,), ("m",), elements=("object.x", "object.y", "object.z")
        ),
        tl.Signal("action", (2,), ("rad",), elements=("a.target", "b.target")),
    ),
    rate_hz=50.0,
    cameras=(tl.Camera("front", 32, 48),),
    robot_type="pair",
)
EPISODES = 15


def episode(seed, *, stiffness=8.0, friction=0.5, moved_m=0.0, dark=1.0, turned_px=0, success=True):
    """Two joints that follow a sine, an object that lies about, and a textured wall that a camera sees."""
    rng = np.random.default_rng(seed)
    time_s = np.arange(100) / 50.0
    command = np.stack([np.sin(3 * time_s + rng.uniform(0, 6)), np.cos(2 * time_s)], axis=1) * rng.uniform(
        0.4, 0.6
    )
    position = np.empty_like(command)
    position[0] = command[0]
    for row in range(1, 100):
        position[row] = position[row - 1] + stiffness / 50.0 * (command[row - 1] - position[row - 1])
    position += 0.001 * rng.standard_normal(position.shape)
    speed = np.gradient(position, axis=0) * 50.0
    effort = friction * np.tanh(speed / 0.05) + 0.3 * speed + 0.02 * rng.standard_normal(speed.shape)
    place = np.array([0.4 + moved_m, 0.0, 0.02]) + rng.uniform(-0.03, 0.03, 3) * [1, 1, 0]
    wall = np.random.default_rng(0).uniform(60, 200, (32, 64, 3))
    frame = wall[:, 8 + turned_px : 56 + turned_px] * dark + rng.normal(0, 2, (32, 48, 3))
    frames = np.broadcast_to(np.clip(frame, 0, 255).astype(np.uint8), (100, 32, 48, 3))
    signals = {
        "observation.state": position,
        "observation.effort": effort,
        "observation.environment_state": np.tile(place, (100, 1)),
        "action": command,
    }
    return tl.make_episode(
        SCHEMA,
        time_s,
        signals,
        frames={"front": frames},
        success=success,
        provenance=tl.Provenance("standin"),
    )


def detect(count=EPISODES, usual=25, **change):
    """What a change is taken for, after some episodes as before."""
    before = [episode(k) for k in range(usual)]
    frames = usual_frames(before)
    now = [episode(1000 + k) for k in range(4)] + [episode(2000 + k, **change) for k in range(count)]
    rows = [[episode_features(e, frames) for e in part] for part in (before, now)]
    shifts = find_shifts(*rows)
    return kind_of(shifts), shifts


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"stiffness": 6.0}, "actuator"),
        ({"friction": 1.0}, "actuator"),
        ({"moved_m": 0.06}, "scene"),
        ({"dark": 0.8}, "camera"),
        ({"turned_px": 3}, "camera"),
    ],
)
def test_an_aged_actuator_a_changed_scene_and_a_changed_camera_are_distinguished(change, kind):
    found, shifts = detect(**change)
    assert found == kind
    assert abs(shifts[0].began - 4) <= 2 and shifts[0].noticed < 4 + EPISODES


def test_nothing_is_noticed_where_nothing_changed():
    assert detect(count=60) == (None, ())


def test_a_shift_of_the_image_is_measured_in_pixels():
    before = [episode(k) for k in range(6)]
    found = episode_features(episode(50, turned_px=3), usual_frames(before))
    assert found["camera.shift.right.front"] == pytest.approx(-3.0, abs=1.0)
    assert found == episode_features(episode(50, turned_px=3), usual_frames(before)), (
        "the floor's noise is seeded"
    )


def test_fallen_success_is_noticed_and_expected_success_hardly_ever():
    rng = np.random.default_rng(0)
    assert first_alarm((rng.random(200) < 0.5).astype(float).tolist(), 0.9) < 30
    false = [first_alarm((rng.random(500) < 0.9).astype(float).tolist(), 0.9) is not None for _ in range(60)]
    assert np.mean(false) <= 0.2, "a mean time of 2,500 episodes to a false alarm: at most one run in five"
    found = follow_success([True] * 30 + [False] * 10, 0.9)
    assert found.fell is not None and 30 <= found.fell < 40 and found.low < 0.75 < found.high
    assert follow_success([], None).episodes == 0
    chances = np.concatenate([np.full(100, 0.95), np.full(100, 0.4)])
    missed = 0
    for _ in range(300):
        won, mean = np.cumsum(rng.random(200) < chances), np.cumsum(chances)
        bands = [running_band(int(w), k + 1) for k, w in enumerate(won)]
        missed += any(
            not low <= m / (k + 1) <= high for k, ((low, high), m) in enumerate(zip(bands, mean, strict=True))
        )
    assert missed / 300 <= 0.05, "the band holds at all times, also where success changes halfway"
    with pytest.raises(WrongUse, match="between 0 and 1"):
        follow_success([True], 1.0)


def deployed(path, **change):
    with tl.make_dataset(path, SCHEMA) as writer:
        for k in range(20):
            writer.add(episode(k))
        for k in range(EPISODES):
            writer.add(episode(100 + k, **change, success=k % 3 == 0))
    return tl.open_dataset(path)


def test_a_pass_says_what_to_do_and_the_gate_heeds_it(twinloop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    heard = []

    class Ear(BaseHTTPRequestHandler):
        def do_POST(self):
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *words):
            """Quiet."""

    server = HTTPServer(("127.0.0.1", 0), Ear)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        deployed(tmp_path / "used", stiffness=6.0)
        words = ("monitor", "used", "--baseline", 20, "--once", "--expected", 0.9, "--failures", "failures")
        url = f"http://127.0.0.1:{server.server_port}/hook"
        monkeypatch.setenv("TWINLOOP_WEBHOOK_ALLOW", "127.0.0.1")
        code, out, _ = twinloop(*words[:-2], "--webhook", "http://127.0.0.1:9/hook", "--json")
        assert code == 1 and len(json.loads(out)["webhook_errors"]) == 2 and not heard
        code, out, err = twinloop(*words, "--webhook", url, "--json")
        found = json.loads(out)
        assert code == 1 and found["kind"] == "aged actuator", err
        assert [alert["kind"] for alert in found["alerts"]] == ["aged actuator", "success fell"]
        assert "identify" in found["alerts"][0]["command"] and "rollback" in found["alerts"][1]["command"]
        assert [h["kind"] for h in heard] == ["aged actuator", "success fell"], "what it missed comes later"
        assert found["new_alerts"] == 0 and found["webhook_errors"] == []
        assert found["failures_copied"] == 10
        code, out, _ = twinloop(*words, "--webhook", url)
        assert code == 1 and "alert: aged actuator" in out and len(heard) == 2, "posted once"
        code, out, _ = twinloop("monitor", "used", "--last", "--json")
        assert code == 0 and json.loads(out)["shifts"] == found["shifts"]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    [kept] = (tmp_path / "used.monitor" / REPORTS).glob("*.json")
    report = tl.load_monitor_report(kept)
    band = success_over_time(report.success)
    assert len(report.success.outcomes) == report.success.episodes == band.episodes[-1]
    assert (band.low[-1], band.high[-1]) == (report.success.low, report.success.high)
    assert all(len(shift.values) == report.episodes for shift in report.shifts)
    alerts = load_alerts(tmp_path / "used.monitor")
    twin = load_twin("servo_pendulum")
    evidence = Evidence(Contender("a", "1"), None, {"hash": twin.content_hash})
    subject = Subject(
        evidence=evidence, rules=Rules(), twin=twin, alerts=tuple(vars(alert) for alert in alerts)
    )
    drift = next(check for check in run_checks(subject) if check.name == "drift")
    assert drift.blocks and "aged actuator" in drift.detail


def test_the_band_over_time_is_thinned_and_ends_where_it_is(tmp_path):
    outcomes = [k % 3 > 0 for k in range(500)]
    band = success_over_time(follow_success(outcomes, None), points=50)
    assert len(band.episodes) == 50 and band.episodes[-1] == 500
    assert band.rate[-1] == sum(outcomes) / 500 and band.low[-1] < band.rate[-1] < band.high[-1]
    assert success_over_time(follow_success([], None)).episodes == ()
    assert find_reports(tmp_path) == []


@pytest.mark.slow
def test_a_resolved_change_is_not_reported_again_and_a_later_one_is(twinloop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    last = list(deployed(tmp_path / "used", stiffness=6.0))[-1].id
    words = ("monitor", "used", "--baseline", 20, "--once", "--json")
    assert json.loads(twinloop(*words)[1])["new_alerts"] == 2
    with tl.append_to(tmp_path / "used") as writer:
        for k in range(40):
            writer.add(episode(200 + k))
    code, out, err = twinloop(*words, "--after", last)
    assert code == 0 and json.loads(out)["alerts"] == [], err
    with tl.append_to(tmp_path / "used") as writer:
        for k in range(EPISODES):
            writer.add(episode(300 + k, stiffness=6.0))
    code, out, _ = twinloop(*words, "--after", last)
    found = json.loads(out)
    assert code == 1 and [alert["kind"] for alert in found["alerts"]] == ["aged actuator"]
    assert found["new_alerts"] == 1 and json.loads(twinloop(*words, "--after", last)[1])["new_alerts"] == 0
    code, _, err = twinloop(*words[:-1], "--after", "missing")
    assert code == 2 and "has no such episode; got missing; expected an id such as" in err


def test_a_reference_in_which_another_actor_acted_is_no_reference_for_joints_and_success(tmp_path):
    with tl.make_dataset(tmp_path / "taught", SCHEMA) as writer:
        for k in range(25):
            made = episode(k, stiffness=4.0)
            writer.add(made.with_provenance(actor="operator"))
    with tl.make_dataset(tmp_path / "used", SCHEMA) as writer:
        for k in range(25 + EPISODES):
            late = k >= 25
            made = episode(100 + k, moved_m=0.06 if late else 0.0, success=k % 2 == 0)
            writer.add(made.with_provenance(actor="policy"))
    used, taught = tl.open_dataset(tmp_path / "used"), tl.open_dataset(tmp_path / "taught")
    found = monitor(used, taught, MonitorConfig(baseline=20))
    assert found.group == "scene" and {shift.group for shift in found.shifts} == {"scene"}
    assert found.success.expected is None and [alert.kind for alert in found.alerts] == ["changed scene"]
    assert abs(found.shifts[0].began - 25) <= 2
    with tl.make_dataset(tmp_path / "sim", SCHEMA) as writer:
        for k in range(8):
            writer.add(episode(k).with_provenance(source="sim"))
    with pytest.raises(WrongUse, match="simulated episodes are no reference"):
        monitor(used, tl.open_dataset(tmp_path / "sim"))


def test_an_episode_of_another_policy_than_the_one_in_use_ends_the_comparison(tmp_path):
    with tl.make_dataset(tmp_path / "used", SCHEMA) as writer:
        for k in range(26):
            acted = "pick@2b" if k == 25 else "pick@1a"
            writer.add(episode(k).with_provenance(actor="policy", actor_id=acted))
    used = tl.open_dataset(tmp_path / "used")
    assert monitor(used, None, MonitorConfig(baseline=20)).episodes == 6
    with pytest.raises(PolicyChanged, match=r"(?s)another policy acted in episode.*pick@2b.*pick@1a"):
        monitor(used, None, MonitorConfig(baseline=20, actor="pick@1a"))


def test_failures_become_a_dataset_of_failures(tmp_path):
    used = deployed(tmp_path / "used")
    assert collect_failures(used, tmp_path / "failures") == 10
    assert collect_failures(used, tmp_path / "failures") == 0, "each only once"
    kept = tl.open_dataset(tmp_path / "failures")
    originals = {used.episode(n).id for n in used.numbers if used.episode(n).success is False}
    found = [kept.episode(n) for n in kept.numbers]
    assert {parent for e in found for parent in e.provenance.parents} == originals
    assert all(e.success is False and e.outcome.failure == UNSPECIFIED for e in found)


def test_a_quiet_pass_ends_with_zero_and_bad_words_are_answered(twinloop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with tl.make_dataset("used", SCHEMA) as writer:
        for k in range(24):
            writer.add(episode(k))
    code, _, err = twinloop("monitor", "used", "--last")
    assert code == 2 and "has not been monitored" in err
    code, out, err = twinloop("monitor", "used", "--baseline", 16, "--once")
    assert code == 0 and "no alerts" in out, out + err
    for words, answer in (
        (("used", "--once", "--baseline", 2), "too few reference episodes"),
        (("gone", "--baseline", -3), "got a baseline of -3; expected at least 5"),
        (("used", "--once", "--parameters", "a"), "parameters need a twin"),
        (("used", "--every", 0), "--every must be positive"),
        (("used", "--once", "--webhook", "ftp://x"), "not the address of a webhook"),
        (("used", "--once", "--webhook", "https://"), "not the address of a webhook"),
        (
            ("used", "--once", "--failures", "../" + tmp_path.name + "/used"),
            "failures need a dataset of their own",
        ),
        (("used", "--reference", "other", "--failures", "other/"), "failures need a dataset of their own"),
    ):
        code, _, err = twinloop("monitor", *words)
        assert code == 2 and answer in err
    code, out, err = twinloop("monitor", "used", "--once")
    assert code == 1 and "got 24; expected more than the baseline of 30" in err and not out
    code, _, err = twinloop("monitor", "gone", "--once")
    assert code == 2 and "gone" in err


def test_the_monitor_logs_what_it_waits_for(tmp_path):
    words = ("monitor", "used", "--baseline", "8", "--every", "0.05")
    watching = subprocess.Popen(
        [sys.executable, "-m", "twinloop", *words],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert "waiting for used: there is no dataset yet" in watching.stderr.readline()
        for first, count in ((0, 5), (5, 7)):
            opened = tl.append_to if first else tl.make_dataset
            with opened(tmp_path / "used", schema=SCHEMA) as writer:
                for k in range(first, first + count):
                    writer.add(episode(k))
            if not first:
                assert any("waiting for more episodes: 5 of 9" in line for line in watching.stderr)
        assert "4 deployed episodes compared with 8 reference episodes" in watching.stdout.readline()
    finally:
        watching.kill()
        watching.communicate()


@pytest.mark.slow
def test_parameters_are_followed_through_identification(tmp_path):
    episodes = lifetime({"motor_friction_nm": 1.3})
    with tl.make_dataset(tmp_path / "used", episodes[0].schema) as writer:
        for made in episodes:
            writer.add(replace(made))
    twin = load_twin("servo_pendulum")
    config = MonitorConfig(baseline=BASELINE, twin=twin, parameters=tuple(USUAL), threads=1)
    found = monitor(tl.open_dataset(tmp_path / "used"), config=config)
    assert found.group == "actuator" and found.drift.moved[0].name == "motor_friction_nm"
    assert "motor_friction_nm" in found.alerts[0].what and found.alerts[0].changes_twin
