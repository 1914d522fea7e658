"""A robot that speaks ROS 2, against a participant in another process whose messages rosbags encodes and decodes."""

import struct
import threading
import time

import numpy as np
import pytest

pytest.importorskip("cyclonedds", reason="needs DDS: pip install 'twinloop[ros2]'")

from tests.robots.ros2.participant import encode_image, encode_joints, encode_numbers
from twinloop.errors import MapError, RobotError, RobotGone, WrongUse
from twinloop.robots import connected, open_robot
from twinloop.robots.ros2.config import StatePart
from twinloop.robots.ros2.readings import read_joints
from twinloop.testing.robots import check_robot

STATE, IMAGE = "sensor_msgs/msg/JointState", "sensor_msgs/msg/Image"
NUMBERS, TRAJECTORY = "std_msgs/msg/Float64MultiArray", "trajectory_msgs/msg/JointTrajectory"
COMMANDS = "/arm/joint_trajectory"
NAMES = ("shoulder", "elbow")
STAMP_S = 1_700_000_000.25


def speak(other, messages, stop, period_s=0.02):
    """Publish messages again and again, each with the stamp of its turn: `messages(turn)` gives (topic, kind, body)."""
    turn = 0
    while not stop.is_set():
        for topic, kind, body in messages(turn):
            other.publish(topic, kind, body)
        turn += 1
        stop.wait(period_s)


@pytest.fixture
def speaking(other):
    """A function that lets the participant publish in the background until the test ends."""
    threads = []

    def start(messages, listen=TRAJECTORY):
        if listen:
            other.ask("listen", COMMANDS, listen)
        stop = threading.Event()
        thread = threading.Thread(target=speak, args=(other, messages, stop))
        thread.start()
        threads.append((thread, stop))

        def end():
            stop.set()
            thread.join()

        return end

    yield start
    for thread, stop in threads:
        stop.set()
        thread.join()


def joints(turn, position=(0.1, -0.2), names=NAMES, **columns):
    return "/joint_states", STATE, encode_joints(STAMP_S + 0.02 * turn, names, position, **columns)


def test_a_robot_on_ros_topics_follows_the_protocol(write_config, speaking):
    speaking(lambda turn: [joints(turn)])
    check_robot(open_robot(write_config()))


def test_readings_keep_their_stamps_units_and_order(write_config, speaking):
    frame = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)

    def messages(turn):
        names, position = ("wheel", "joint_2", "shoulder"), (9.0, -0.2, 0.1)
        columns = {"velocity": (0.0, 2.0, 1.0), "effort": (0.0, 4.0, 3.0)}
        yield "/objects", NUMBERS, encode_numbers([0.4, 0.5])
        yield "/front/image_raw", IMAGE, encode_image(STAMP_S + 0.02 * turn - 0.03, frame[:, :, ::-1], "bgr8")
        yield joints(turn, position, names, **columns)

    speaking(messages)
    elbow = {"ros": "joint_2", "low": -1.0, "high": 1.0, "speed_per_s": 0.5, "unit": "m"}
    address = write_config(
        joints={"shoulder": {"low": -2.0, "high": 2.0, "speed_per_s": 3.0}, "elbow": elbow},
        state={"velocity": True, "effort": True, "max_age_s": 20.0},
        cameras={"front": {"topic": "/front/image_raw", "height": 4, "width": 6, "max_age_s": 20.0}},
        signals={
            "observation.object": {
                "topic": "/objects",
                "elements": ["x", "y"],
                "units": ["m"],
                "max_age_s": 20.0,
            }
        },
    )
    robot = open_robot(address)
    with connected(robot):
        seen = robot.observe(("front",))
        assert (seen.time_s - STAMP_S) / 0.02 == pytest.approx(
            round((seen.time_s - STAMP_S) / 0.02), abs=1e-4
        )
        assert seen.signals["observation.state"] == pytest.approx([0.1, -0.2])
        assert seen.signals["observation.velocity"] == pytest.approx([1.0, 2.0])
        assert seen.signals["observation.effort"] == pytest.approx([3.0, 4.0])
        assert seen.signals["observation.object"] == pytest.approx([0.4, 0.5])
        turns_apart = (seen.signals["observation.frame_age"][0] - 0.03) / 0.02
        assert turns_apart == pytest.approx(round(turns_apart), abs=1e-3), "both stamps are kept"
        assert np.array_equal(seen.frames["front"], frame), "blue first became red first"
        units = {signal.name: signal.units for signal in robot.description.signals}
        assert units["observation.velocity"] == ("rad/s", "m/s") and robot.description.limits.high == (
            2.0,
            1.0,
        )
        with pytest.raises(RobotError, match="has no camera 'side'; available: front"):
            robot.observe(("side",))


def test_joints_may_come_in_messages_of_their_own_and_late_ones_are_left_out(write_config, speaking):
    def messages(turn):
        yield joints(turn, (0.01 * turn,), ("shoulder",))
        yield joints(turn - 20, (-5.0,), ("shoulder",))
        yield joints(turn, (0.5,), ("elbow",))

    speaking(messages)
    with connected(open_robot(write_config())) as robot:
        seen = robot.observe()
        turn = round((seen.time_s - STAMP_S) / 0.02)
        assert seen.signals["observation.state"] == pytest.approx([0.01 * turn, 0.5], abs=0.011)


@pytest.mark.parametrize("kind", [TRAJECTORY, NUMBERS])
def test_commands_arrive_as_another_library_reads_them(write_config, speaking, other, kind):
    end = speaking(lambda turn: [joints(turn)], listen=kind)
    command = {"topic": COMMANDS, "type": kind.rsplit("/", 1)[1]}
    with connected(open_robot(write_config(command=command))) as robot:
        sent = [robot.act(np.array([0.1 * k, -0.1 * k])) for k in range(5)]
        end()
        got, deadline = [], time.monotonic() + 20
        while len(got) < 5 and time.monotonic() < deadline:
            got += other.ask("take", COMMANDS, kind)
    assert [one["positions"] for one in got] == [one.tolist() for one in sent]
    if kind == TRAJECTORY:
        assert got[0]["names"] == list(NAMES) and got[0]["stamp"] == [0, 0], "it begins now"
        assert got[0]["reach_s"] == pytest.approx(0.02)


@pytest.mark.parametrize("kind", [TRAJECTORY, NUMBERS])
def test_messages_pass_both_ways_with_a_participant_of_plain_idl_types(write_config, native, kind):
    pixels, stop = np.arange(2 * 3 * 3, dtype=np.uint8), threading.Event()
    native.ask("listen", COMMANDS, kind)

    def publish():
        turn = 0
        while not stop.is_set():
            stamp = [1_700_000_000 + turn // 50, 20_000_000 * (turn % 50)]
            columns = {"position": [0.25, -0.5], "velocity": [1.0, 2.0], "effort": []}
            native.ask("say", "/joint_states", STATE, {"stamp": stamp, "name": list(NAMES), **columns})
            shape = {"height": 2, "width": 3, "encoding": "rgb8", "is_bigendian": 0, "step": 9}
            native.ask("say", "/front/image_raw", IMAGE, {"stamp": stamp, **shape, "data": pixels.tolist()})
            turn += 1
            stop.wait(0.02)

    publishing = threading.Thread(target=publish)
    publishing.start()
    robot = open_robot(
        write_config(
            command={"topic": COMMANDS, "type": kind.rpartition("/")[2]},
            state={"velocity": True, "max_age_s": 20.0},
            cameras={"front": {"topic": "/front/image_raw", "height": 2, "width": 3, "max_age_s": 20.0}},
        )
    )
    try:
        with connected(robot):
            seen = robot.observe(("front",))
            assert seen.signals["observation.state"] == pytest.approx([0.25, -0.5])
            assert seen.signals["observation.velocity"] == pytest.approx([1.0, 2.0])
            assert np.array_equal(seen.frames["front"].ravel(), pixels)
            assert seen.time_s * 50 == pytest.approx(round(seen.time_s * 50), abs=1e-3), "stamps are kept"
            robot.act(np.array([0.5, -0.25]))
            taken = []
            while not taken:
                taken = native.ask("take", COMMANDS, kind)
    finally:
        stop.set()
        publishing.join()
    assert taken[0]["positions"] == pytest.approx([0.5, -0.25])
    if kind == TRAJECTORY:
        assert taken[0]["names"] == list(NAMES) and taken[0]["reach_s"] > 0.0


def test_a_robot_that_falls_silent_is_gone_and_can_come_back(write_config, speaking):
    end = speaking(lambda turn: [joints(turn)])
    robot = open_robot(write_config(state={"max_age_s": 1.0}))
    with connected(robot):
        end()
        time.sleep(1.2)
        with pytest.raises(
            RobotGone, match="joint shoulder on /joint_states is silent; got no newer message for"
        ):
            robot.observe()
        speaking(lambda turn: [joints(turn + 1000)], listen=None)
        robot.connect()
        assert robot.observe().time_s > STAMP_S
    with pytest.raises(RobotGone, match="not connected"):
        robot.act(np.zeros(2))


def test_what_is_missing_is_said_with_what_there_is(write_config, other):
    def refusal(**changes):
        with pytest.raises(RobotGone) as caught:
            open_robot(write_config(connect_s=2, **changes)).connect()
        return str(caught.value)

    other.publish("/joints", STATE, encode_joints(STAMP_S, NAMES, (0.0, 0.0)), reliable=False)
    text = refusal()
    assert "nobody publishes /joint_states; got no publisher in 2 s" in text
    assert "available: /joints (sensor_msgs/msg/JointState)" in text and "domain_id" in text
    reliable = {"topic": "/joints", "qos": {"reliability": "reliable"}}
    assert "publisher of /joints is not reliable; got best_effort" in refusal(state=reliable)
    kept = {"topic": "/joints", "qos": {"durability": "transient_local"}}
    assert "keeps no messages for late subscribers" in refusal(state=kept)
    other.publish("/numbers", NUMBERS, encode_numbers([1.0]))
    assert f"/numbers has another type; got {NUMBERS}; expected {STATE}" in refusal(
        state={"topic": "/numbers"}
    )
    assert "/joints has a publisher, but no message" in refusal(state={"topic": "/joints"})


def test_a_controller_that_is_missing_or_a_joint_that_nobody_names_is_said(write_config, speaking):
    speaking(lambda turn: [joints(turn)], listen=None)
    with pytest.raises(
        RobotGone, match="nobody listens to commands on /arm/joint_trajectory; got no subscriber in"
    ):
        open_robot(write_config(connect_s=2)).connect()
    limits = {"low": -1.0, "high": 1.0, "speed_per_s": 1.0}
    with pytest.raises(RobotGone, match="no message on /joint_states names joint wrist"):
        open_robot(write_config(connect_s=2, joints={"elbow": limits, "wrist": limits})).connect()


def joint_state_bytes():
    good = encode_joints(STAMP_S, NAMES, (0.0, 0.0))
    names_at = 4 + 8 + 4 + 8  # header of the encoding, stamp, length and padded text of frame_id
    assert good[names_at : names_at + 4] == struct.pack("<I", len(NAMES))
    huge = struct.pack("<I", 0xFFFFFFFF)
    yield "nothing", b"", "unknown encoding"
    yield "hardly a message", b"\0\1\0\0", "ends too early"
    yield "another encoding", b"\xff\xff\xff\xff" + good[4:], "unknown encoding"
    yield (
        "four billion names",
        good[:names_at] + huge + good[names_at + 4 :],
        "more elements than it has bytes",
    )
    yield (
        "a name of four billion letters",
        good[: names_at + 4] + huge + good[names_at + 8 :],
        "ends too early",
    )
    yield "the first half", good[: len(good) // 2], "ends too early"


@pytest.mark.parametrize(
    "body, says", [row[1:] for row in joint_state_bytes()], ids=[r[0] for r in joint_state_bytes()]
)
def test_bytes_that_are_no_message_are_refused_within_bounds(body, says):
    with pytest.raises(RobotError, match="a message on /joint_states cannot be used") as caught:
        read_joints(body, StatePart())
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "body, says",
    [
        (encode_joints(0.0, NAMES, (0.0, 0.0)), "got no stamp; expected the time of the readings"),
        (encode_joints(STAMP_S, NAMES, (0.0,)), "got 1 numbers of position for 2 joints"),
        (encode_joints(STAMP_S, NAMES, (np.nan, 0.0)), "expected finite numbers"),
        (
            encode_joints(STAMP_S, [f"j{k}" for k in range(2000)], np.zeros(2000)),
            "got 2000 joints; expected at most",
        ),
    ],
    ids=["no stamp", "another number of positions", "not a number", "too many joints"],
)
def test_messages_that_cannot_be_true_are_refused(write_config, speaking, body, says):
    speaking(lambda turn: [("/joint_states", STATE, body)])
    with pytest.raises(RobotError, match="a message on /joint_states cannot be used") as caught:
        open_robot(write_config()).connect()
    assert says in str(caught.value)


def test_images_and_numbers_that_do_not_fit_are_refused(write_config, speaking):
    image = encode_image(STAMP_S, np.zeros((4, 6, 3), np.uint8))
    bodies = {
        "/a": (IMAGE, image),
        "/b": (IMAGE, image.replace(b"rgb8", b"jpeg")),
        "/c": (NUMBERS, encode_numbers([1.0])),
    }
    speaking(lambda turn: [joints(turn), *((topic, *body) for topic, body in bodies.items())])
    for topic, height, says in (
        ("/a", 5, "got an image of 6 x 4 pixels; expected 6 x 5"),
        ("/b", 4, "got encoding 'jpeg'; expected rgb8, bgr8"),
    ):
        cameras = {"front": {"topic": topic, "height": height, "width": 6}}
        with pytest.raises(RobotError, match=says):
            open_robot(write_config(cameras=cameras)).connect()
    signals = {"observation.object": {"topic": "/c", "elements": ["x", "y"], "units": ["m"]}}
    with pytest.raises(RobotError, match="got 1 numbers; expected 2: x, y"):
        open_robot(write_config(signals=signals)).connect()


def test_a_clock_that_goes_back_is_an_error(write_config, speaking):
    speaking(lambda turn: [joints(turn if turn < 50 else turn - 2000)])
    with (
        connected(open_robot(write_config())) as robot,
        pytest.raises(RobotError, match="clock of /joint_states went back"),
    ):
        for _ in range(500):
            robot.observe()
            time.sleep(0.01)


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"command": {"topic": "arm"}}, "command.topic: a topic's full name, such as /joint_states"),
        ({"qos": 1}, "qos is not a key"),
        ({"state": {"qos": {"reliability": "best"}}}, "reliability"),
        ({"state": {"qos": {"depth": 100000}}}, "depth"),
        ({"domain_id": 400}, "domain_id"),
        ({"interface": 'lo"/><x y="'}, "the name or address of a network interface"),
        (
            {"joints": {"a": {"low": 1.0, "high": -1.0, "speed_per_s": 1.0}}},
            "a lower limit is above the upper one",
        ),
        ({"joints": {"a": {"low": -1.0, "high": 1.0}}}, "joints.a.speed_per_s is missing"),
        ({"joints": {"a": {"low": float("-inf"), "high": 1.0, "speed_per_s": 1.0}}}, "range is not finite"),
        (
            {"command": {"topic": "/a", "type": "Float64MultiArray", "reach_s": 0.1}},
            "reach_s is a part of trajectories",
        ),
        ({"signals": {"a b": {"topic": "/a", "elements": ["x"], "units": ["m"]}}}, "bad name"),
    ],
)
def test_a_config_that_is_wrong_names_the_key(write_config, changes, says):
    with pytest.raises((MapError, WrongUse, RobotError)) as caught:
        open_robot(write_config(**changes))
    assert says in str(caught.value)


def test_an_interface_or_a_domain_that_cannot_be_used_is_said(write_config, speaking):
    with pytest.raises(RobotError, match="cannot be joined") as caught:
        open_robot(write_config(interface="nowhere0")).connect()
    assert "check `interface`" in str(caught.value)
    speaking(lambda turn: [joints(turn)])
    with (
        connected(open_robot(write_config())),
        pytest.raises(RobotError, match="open in this process with another"),
    ):
        open_robot(write_config(peers=["192.0.2.1"])).connect()


def test_the_domain_is_that_of_the_environment_unless_the_config_has_one(write_config, monkeypatch):
    from twinloop.robots.ros2.config import load_config

    monkeypatch.setenv("ROS_DOMAIN_ID", "42")
    assert load_config(write_config(domain_id=None).partition(":")[2]).find_domain() == 42
    assert load_config(write_config(domain_id=7).partition(":")[2]).find_domain() == 7
    monkeypatch.setenv("ROS_DOMAIN_ID", "home")
    with pytest.raises(WrongUse, match="ROS_DOMAIN_ID is not a domain; got home"):
        open_robot(write_config(domain_id=None))
