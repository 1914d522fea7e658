"""Joints are checked against the twin, device clocks are kept, and originals follow their episodes."""

import json

import numpy as np
import pytest

from tests.logs import examples
from twinloop.consent.removal import remove_episodes
from twinloop.datasets.merge import merge
from twinloop.datasets.split import split
from twinloop.datasets.verify import verify
from twinloop.errors import MapError
from twinloop.logs.ingest import ingest
from twinloop.logs.log_map import parse_map
from twinloop.logs.originals import load_originals
from twinloop.quality.check import check_episode
from twinloop.twins.load import load_twin

HEAD = "rate_hz: 50\nprovenance: {source: real}\nclock: t\n"


@pytest.fixture(scope="module")
def so101():
    return load_twin("so101_pick_place")


def record(path, q):
    np.savez(path, t=np.arange(len(q)) / 50, q=q)
    return path


def motion(size, amplitude=0.3):
    return amplitude * np.sin(np.arange(100)[:, None] / 9 + np.arange(size))


def state(more="", unit="rad"):
    return parse_map(HEAD + f"signals: {{observation.state: {{from: q, unit: {unit}{more}}}}}")


def test_an_episode_names_its_twin_by_version_and_content(tmp_path, so101):
    q = motion(6)
    q[:, 5] += 0.6
    done = ingest(record(tmp_path / "a.npz", q), tmp_path / "out", state(), twin=so101)
    provenance = done.dataset.episode(0).provenance
    assert (provenance.twin, provenance.twin_version) == (so101.name, so101.version)
    assert provenance.twin_hash == so101.content_hash
    assert done.notes == ()


def test_another_number_of_joints_is_refused(tmp_path, so101):
    with pytest.raises(
        MapError,
        match=r"does not fit the twin so101_pick_place; got 5 elements without names; expected 6 \(shoulder_pan, ",
    ):
        ingest(record(tmp_path / "a.npz", motion(5)), tmp_path / "out", state(), twin=so101)
    named = state(", elements: [wrist_roll, elbow_flex]")
    done = ingest(record(tmp_path / "b.npz", motion(2)), tmp_path / "named", named, twin=so101)
    assert done.notes == (), "some of the joints, by name, are enough"


@pytest.mark.parametrize("size", [7, 8, 9])
def test_an_arm_without_fingers_or_with_one_number_for_them_fits(tmp_path, size):
    franka = load_twin("franka_pick_place")
    q = (np.array(list(franka.home.values())) + motion(9, 0.001))[:, :size]
    units = f"[{', '.join((['rad'] * 7 + ['m', 'm'])[:size])}]"
    done = ingest(record(tmp_path / "a.npz", q), tmp_path / "out", state(unit=units), twin=franka)
    assert done.notes == ()


def test_strange_names_are_refused_with_the_line_to_write(tmp_path, so101):
    q = motion(6)
    q[:, 5] += 0.6
    odd = state(", elements: [Rotation, Pitch, Elbow, Wrist_Pitch, Wrist_Roll, Jaw]")
    with pytest.raises(MapError, match="does not have the joints of the twin") as refused:
        ingest(record(tmp_path / "a.npz", q), tmp_path / "out", odd, twin=so101)
    names = "[shoulder_pan, shoulder_lift, elbow_flex, wrist_flex, wrist_roll, gripper]"
    assert f"signals.observation.state.elements: {names}" in refused.value.remedy


def test_degrees_called_radians_and_slides_in_radians_are_refused(tmp_path, so101):
    with pytest.raises(MapError, match="far beyond the range of the twin"):
        ingest(record(tmp_path / "a.npz", np.degrees(motion(6, 1.2))), tmp_path / "out", state(), twin=so101)
    franka = load_twin("franka_pick_place")
    q = np.array(list(franka.home.values())) + motion(9, 0.001)
    with pytest.raises(MapError, match=r"finger_joint1\) is stored in rad, but .* is in m"):
        ingest(record(tmp_path / "b.npz", q), tmp_path / "out", state(), twin=franka)
    units = "[rad, rad, rad, rad, rad, rad, rad, mm, mm]"
    q[:, 7:] *= 1000
    done = ingest(record(tmp_path / "b.npz", q), tmp_path / "out", state(unit=units), twin=franka)
    assert done.notes == ()


def test_a_joint_a_little_beyond_its_range_is_a_note(tmp_path, so101):
    q = motion(6)
    q[:, 5] += 0.6
    q[:, 0] += 2.4
    done = ingest(record(tmp_path / "a.npz", q), tmp_path / "out", state(), twin=so101)
    assert any("shoulder_pan" in note and "check its sign and zero" in note for note in done.notes)


def write_two_clocks(path, ppm):
    """An MCAP log whose camera-like stream stamps its messages by a clock that runs `ppm` too fast."""
    from mcap.writer import Writer

    with path.open("wb") as file:
        writer = Writer(file)
        writer.start()
        schema = writer.register_schema("joints", "jsonschema", b"{}")
        joints = writer.register_channel("/joints", "json", schema)
        force = writer.register_channel("/force", "json", schema)
        for k in range(1500):
            now = examples.START_NS + k * 20_000_000
            body = {"position": [float(np.sin(k / 20))]}
            writer.add_message(joints, now, json.dumps(body).encode(), now)
            device_s = 100 + k * 0.02 * (1 + ppm * 1e-6)
            body = {"stamp": device_s, "value": [float(np.cos(k / 20))]}
            writer.add_message(force, now + 1_000_000, json.dumps(body).encode(), now)
        writer.finish()
    return path


CLOCKS = """
rate_hz: 50
provenance: {source: real}
signals: {observation.state: {from: /joints.position, unit: rad}}
clocks: {force: /force.stamp}
"""


@pytest.mark.parametrize(("ppm", "drifts"), [(0, False), (2000, True), (-2000, True)])
def test_a_second_clock_is_kept_and_its_drift_is_found(tmp_path, ppm, drifts):
    path = write_two_clocks(tmp_path / "run.mcap", ppm)
    episode = ingest(path, tmp_path / "out", parse_map(CLOCKS)).dataset.episode(0)
    assert episode.schema.signal("clock.force").units == ("s",)
    shown = episode["clock.force"][:, 0]
    assert np.polyfit(episode.time_s, shown, 1)[0] == pytest.approx(1 + ppm * 1e-6, abs=2e-6)
    findings = [f for f in check_episode(episode) if f.code == "clock_drift"]
    assert bool(findings) is drifts
    if drifts:
        assert findings[0].channel == "clock.force"
        assert findings[0].value == pytest.approx(1e-3 * 2000 * 30, rel=0.05), "60 ms in 30 s"


def test_a_stream_on_its_own_stamps_brings_its_clock_along(tmp_path):
    path = write_two_clocks(tmp_path / "run.mcap", 500)
    text = CLOCKS.replace("clocks: {force: /force.stamp}\n", "").replace(
        "signals: {", "signals: {observation.force: {from: /force.value, unit: N, clock: /force.stamp}, "
    )
    text = text.replace(
        "{from: /joints.position, unit: rad}",
        "{from: /joints.position, unit: rad, method: linear, edges: hold}",
    )
    episode = ingest(path, tmp_path / "out", parse_map(text)).dataset.episode(0)
    assert "clock.observation.force" not in episode.signals, "the rows run on it"
    rows = text.replace("provenance:", "rows: {like: observation.state}\nprovenance:").replace(
        "unit: N,", "unit: N, method: linear, edges: hold,"
    )
    episode = ingest(path, tmp_path / "other", parse_map(rows)).dataset.episode(0)
    slope = np.polyfit(episode.time_s, episode["clock.observation.force"][:, 0], 1)[0]
    assert slope == pytest.approx(1.0005, abs=2e-6)


def test_two_columns_of_time_can_be_compared(tmp_path):
    time_s = np.arange(2000) / 50
    np.savez(tmp_path / "a.npz", t=time_s, q=np.sin(time_s), camera_ms=1000 * (5 + time_s * 1.001))
    text = (
        HEAD
        + "clocks: {camera: {channel: camera_ms, unit: ms}}\nsignals: {observation.state: {from: q, unit: rad}}"
    )
    episode = ingest(tmp_path / "a.npz", tmp_path / "out", parse_map(text)).dataset.episode(0)
    np.testing.assert_allclose(episode["clock.camera"][:, 0], 5 + time_s * 1.001, atol=1e-9)
    assert any(f.code == "clock_drift" for f in check_episode(episode))


RESAMPLED = """
rate_hz: 50
provenance: {source: real}
signals:
  observation.state: {from: q, unit: rad, clock: t}
  action: {from: cmd, unit: rad, clock: t_cmd, method: linear, edges: hold}
"""


def ingested(folder, name, seeds):
    (folder / name).mkdir()
    for seed in seeds:
        time_s, q, command = examples.motion(seed=seed)
        np.savez(folder / name / f"run_{seed}.npz", t=time_s, q=q, t_cmd=time_s + 0.007, cmd=command)
    return ingest(folder / name, folder / f"{name}_set", parse_map(RESAMPLED)).dataset


def originals_by_log(dataset):
    return {
        dataset.episode(n).events[0].detail: load_originals(dataset, n)["action"].values.tobytes()
        for n in dataset.numbers
    }


def test_originals_and_reports_travel_through_merge_split_and_withdrawal(tmp_path):
    first, second = ingested(tmp_path, "a", range(4)), ingested(tmp_path, "b", range(4, 7))
    merged = merge([first.root, second.root], tmp_path / "merged").dataset
    assert originals_by_log(merged) == originals_by_log(first) | originals_by_log(second)
    assert set(examples.load_reports(merged)) == {first.id, second.id}
    parts = split(merged.root, tmp_path / "parts", {"train": 0.7, "test": 0.3})
    together: dict = {}
    for part in parts.values():
        assert verify(part.root).ok
        together |= originals_by_log(part)
    assert together == originals_by_log(merged)
    again = merge([part.root for part in parts.values()], tmp_path / "again").dataset
    assert originals_by_log(again) == originals_by_log(merged)
    gone = merged.episode(2).id
    kept = {
        log: values
        for log, values in originals_by_log(merged).items()
        if log != merged.episode(2).events[0].detail
    }
    remove_episodes(merged.root, [gone])
    from twinloop.datasets.reader import open_dataset

    assert originals_by_log(open_dataset(merged.root)) == kept
    for path in merged.root.rglob("*.parquet"):
        assert gone.encode() not in path.read_bytes(), f"{path} still names the episode"
    assert verify(merged.root).ok
