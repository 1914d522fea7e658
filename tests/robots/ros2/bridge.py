"""A node that brings a stand-in to ROS 2, in a process of its own: `python bridge.py DOMAIN STANDIN`.

It publishes joint states, frames and the perceived scene at the stand-in's control rate, obeys trajectories, and takes the orders of
whoever stands beside the robot from its input: `prepare N`, `judge`, `stop`.
"""

import json
import select
import sys
import time

import numpy as np

from tests.robots.ros2.participant import Participant, encode_image, encode_joints, encode_numbers
from twinloop.robots import connected, open_robot

COMMANDS, TRAJECTORY = "/arm/joint_trajectory", "trajectory_msgs/msg/JointTrajectory"
START_S = 1_800_000_000.0
CAMERA, EVERY = "front", 5


def publish(node, robot, names, stamp_s, tick):
    with_frame = tick % EVERY == 0
    seen = robot.observe((CAMERA,) if with_frame else ())
    state, velocity, effort = (
        seen.signals[f"observation.{kind}"] for kind in ("state", "velocity", "effort")
    )
    node.publish(
        "/scene",
        "std_msgs/msg/Float64MultiArray",
        encode_numbers(seen.signals["observation.environment_state"]),
    )
    if with_frame:
        node.publish(
            f"/{CAMERA}/image_raw", "sensor_msgs/msg/Image", encode_image(stamp_s, seen.frames[CAMERA])
        )
    body = encode_joints(stamp_s, names, state, velocity, effort)
    node.publish("/joint_states", "sensor_msgs/msg/JointState", body)


def serve(node, robot):
    description = robot.description
    names = [element.removesuffix(".target") for element in description.action.elements]
    node.listen(COMMANDS, TRAJECTORY)
    robot.prepare(0)
    command = np.clip(
        robot.observe().signals["observation.state"], description.limits.low, description.limits.high
    )
    stamp_s, tick, due_s = START_S, 0, time.monotonic()
    print(json.dumps("ready"), flush=True)
    while True:
        if select.select([sys.stdin], [], [], 0.0)[0]:
            order = json.loads(sys.stdin.readline() or '["stop"]')
            if order[0] == "stop":
                return
            answer = True
            if order[0] == "prepare":
                robot.prepare(order[1])
                node.take(COMMANDS, TRAJECTORY)
                command = np.clip(
                    robot.observe().signals["observation.state"],
                    description.limits.low,
                    description.limits.high,
                )
                publish(node, robot, names, stamp_s := stamp_s + 1.0 / description.rate_hz, 0)
            elif order[0] == "judge":
                outcome = robot.judge(order[1])
                answer = [outcome.success, outcome.failure]
            print(json.dumps(answer), flush=True)
        for one in node.take(COMMANDS, TRAJECTORY):
            assert one["names"] == names
            command = np.array(one["positions"])
        robot.act(command)
        stamp_s, tick = stamp_s + 1.0 / description.rate_hz, tick + 1
        publish(node, robot, names, stamp_s, tick)
        due_s = max(due_s + 1.0 / description.rate_hz, time.monotonic())
        time.sleep(due_s - time.monotonic() if due_s > time.monotonic() else 0.0)


if __name__ == "__main__":
    with connected(open_robot(sys.argv[2])) as standin:
        serve(Participant(int(sys.argv[1])), standin)
