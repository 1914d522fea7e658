"""Small logs of every format, written with the reference libraries, all holding the same motion."""

from __future__ import annotations

import base64
import json
from fractions import Fraction
from pathlib import Path

import numpy as np

RATE_HZ = 50.0
JOINTS = ("shoulder", "elbow", "wrist")
START_NS = 1_760_000_000_000_000_000


def load_reports(dataset):
    """The report of each `ingest` in a dataset, by the id of the dataset it wrote."""
    paths = (dataset.root / "meta/twinloop/ingest").glob("*/report.json")
    return {path.parent.name: json.loads(path.read_text()) for path in paths}


def motion(rows=60, seed=0):
    """(time from the start in s, positions, commands): smooth, seeded."""
    rng = np.random.default_rng(seed)
    time_s = np.arange(rows) / RATE_HZ
    phase = rng.uniform(0, 6, 3)
    position = 0.5 * np.sin(2 * time_s[:, None] + phase)
    return time_s, position, 0.5 * np.sin(2 * (time_s[:, None] + 0.1) + phase)


def stamps_ns(time_s):
    return START_NS + np.round(time_s * 1e9).astype(np.int64)


def images(count, height=48, width=64):
    """A square that moves: frame k is told by where it is."""
    frames = np.full((count, height, width, 3), 40, np.uint8)
    for k in range(count):
        left = (3 * k) % (width - 12)
        frames[k, 8:20, left : left + 12] = (220, 120, 60)
    return frames


def h264_packets(frames, keyframe_every=10):
    """One Annex B access unit per frame, as robots publish them."""
    import av

    context = av.CodecContext.create("libx264", "w")
    context.width, context.height = frames.shape[2], frames.shape[1]
    context.pix_fmt = "yuv420p"
    context.framerate = 30
    context.time_base = Fraction(1, 30)
    context.options = {"g": str(keyframe_every), "bf": "0", "preset": "ultrafast", "tune": "zerolatency"}
    packets = []
    for k, frame in enumerate(frames):
        image = av.VideoFrame.from_ndarray(frame, format="rgb24")
        image.pts = k
        packets += [bytes(packet) for packet in context.encode(image)]
    packets += [bytes(packet) for packet in context.encode(None)]
    assert len(packets) == len(frames)
    return packets


def jpeg(frame):
    import av

    context = av.CodecContext.create("mjpeg", "w")
    context.height, context.width = frame.shape[:2]
    context.pix_fmt = "yuvj420p"
    context.time_base = Fraction(1, 30)
    image = av.VideoFrame.from_ndarray(frame, format="rgb24").reformat(format="yuvj420p")
    return b"".join(bytes(p) for p in [*context.encode(image), *context.encode(None)])


def write_csv(path, rows=60, seed=0):
    time_s, position, command = motion(rows, seed)
    names = ",".join(["time", *JOINTS, *(f"{j}_cmd" for j in JOINTS)])
    table = np.column_stack([time_s, position, command])
    np.savetxt(path, table, delimiter=",", header=names, comments="", fmt="%.17g")
    return path


def write_npy(path, rows=60):
    """One table: time, then positions."""
    np.save(path, np.column_stack(motion(rows)[:2]))
    return path


def write_npz(path, rows=60, seed=0):
    time_s, position, command = motion(rows, seed)
    np.savez_compressed(path, t=time_s, q=position, cmd=command)
    return path


def write_json(path, rows=60, seed=0):
    time_s, position, command = motion(rows, seed)
    records = [
        {"t": t, "q": q.tolist(), "cmd": c.tolist()}
        for t, q, c in zip(time_s, position, command, strict=True)
    ]
    path.write_text(json.dumps({"robot": "toy", "entries": records}))
    return path


def write_json_lines(path, rows=60, seed=0):
    time_s, position, command = motion(rows, seed)
    lines = [
        json.dumps({"t": t, "q": q.tolist(), "cmd": c.tolist()})
        for t, q, c in zip(time_s, position, command, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_hdf5(path, rows=60, episodes=2):
    """robomimic's layout."""
    import h5py

    with h5py.File(path, "w") as file:
        for number in range(episodes):
            time_s, position, command = motion(rows, number)
            group = file.create_group(f"data/demo_{number}")
            group["time_s"] = time_s
            group["obs/joint_pos"] = position
            group["obs/joint_pos"].attrs["units"] = "rad"
            group["actions"] = command
            group["obs/front_image"] = images(rows)
    return path


def write_mcap_json(path, rows=60, seed=0, compression="zstd"):
    from mcap.writer import CompressionType, Writer

    time_s, position, command = motion(rows, seed)
    with path.open("wb") as file:
        writer = Writer(file, compression=CompressionType[compression.upper()], chunk_size=4096)
        writer.start()
        schema = writer.register_schema("joints", "jsonschema", b"{}")
        state = writer.register_channel("/joints", "json", schema)
        action = writer.register_channel("/command", "json", schema)
        camera = writer.register_channel("/camera", "json", schema)
        frames = images(rows)
        for k, stamp in enumerate(stamps_ns(time_s)):
            body = {"name": list(JOINTS), "position": position[k].tolist(), "ok": True, "note": "x"}
            writer.add_message(state, int(stamp), json.dumps(body).encode(), int(stamp))
            body = {"target": dict(zip("xyz", command[k].tolist(), strict=True))}
            writer.add_message(action, int(stamp) + 4_000_000, json.dumps(body).encode(), int(stamp))
            body = {"format": "jpeg", "data": base64.b64encode(jpeg(frames[k])).decode()}
            writer.add_message(camera, int(stamp), json.dumps(body).encode(), int(stamp))
        writer.finish()
    return path


def video_message():
    """foxglove.CompressedVideo and a joint state, built without generated code."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="robot.proto", package="robot", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    stamp = file.message_type.add(name="Stamp")
    stamp.field.add(name="sec", number=1, type=kinds.TYPE_INT64, label=1)
    stamp.field.add(name="nanosec", number=2, type=kinds.TYPE_UINT32, label=1)
    video = file.message_type.add(name="CompressedVideo")
    video.field.add(name="timestamp", number=1, type=kinds.TYPE_MESSAGE, type_name=".robot.Stamp", label=1)
    video.field.add(name="frame_id", number=2, type=kinds.TYPE_STRING, label=1)
    video.field.add(name="data", number=3, type=kinds.TYPE_BYTES, label=1)
    video.field.add(name="format", number=4, type=kinds.TYPE_STRING, label=1)
    joints = file.message_type.add(name="Joints")
    joints.field.add(name="position", number=1, type=kinds.TYPE_DOUBLE, label=3)
    joints.field.add(name="stamp", number=2, type=kinds.TYPE_MESSAGE, type_name=".robot.Stamp", label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"robot.{name}"))
        for name in ("CompressedVideo", "Joints")
    }
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString(), made


def write_mcap_protobuf(path, rows=60, camera_every=1, seed=0, packets=None, compression="lz4"):
    """Joint states, and H.264 at the same or a lower rate."""
    from mcap.writer import CompressionType, Writer

    time_s, position, _ = motion(rows, seed)
    descriptor, made = video_message()
    packets = packets or h264_packets(images(-(-rows // camera_every)))
    with path.open("wb") as file:
        writer = Writer(file, compression=CompressionType[compression.upper()])
        writer.start()
        ids = {}
        for topic, kind in (("/joints", "Joints"), ("/camera", "CompressedVideo")):
            schema = writer.register_schema(f"robot.{kind}", "protobuf", descriptor)
            ids[topic] = writer.register_channel(topic, "protobuf", schema)
        for k, stamp in enumerate(stamps_ns(time_s).tolist()):
            when = {"sec": stamp // 10**9, "nanosec": stamp % 10**9}
            body = made["Joints"](position=position[k], stamp=when)
            writer.add_message(ids["/joints"], stamp, body.SerializeToString(), stamp)
            if k % camera_every == 0:
                body = made["CompressedVideo"](timestamp=when, data=packets[k // camera_every], format="h264")
                writer.add_message(ids["/camera"], stamp + 1_000_000, body.SerializeToString(), stamp)
        writer.finish()
    return path


def write_rosbag2(path, storage="sqlite3", rows=60, seed=0):
    """Joint states, poses and JPEG images as ROS 2 messages."""
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    kinds = store.types
    time_s, position, command = motion(rows, seed)
    plugin = StoragePlugin.SQLITE3 if storage == "sqlite3" else StoragePlugin.MCAP
    header, when = kinds["std_msgs/msg/Header"], kinds["builtin_interfaces/msg/Time"]
    joint_state, pose = kinds["sensor_msgs/msg/JointState"], kinds["geometry_msgs/msg/PoseStamped"]
    point, quaternion = kinds["geometry_msgs/msg/Point"], kinds["geometry_msgs/msg/Quaternion"]
    image = kinds["sensor_msgs/msg/CompressedImage"]
    frames = images(rows)
    with Writer(Path(path), version=9, storage_plugin=plugin) as writer:
        topics = {}
        for topic, kind in (("/joint_states", joint_state), ("/pose", pose), ("/camera/compressed", image)):
            topics[topic] = writer.add_connection(topic, kind.__msgtype__, typestore=store)
        for k, stamp in enumerate(stamps_ns(time_s).tolist()):
            head = header(stamp=when(sec=stamp // 10**9, nanosec=stamp % 10**9), frame_id="base")
            empty = np.zeros(0)
            state = joint_state(head, list(JOINTS), position[k], command[k], empty)
            body = pose(
                head,
                kinds["geometry_msgs/msg/Pose"](
                    point(*position[k]), quaternion(0.0, 0.0, float(np.sin(k / 100)), float(np.cos(k / 100)))
                ),
            )
            photo = image(head, "jpeg", np.frombuffer(jpeg(frames[k]), np.uint8))
            for topic, message in (
                ("/joint_states", state),
                ("/pose", body),
                ("/camera/compressed", photo),
            ):
                data = store.serialize_cdr(message, message.__msgtype__)
                writer.write(topics[topic], stamp + 2_000_000, data)
    return path
