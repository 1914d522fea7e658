"""A policy with known conventions and recordings of it: it follows a goal that it reads from signals and from two cameras."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.writer import make_dataset
from twinloop.episode import Array, Camera, Schema, Signal, make_episode
from twinloop.errors import PolicyGone
from twinloop.policies.mapping.interface_map import InterfaceMap

JOINTS = ("pan", "lift", "elbow", "gripper")
QUATERNION = ("object.qw", "object.qx", "object.qy", "object.qz")
SCHEMA = Schema(
    (
        Signal(
            "observation.state", (4,), ("rad", "rad", "rad", "m"), elements=tuple(f"{j}.pos" for j in JOINTS)
        ),
        Signal("observation.environment_state", (4,), elements=QUATERNION),
        Signal("action", (4,), ("rad", "rad", "rad", "m"), elements=tuple(f"{j}.target" for j in JOINTS)),
    ),
    50.0,
    (Camera("left", 16, 16), Camera("right", 16, 16)),
    "tracker",
)
CHUNK = 16
WEIGHTS = np.array([[0.9, -0.4, 0.3, 0.2], [0.2, 0.8, -0.5, 0.4], [-0.3, 0.5, 0.7, 0.6]])
SPEED = np.array([0.06, 0.08, 0.1, 0.12])
"""Fraction of the way to the goal in one step, another for each joint."""
OPEN_M, CLOSED_M = 0.08, 0.0

RIGHT_MAP: dict[str, Any] = {
    "policy": "python:tests.policies.tracker:Tracker",
    "inputs": {
        "state": {"from": "observation.state"},
        "object": {"from": "observation.environment_state"},
        "left": {"camera": "left"},
        "right": {"camera": "right"},
    },
    "actions": [
        {"elements": [f"{joint}.target" for joint in JOINTS[:3]]},
        {"gripper": "gripper.target", "open": 1.0, "closed": 0.0, "opened_at": OPEN_M, "closed_at": CLOSED_M},
    ],
}


def right_map() -> InterfaceMap:
    """The map of the tracker as it should be."""
    return InterfaceMap.model_validate(RIGHT_MAP)


def find_goal(quaternion: Array, left: Array, right: Array, looks: float = 2.0) -> Array:
    """Where the joints go (4,): seen in the quaternion, the colours of the left frame and the brightness of the right one.

    `looks` is how much the images matter.
    """
    colours = np.array([left[..., 0].mean(), left[..., 2].mean(), right[..., 1].mean()]) / 255.0 - 0.5
    joints = 1.2 * (WEIGHTS @ quaternion) + looks * colours
    return np.append(joints, OPEN_M if joints.sum() > 0.0 else CLOSED_M)


class Tracker:
    """The policy: absolute angles in rad, the gripper from 0 (closed) to 1, RGB from 0 to 255, quaternions w first, 50 Hz.

    Its error follows from where the joints are, as that of a trained network; with `drawn` it is another one each time.
    """

    stateless = True

    def __init__(self, error: float = 0.02, seed: int = 0, looks: float = 2.0, drawn: bool = False) -> None:
        self.metadata: Mapping[str, Any] = {}
        self.fingerprint = f"tracker {error} {seed}"
        self._error, self._seed, self._looks = error, seed, looks
        self._rng = np.random.default_rng(seed) if drawn else None

    def open_session(self) -> Tracker:
        return self

    def reset(self, seed: int, task: str) -> None:
        pass

    def infer(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        if missing := {"object", "state", "left", "right"} - inputs.keys():
            raise PolicyGone(f"the tracker lacks {', '.join(sorted(missing))}")
        goal = find_goal(
            inputs["object"],
            *(np.asarray(inputs[side], np.float64) for side in ("left", "right")),
            self._looks,
        )
        at, chunk = np.asarray(inputs["state"], np.float64), []
        for _ in range(CHUNK):
            at = at + SPEED * (goal - at)
            chunk.append(at)
        rng = self._rng or np.random.default_rng([self._seed, crc32(np.asarray(inputs["state"]).tobytes())])
        actions = np.array(chunk) + rng.normal(0.0, self._error, (CHUNK, 4)) * [1, 1, 1, OPEN_M]
        actions[:, 3] = (actions[:, 3] - CLOSED_M) / (OPEN_M - CLOSED_M)
        return {"actions": actions}

    def close(self) -> None:
        pass


def record_tracker(
    folder: Path,
    episodes: int = 24,
    steps: int = 45,
    seed: int = 0,
    gripper: bool = True,
    looks: float = 2.0,
) -> Dataset:
    """Demonstrations of what the tracker does; without `gripper`, it is recorded as closed all the time."""
    rng = np.random.default_rng(seed)
    with make_dataset(folder, SCHEMA) as writer:
        for _ in range(episodes):
            signals: dict[str, list[Array]] = {signal.name: [] for signal in SCHEMA.signals}
            frames: dict[str, list[Array]] = {"left": [], "right": []}
            at = np.append(rng.normal(0.0, 0.5, 3), rng.uniform(CLOSED_M, OPEN_M))
            quaternion = rng.normal(0.0, 1.0, 4)
            quaternion /= np.linalg.norm(quaternion)
            left, right = (np.full((16, 16, 3), rng.integers(20, 236, 3), np.uint8) for _ in range(2))
            goal = find_goal(quaternion, left.astype(np.float64), right.astype(np.float64), looks)
            for _ in range(steps):
                signals["observation.state"].append(at)
                signals["observation.environment_state"].append(quaternion)
                frames["left"].append(left)
                frames["right"].append(right)
                at = at + SPEED * (goal - at)
                signals["action"].append(at * [1.0, 1.0, 1.0, gripper])
            writer.add(
                make_episode(
                    SCHEMA,
                    np.arange(steps) / SCHEMA.rate_hz,
                    {name: np.array(values, np.float32) for name, values in signals.items()},
                    frames={name: np.array(values) for name, values in frames.items()},
                    success=True,
                    task="follow",
                )
            )
    return open_dataset(folder)
