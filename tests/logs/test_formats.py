"""Every format: written with its reference library, ingested, and equal to what went in."""

import numpy as np
import pytest

from tests.logs import examples
from twinloop.logs.ingest import ingest
from twinloop.logs.log_map import parse_map
from twinloop.logs.originals import load_originals
from twinloop.logs.sources import find_logs

HEAD = "rate_hz: 50\nprovenance: {source: real}\n"


def run(source, tmp_path, text, name="out"):
    return ingest(source, tmp_path / name, parse_map(HEAD + text))


@pytest.mark.parametrize(
    ("write", "name", "prefix"),
    [
        (examples.write_npz, "a.npz", ""),
        (examples.write_json, "a.json", "entries."),
        (examples.write_json_lines, "a.jsonl", ""),
    ],
)
def test_tables_come_back_equal(tmp_path, write, name, prefix):
    write(tmp_path / name)
    text = f"clock: {prefix}t\nsignals:\n  observation.state: {{from: {prefix}q, unit: rad}}\n  action: {{from: {prefix}cmd, unit: rad}}\n"
    episode = run(tmp_path / name, tmp_path, text).dataset.episode(0)
    time_s, position, command = examples.motion()
    assert np.array_equal(episode.time_s, time_s)
    assert np.array_equal(episode["observation.state"], position)
    assert np.array_equal(episode["action"], command)


def test_robomimic_hdf5_has_one_episode_per_demo_and_its_camera(tmp_path):
    examples.write_hdf5(tmp_path / "a.hdf5")
    text = (
        "clock: '{group}/time_s'\nepisodes: {by: groups, groups: data/demo_*}\nsignals:\n"
        "  observation.state: {from: '{group}/obs/joint_pos', unit: rad}\n  action: {from: '{group}/actions', unit: rad}\n"
        "cameras: {front: {from: '{group}/obs/front_image'}}\n"
    )
    done = run(tmp_path / "a.hdf5", tmp_path, text)
    assert len(done.dataset) == 2
    for number, episode in enumerate(done.dataset):
        _, position, command = examples.motion(seed=number)
        assert np.array_equal(episode["observation.state"], position)
        assert np.array_equal(episode["action"], command)
        error = np.abs(episode.frames["front"][:].astype(int) - examples.images(60).astype(int)).mean()
        assert error < 6
    assert "re-encoded" in done.cameras["front"]


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_mcap_with_json(tmp_path, compression):
    examples.write_mcap_json(tmp_path / "a.mcap", compression=compression)
    text = (
        "signals:\n  observation.state: {from: /joints.position, unit: rad}\n"
        "  action: {from: /command.target, unit: rad, method: previous, edges: hold}\n"
        "cameras: {front: {from: /camera.data}}\n"
    )
    done = run(tmp_path / "a.mcap", tmp_path, text)
    episode = done.dataset.episode(0)
    _, position, command = examples.motion()
    assert np.array_equal(episode["observation.state"], position)
    assert np.array_equal(episode["action"][1:], command[:-1])
    assert episode.schema.signal("observation.state").elements == examples.JOINTS
    assert episode.schema.signal("action").elements == ("x", "y", "z")
    assert np.array_equal(load_originals(done.dataset, 0)["action"].values, command)
    assert "re-encoded: jpeg" in done.cameras["front"]
    assert np.abs(episode.frames["front"][7].astype(int) - examples.images(8)[7].astype(int)).mean() < 8


def test_mcap_with_protobuf_passes_h264_through(tmp_path):
    packets = examples.h264_packets(examples.images(60))
    examples.write_mcap_protobuf(tmp_path / "a.mcap", packets=packets)
    text = (
        "rows: {like: camera front}\nclock: null\nsignals:\n"
        "  observation.state: {from: /joints.position, unit: rad, method: linear, edges: hold}\n"
        "cameras: {front: {from: /camera.data}}\n"
    )
    done = run(tmp_path / "a.mcap", tmp_path, text)
    assert done.cameras == {"front": "copied without re-encoding"}
    episode = done.dataset.episode(0)
    assert len(episode) == 60
    frames = examples.images(60)
    for row in (0, 13, 59):
        assert np.abs(episode.frames["front"][row].astype(int) - frames[row].astype(int)).mean() < 8
    stored = next((done.dataset.root / "videos").rglob("*.mp4")).read_bytes()
    assert packets[5][4:] in stored, "the encoded image itself is in the file"


def test_a_slower_camera_is_re_encoded_on_the_rows_and_said_so(tmp_path):
    examples.write_mcap_protobuf(tmp_path / "a.mcap", camera_every=2)
    text = (
        "signals:\n  observation.state: {from: /joints.position, unit: rad, clock: /joints.stamp}\n"
        "cameras: {front: {from: /camera.data, method: previous}}\n"
    )
    done = run(tmp_path / "a.mcap", tmp_path, text)
    assert "not one to one" in done.cameras["front"]
    episode = done.dataset.episode(0)
    assert np.array_equal(episode["observation.state"], examples.motion()[1][: len(episode)])
    frames = examples.images(30)
    for row in (2, 31, 57):
        assert (
            np.abs(episode.frames["front"][row].astype(int) - frames[(row - 1) // 2].astype(int)).mean() < 8
        )


@pytest.mark.parametrize("storage", ["sqlite3", "mcap"])
def test_rosbag2(tmp_path, storage):
    examples.write_rosbag2(tmp_path / "bag", storage)
    assert [log.format for log in find_logs(tmp_path / "bag").logs] == ["rosbag2"]
    text = (
        "clock: /joint_states.header.stamp\nsignals:\n"
        "  observation.state: {from: /joint_states.position, unit: rad}\n"
        "  observation.velocity: {from: /joint_states.velocity, unit: rad/s}\n"
        "  observation.orientation: {from: /pose.pose.orientation, unit: '1', quaternion: xyzw, clock: /pose.header.stamp}\n"
        "  observation.position: {from: /pose.pose.position, unit: m, clock: /pose.header.stamp}\n"
        "cameras: {front: {from: /camera/compressed.data, clock: /camera/compressed.header.stamp}}\n"
    )
    done = run(tmp_path / "bag", tmp_path, text)
    episode = done.dataset.episode(0)
    time_s, position, command = examples.motion()
    np.testing.assert_allclose(episode.time_s, time_s, atol=1e-6)
    assert np.array_equal(episode["observation.state"], position)
    assert np.array_equal(episode["observation.velocity"], command)
    assert np.array_equal(episode["observation.position"], position)
    np.testing.assert_allclose(episode["observation.orientation"][:, 0], np.cos(np.arange(60) / 100))
    assert episode.schema.signal("observation.state").elements == examples.JOINTS


def test_a_log_is_cut_at_pauses_with_its_video(tmp_path):
    from mcap.writer import Writer

    descriptor, made = examples.video_message()
    with (tmp_path / "a.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start()
        schema = writer.register_schema("robot.CompressedVideo", "protobuf", descriptor)
        camera = writer.register_channel("/camera", "protobuf", schema)
        schema = writer.register_schema("robot.Joints", "protobuf", descriptor)
        joints = writer.register_channel("/joints", "protobuf", schema)
        packets = examples.h264_packets(examples.images(60), keyframe_every=20)
        for k in range(60):
            stamp = examples.START_NS + k * 20_000_000 + (k // 20) * 10_000_000_000
            body = made["Joints"](position=[k, 0, 0])
            writer.add_message(joints, stamp, body.SerializeToString(), stamp)
            body = made["CompressedVideo"](data=packets[k], format="h264")
            writer.add_message(camera, stamp, body.SerializeToString(), stamp)
        writer.finish()
    text = (
        "episodes: {by: gaps, gap_s: 1}\nsignals: {observation.state: {from: /joints.position, unit: rad}}\n"
        "cameras: {front: {from: /camera.data}}\nprovenance_at: log\n"
    ).replace("provenance_at: log\n", "")
    done = run(tmp_path / "a.mcap", tmp_path, text)
    assert [len(episode) for episode in done.dataset] == [20, 20, 20]
    assert done.cameras == {"front": "copied without re-encoding"}
    assert [int(episode["observation.state"][0, 0]) for episode in done.dataset] == [0, 20, 40]
    frames = examples.images(60)
    shown = done.dataset.episode(2).frames["front"][4]
    assert np.abs(shown.astype(int) - frames[44].astype(int)).mean() < 8


def test_a_video_file_beside_a_log_is_taken_in(tmp_path):
    import av

    examples.write_npz(tmp_path / "run.npz")
    with av.open(str(tmp_path / "run.mp4"), "w") as out:
        stream = out.add_stream("libx264", rate=50, options={"bf": "0"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for frame in examples.images(60):
            out.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        out.mux(stream.encode(None))
    text = "clock: t\nsignals: {observation.state: {from: q, unit: rad}}\ncameras: {front: {file: '{stem}.mp4'}}\n"
    done = run(tmp_path / "run.npz", tmp_path, text)
    assert done.cameras == {"front": "copied without re-encoding"}
    assert (
        np.abs(done.dataset.episode(0).frames["front"][30].astype(int) - examples.images(31)[30]).mean() < 8
    )


def test_an_episode_that_starts_between_keyframes_starts_at_the_next_one(tmp_path):
    packets = examples.h264_packets(examples.images(60), keyframe_every=20)
    examples.write_mcap_protobuf(tmp_path / "a.mcap", packets=packets)
    text = (
        "episodes: {by: gaps, gap_s: 1, longest_s: 0.59}\n"
        "signals: {observation.state: {from: /joints.position, unit: rad, method: linear}}\n"
        "cameras: {front: {from: /camera.data}}\n"
    )
    done = run(tmp_path / "a.mcap", tmp_path, text)
    first, second = done.dataset
    assert (len(first), len(second)) == (30, 20)
    assert "10 images of camera front before its first keyframe were skipped" in done.notes[0]
    _, position, _ = examples.motion()
    assert np.array_equal(second["observation.state"], position[40:])
    assert np.abs(second.frames["front"][3].astype(int) - examples.images(60)[43].astype(int)).mean() < 8
    assert done.cameras == {"front": "copied without re-encoding"}
