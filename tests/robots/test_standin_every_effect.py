"""Every key of `--list-effects` changes something that a client sees through the socket."""

import functools
import os
import tempfile
import threading
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

pytest.importorskip("pybullet", reason="needs Bullet: pip install 'twinloop[bullet]'")

import yaml

from twinloop.robots import connected, open_robot
from twinloop.robots.remote import RemoteRobot
from twinloop.robots.standin.effects import list_effects
from twinloop.robots.standin.reality import parse_reality
from twinloop.robots.standin.serve import Server, open_listener
from twinloop.robots.standin.session import Session
from twinloop.twins import load_twin

TWIN = load_twin("franka_pick_place")
KEYS = [(row["block"], row["key"]) for row in list_effects() if row["block"] != "drift"]
STILL = {"environment": {"object_scatter_m": 0.0, "object_turn_rad": 0.0}}
SLIDE = {"contact": {"friction": 0.15}, "environment": {"table_tilt_rad": 0.15}}
KNOCKED = {"environment": {"push_force_n": 6.0, "push_rate_hz": 2.0}}
SOFT = {"contact": {"stiffness_n_m": 2e3}}
LOOK = ("look", {})

NEEDS = {
    "contact.torsional_friction_m": ("wait", KNOCKED),
    "contact.finger_friction_scale": ("grasp", {"object": {"mass_scale": 6.0}}),
    "contact.patch_size_m": ("wait", {**SLIDE, "contact": {"friction": 0.15, "patch_friction_scale": 0.2}}),
    "contact.restitution": ("drop", {}),
    "contact.stiffness_n_m": ("grasp", {}),
    "contact.damping_n_s_m": ("grasp", SOFT),
    "object.mass_scale": ("wait", KNOCKED),
    "object.inertia_scale": ("wait", KNOCKED),
    "object.center_x_m": ("wait", KNOCKED),
    "object.center_y_m": ("wait", KNOCKED),
    "object.center_z_m": ("wait", KNOCKED),
    "object.size_scale": ("wait", {}),
    "actuation.gripper_force_scale": ("grasp", {}),
    "actuation.stiction_share": ("wiggle", {"actuation": {"dry_friction_share": 0.05}}),
    "actuation.cold_friction_scale": ("wiggle", {"actuation": {"dry_friction_share": 0.05}}),
    "actuation.warm_up_s": (
        "wiggle",
        {"actuation": {"dry_friction_share": 0.05, "cold_friction_scale": 4.0}},
    ),
    "actuation.ripple_per_turn": ("wiggle", {"actuation": {"ripple_share": 0.05}}),
    "latency.pose_delay_s": ("wait", KNOCKED),
    "latency.camera_delay_s": ("look_late", {}),
    "latency.outage_s": ("wiggle", {"latency": {"outage_rate_hz": 2.0}}),
    "sensing.pose_drop_probability": ("wait", {"sensing": {"pose_noise_m": 0.01}}),
    "sensing.occlusion_m": ("grasp", {"sensing": {"pose_noise_m": 0.01}}),
    "environment.table_tilt_direction_rad": ("wait", SLIDE),
    "environment.clutter_count": LOOK,
    "environment.wind_direction_rad": ("wait", {"environment": {"wind_force_n": 1.0}}),
    "environment.wind_force_n": ("wait", {}),
    "environment.gust_share": ("wait", {"environment": {"wind_force_n": 1.0}}),
    "environment.push_force_n": ("wait", {"environment": {"push_rate_hz": 2.0}}),
    "environment.push_rate_hz": ("wait", {"environment": {"push_force_n": 6.0}}),
    "environment.vibration_hz": ("wait", {"environment": {"vibration_m": 0.004}}),
    "human.tremor_hz": ("steer", {"human": {"tremor_m": 0.005}}),
    "human.pause_s": ("steer", {"human": {"pause_rate_hz": 2.0}}),
    "human.wrong_judgement_probability": ("judge", {}),
    "human.bump_rate_hz": ("wait", {"human": {"bump_force_n": 50.0}}),
    "human.bump_force_n": ("wait", {"human": {"bump_rate_hz": 2.0}}),
}
"""What has to happen, and what else has to be wrong, for a key to show; by default see `scenario_of`."""

BY_BLOCK = {
    "contact": ("wait", SLIDE),
    "object": ("wait", {}),
    "actuation": ("wiggle", {}),
    "latency": ("wiggle", {}),
    "sensing": ("wiggle", {}),
    "visual": LOOK,
    "environment": ("wait", {}),
    "human": ("steer", {}),
}


def scenario_of(block, key):
    return NEEDS.get(f"{block}.{key}", BY_BLOCK[block])


def merged(*parts):
    blocks: dict = {}
    for part in parts:
        for block, values in part.items():
            blocks[block] = {**blocks.get(block, {}), **values}
    return blocks


class Served:
    """A stand-in behind a Unix socket, its server in a thread: quicker to start than a process."""

    def __init__(self, blocks):
        self._reality = parse_reality(yaml.safe_dump({"seed": 7, **blocks}))
        self._folder = tempfile.TemporaryDirectory()
        self._path = str(Path(self._folder.name) / "s")
        self._listener = open_listener(self._path)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self._robot = RemoteRobot(self._path)

    def _serve(self):
        session = Session(self._reality, TWIN)
        server = Server(session, self._listener)
        try:
            while not self._over.is_set():
                server.turn()
        finally:
            server.close()
            session.close()

    def __enter__(self):
        self._robot.connect()
        return self._robot

    def __exit__(self, *_):
        self._over.set()
        self._robot.close()  # which wakes the server up
        self._thread.join(60)
        self._listener.close()
        self._folder.cleanup()


def wait(robot, steps=40):
    home = robot.observe().signals["observation.state"]
    for _ in range(steps):
        robot.act(command_of(home, robot))
        yield robot.observe().signals


def wiggle(robot):
    home = robot.observe().signals["observation.state"]
    for step in range(50):
        away = np.zeros(len(home))
        away[:7] = 0.15 * np.sin(step / 4 + np.arange(7))
        robot.act(command_of(home + away, robot))
        yield robot.observe().signals


def command_of(positions, robot):
    return np.asarray(positions)[: len(robot.description.limits.low)]


def grasp(robot):
    """The scripted expert until the object is in the air."""
    from twinloop.robots.controllers import ExpertController

    controller = ExpertController(TWIN, TWIN.task, 10.0)
    controller.restart(robot.observe(), 0)
    for _ in range(220):
        seen = robot.observe()
        robot.act(controller.act(seen))
        yield seen.signals


def drop(robot):
    """Lift the object and let go of it."""
    last = None
    for seen in grasp(robot):
        last = seen
    home = np.array(command_of(last["observation.state"], robot))
    home[-1] = robot.description.limits.high[-1]
    for _ in range(40):
        robot.act(home)
        yield robot.observe().signals


def steer(robot):
    for _ in range(40):
        action = robot.steer()
        robot.act(action)
        yield {"steered": action}


def look(painter):
    yield painter.result()


def look_late(robot):
    for _ in wiggle(robot):
        pass
    yield robot.observe(("front",)).frames


def judge(robot):
    for number in range(6):
        robot.prepare(number)
        yield {"judged": np.array([robot.judge(over=True).success is True])}


SCENARIOS = {f.__name__: f for f in (wait, wiggle, grasp, drop, steer, look, look_late, judge)}


@contextmanager
def in_a_process(blocks):
    """A stand-in in a process of its own, because graphics need a main thread."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reality.yaml"
        path.write_text(yaml.safe_dump({"seed": 7, **blocks}))
        robot = open_robot(f"standin:{path}")
        with connected(robot):
            yield robot


@functools.cache
def graphics():
    """One process for all first images, since a stand-in's own takes a second to start."""
    with patch.dict(os.environ, {"MUJOCO_GL": "egl"}):  # read by MuJoCo when it is imported
        pool = ProcessPoolExecutor(1, get_context("spawn"))
        pool.submit(first_image, {}).result()
    return pool


def first_image(blocks):
    """What a server sends to a client that looks at once."""
    with closing(Session(parse_reality(yaml.safe_dump({"seed": 7, **blocks})), TWIN)) as session:
        return session.observe(("front",)).frames


@contextmanager
def painted(blocks):
    yield graphics().submit(first_image, blocks)


STARTS = {"look": painted, "look_late": in_a_process}


def seen_in(scenario, blocks):
    """What a client sees, step by step."""
    with STARTS.get(scenario, Served)(merged(STILL, blocks)) as robot:
        for seen in SCENARIOS[scenario](robot):
            yield {name: np.array(values) for name, values in seen.items()}


@functools.cache
def undisturbed(scenario, text):
    return list(seen_in(scenario, yaml.safe_load(text)))


def differs(one, other):
    """Whether two runs differ anywhere; the second is not watched beyond the first difference."""
    with closing(other):
        return any(
            not np.array_equal(a[name], b[name]) for a, b in zip(one, other, strict=True) for name in a
        )


def changed_value(row, now):
    """Another value inside the key's range, far from the one it has."""
    low, high = row["low"], row["high"]
    now = row["default"] if now is None else now
    ends = sorted((low, high), key=lambda end: -abs(end - (now if now is not None else low)))
    value = ends[0] if row["key"] not in MODEST else MODEST[row["key"]]
    return int(value) if isinstance(row["default"], int) and not isinstance(row["default"], bool) else value


MODEST = {
    "stiffness_n_m": 2e3,
    "action_delay_s": 0.1,
    "observation_delay_s": 0.1,
    "camera_delay_s": 0.2,
    "pose_delay_s": 0.1,
    "size_scale": 1.1,
    "mass_scale": 3.0,
    "link_mass_scale": 1.3,
    "friction": 0.05,
    "table_friction_scale": 0.2,
    "exposure_stops": 1.0,
    "distortion": -0.15,
    "push_force_n": 6.0,
    "bump_force_n": 40.0,
}
"""Ends of a range can throw everything off the table at once; these are enough."""


@pytest.mark.parametrize(("block", "key"), KEYS, ids=[f"{block}.{key}" for block, key in KEYS])
def test_every_effect_shows_through_the_socket(block, key):
    scenario, needed = scenario_of(block, key)
    row = next(row for row in list_effects() if (row["block"], row["key"]) == (block, key))
    value = changed_value(row, needed.get(block, {}).get(key))
    before = undisturbed(scenario, yaml.safe_dump(needed, sort_keys=True))
    after = seen_in(scenario, merged(needed, {block: {key: value}}))
    assert differs(before, after), f"{block}.{key}: {value} shows nowhere"


@pytest.mark.parametrize("scenario", ["wait", "wiggle", "steer", "look"])
def test_without_a_change_nothing_differs(scenario):
    """What makes the test above mean something."""
    assert not differs(undisturbed(scenario, "{}"), seen_in(scenario, {}))


def test_drift_shows_from_episode_to_episode():
    blocks = {"drift": {"sensing.pose_bias_x_m": 0.01}, **STILL}
    with Served(blocks) as robot:
        places = []
        for number in (0, 2):
            robot.prepare(number)
            places.append(robot.observe().signals)
    assert any(np.abs(places[1][name] - places[0][name]).max() > 0.015 for name in places[0])
