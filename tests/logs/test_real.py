"""The recordings in shared/real, each ingested with its map from docs/maps, against what is known about them."""

import os
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest

from twinloop.datasets.verify import verify
from twinloop.logs.ingest import ingest
from twinloop.logs.log_map import load_map

ROOT = Path(__file__).parents[2]
REAL = Path(os.environ.get("TWINLOOP_REAL_DATA", ROOT.parent / "shared/real"))
MAPS = ROOT / "docs/maps"

SETS = {
    "so101": "so101",
    "cube_toss": "cube_toss",
    "servo_pendulum": "servo_pendulum",
    "simple_pendulum": "simple_pendulum",
    "simple_pendulum_fft": "simple_pendulum",
    "double_pendulum": "double_pendulum",
    "double_pendulum_tracking": "double_pendulum",
    "double_pendulum_noise": "double_pendulum",
    "double_pendulum_noise_100": "double_pendulum",
    "double_pendulum_diverged": "double_pendulum",
    "double_pendulum_velocity": "double_pendulum",
    "quanser_qube": "quanser",
    "quanser_qube_500": "quanser",
    "quanser_cartpole": "quanser",
    "g1_demos": "g1_demos",
}


NOT_RECORDINGS = {
    "README.md": "says what is there",
    "*/SOURCE.txt": "says where it comes from",
    "double_pendulum/columns.json": "names the columns of the tables",
    "double_pendulum/model_*.yml": "identified parameters",
    "servo_pendulum/published_params/*.json": "identified parameters",
    "simple_pendulum/pd_sysid_data_desired.csv": "the trajectory that pd_sysid_data_measured should follow",
    "sim_vs_real_success/*.json": "success rates",
    "handover/*.csv": "one handover between two people, without a robot",
    "scene_photos/*": "photographs and clips without robot data",
}
"""Files that no map is for, and what they are; docs/how-to/ingest.md says the same."""


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Ingests a real set once, by the name of its map."""
    made = {}

    def get(name):
        source = REAL / SETS[name]
        if not source.exists():
            pytest.skip(f"no real recordings at {source}; set TWINLOOP_REAL_DATA to the folder that has them")
        if name not in made:
            out = tmp_path_factory.mktemp("real") / name
            made[name] = ingest(source, out, load_map(MAPS / f"{name}.yaml"))
        return made[name]

    return get


def test_every_map_in_the_docs_is_for_a_known_set():
    assert {path.stem for path in MAPS.glob("*.yaml")} - {"isaaclab", "rosbag2_arm", "robomimic"} == set(SETS)


@pytest.mark.parametrize("name", SETS)
def test_what_is_ingested_verifies_and_is_real(real, name):
    done = real(name)
    assert verify(done.dataset.root).ok
    episode = done.dataset.episode(done.dataset.numbers[0])
    assert episode.provenance.source == "real"
    assert episode.events[0].kind == "ingested_from"
    assert done.dataset.manifest.history[0].operation == "ingested"


def test_so101_has_38_motions_whose_position_lags_the_command(real):
    done = real("so101")
    assert len(done.dataset) == 38
    assert all(stream.method == "exact" for stream in done.streams)
    assert all(stream.rate_hz == pytest.approx(49.85, abs=0.01) for stream in done.streams)
    errors = np.concatenate(
        [(episode["action"] - episode["observation.state"])[:, :5].astype(float) for episode in done.dataset]
    )
    assert np.sqrt(np.mean(errors**2, axis=0)).mean() == pytest.approx(0.0388, abs=0.0001)


def test_cube_tosses_are_w_first_and_omega_is_in_the_body_frame(real):
    done = real("cube_toss")
    assert len(done.dataset) == 400
    assert done.dataset.num_frames == 42468
    episode = done.dataset.episode(0)
    rotation = episode["observation.orientation"]
    omega = episode["observation.omega"]
    angle = np.linalg.norm(omega, axis=1, keepdims=True) / 148
    axis = omega / np.maximum(np.linalg.norm(omega, axis=1, keepdims=True), 1e-12)
    step = np.hstack([np.cos(angle / 2), np.sin(angle / 2) * axis])
    predicted = _product(rotation, step)[:-1]
    cosine = np.abs(np.sum(predicted * rotation[1:], axis=1))
    assert np.degrees(2 * np.arccos(np.clip(cosine, 0, 1))).mean() < 1.0


def test_an_omega_turned_into_the_world_frame_agrees_with_the_other_product(real, tmp_path):
    real("cube_toss")
    text = (
        (MAPS / "cube_toss.yaml")
        .read_text()
        .replace("frame: body", "frame: body, rotate_by: observation.orientation")
    )
    from twinloop.logs.log_map import parse_map

    turned = ingest(REAL / "cube_toss", tmp_path / "out", parse_map(text)).dataset.episode(3)
    plain = real("cube_toss").dataset.episode(3)
    vectors = np.hstack([np.zeros((len(plain), 1)), plain["observation.omega"]])
    rotation = plain["observation.orientation"]
    by_hand = _product(_product(rotation, vectors), rotation * [1, -1, -1, -1])[:, 1:]
    np.testing.assert_allclose(turned["observation.omega"], by_hand, atol=1e-9)


def _product(a, b):
    w, v = a[:, :1], a[:, 1:]
    x, u = b[:, :1], b[:, 1:]
    return np.hstack([w * x - np.sum(v * u, 1, keepdims=True), w * u + x * v + np.cross(v, u)])


def test_servo_runs_keep_their_gains_and_say_their_trajectory(real):
    dataset = real("servo_pendulum").dataset
    assert len(dataset) == 12
    assert {int(episode["observation.kp"][0, 0]) for episode in dataset} <= {100, 200, 400, 800}
    assert all(episode["observation.load_mass"][0, 0] == 0.49 for episode in dataset)
    assert any(episode.task.startswith("sin_sin, kp ") for episode in dataset)
    rates = [(len(episode) - 1) / episode.duration_s for episode in dataset]
    assert min(rates) > 180 and max(rates) < 260


def test_double_pendulum_noise_is_what_was_measured_before(real):
    for episode in real("double_pendulum_noise").dataset:
        assert 0 < episode["observation.state"].astype(float).std(axis=0).max() < 1e-3
        assert episode["observation.velocity"].std(axis=0).max() < 0.1


def test_double_pendulum_runs_at_500_hz(real):
    done = real("double_pendulum")
    assert len(done.dataset) == 8
    assert done.streams[0].rate_hz == pytest.approx(500, abs=1)
    assert np.abs(done.dataset.episode(0)["observation.torque"]).max() > 0.1


def test_pendulum_controllers_keep_their_own_rates(real):
    dataset = real("simple_pendulum").dataset
    rates = {episode.task: (len(episode) - 1) / episode.duration_s for episode in dataset}
    assert len(rates) == 7
    assert rates["gravity_compensation_data_measured"] == pytest.approx(1000, rel=0.01)
    assert rates["ilqr_data_measured"] == pytest.approx(50, rel=0.01)


def test_quanser_states_without_an_action_are_cut(real):
    done = real("quanser_qube")
    assert len(done.dataset) == 35
    assert next(s for s in done.streams if s.name == "observation.state").unused == 35
    assert len(done.dataset.episode(0)) == 2500
    assert len(real("quanser_cartpole").dataset) == 15


def test_g1_video_passes_through_and_shows_the_same_images(real):
    from twinloop.datasets.reader import open_dataset

    done = real("g1_demos")
    source = open_dataset(REAL / "g1_demos")
    assert source.numbers == [10, 28, 29, 30, 31]
    assert done.cameras == {"cam_high": "copied without re-encoding"}
    for position, number in enumerate(source.numbers):
        ours, theirs = done.dataset.episode(position), source.episode(number)
        assert np.array_equal(ours["action"], theirs["action"])
        assert np.array_equal(
            ours.frames["cam_high"][len(ours) // 2], theirs.frames["cam_high"][len(ours) // 2]
        )


def test_every_file_is_ingested_or_is_no_recording(real):
    if not REAL.exists():
        pytest.skip(f"no real recordings at {REAL}; set TWINLOOP_REAL_DATA to the folder that has them")
    covered, groups, taken = set(), set(), set()
    for name, folder in SETS.items():
        done = real(name)
        for episode in done.dataset:
            log, _, group = episode.events[0].detail.partition("#")
            covered.add(folder if (REAL / folder / "meta").exists() else f"{folder}/{log}")
            taken.add((folder, log, group))
        for left in done.skipped:
            log, _, group = left.partition("#")
            groups |= {(folder, log, group)} if group else set()
    missing = []
    for path in sorted(path for path in REAL.rglob("*") if path.is_file()):
        name = path.relative_to(REAL).as_posix()
        known = name in covered or name.split("/")[0] in covered
        if not known and not any(fnmatch(name, pattern) for pattern in NOT_RECORDINGS):
            missing.append(name)
    assert missing == []
    assert groups - taken == set(), "groups that no map takes"


def test_a_reason_is_given_in_the_docs_for_what_is_no_recording():
    text = (ROOT / "docs/how-to/ingest.md").read_text()
    for pattern in NOT_RECORDINGS:
        stem = pattern.split("/")[-1].strip("*").split(".")[0].strip("_")
        assert stem in text or pattern.split("/")[0] in text, (
            f"docs/how-to/ingest.md does not mention {pattern}"
        )


def test_velocity_noise_at_rest_is_what_was_measured_before(real):
    episode = real("double_pendulum_velocity").dataset.episode(0)
    assert 0.04 < episode["observation.velocity"].std(axis=0).max() < 0.07
    assert np.array_equal(episode["observation.velocity"], episode["observation.filtered_velocity"]), (
        "the filter was off"
    )


def test_what_diverged_is_a_failure_and_moves(real):
    episode = real("double_pendulum_diverged").dataset.episode(0)
    assert episode.outcome.success is False and np.ptp(episode["observation.state"]) > 3
