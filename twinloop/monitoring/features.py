"""Features of an episode that do not depend on the policy: response of the joints, positions in the scene, camera images.

A feature's name begins with its group: `actuator`, `scene` or `camera`. Each has a floor, the size below which a change is
irrelevant; seeded noise of that size is added, so that a constant quantity does not raise an alarm for a tiny change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import numpy as np

from twinloop.episode import Array, Episode
from twinloop.measure.delay import measure_following
from twinloop.measure.friction import measure_friction
from twinloop.measure.images import QUALITIES, measure_dulled, measure_qualities, measure_shift
from twinloop.measure.trace import Trace

Group = Literal["actuator", "scene", "camera"]
GROUPS: tuple[Group, ...] = get_args(Group)

STATE, EFFORT, ACTION, SCENE = (
    "observation.state",
    "observation.effort",
    "action",
    "observation.environment_state",
)
ANSWER_TIMEOUT_S = 0.1
"""Time after a command at which a joint's response is read."""
LEAST_MOTION_RAD = 0.05
STANDING_ROWS = 5
"""Rows at the start of an episode, before the robot touches anything."""

FLOORS = {
    "actuator.answer": 0.01,
    "actuator.delay": 0.002,
    "actuator.friction": 0.02,
    "scene": 0.001,
    "camera.shift": 0.3,
    "camera": 0.02,
}
"""Smallest relevant change: fractions, s, N·m, m (1 for directions), px, fractions of the usual brightness."""


def episode_features(episode: Episode, usual: Mapping[str, Array]) -> dict[str, float]:
    """Features by name; `usual` is the reference frame of each camera, see `usual_frames`."""
    features = _actuators(episode) | _scene(episode) | _cameras(episode, usual)
    return {name: value + _floor(name) * _noise(episode.id, name) for name, value in features.items()}


def usual_frames(episodes: Sequence[Episode]) -> dict[str, Array]:
    """The median first frame of each camera, (height, width, 3)."""
    names = [camera.name for camera in episodes[0].schema.cameras] if episodes else []
    return {name: np.median([np.asarray(e.frames[name][0]) for e in episodes], axis=0) for name in names}


def group_of(feature: str) -> Group:
    """The group of a feature."""
    head = feature.partition(".")[0]
    return next(group for group in GROUPS if group == head)


def _actuators(episode: Episode) -> dict[str, float]:
    """For each joint that moves: delay, friction, and the fraction of the way to its command it covers in 0.1 s."""
    names = {signal.name: signal for signal in episode.schema.signals}
    if STATE not in names or ACTION not in names or names[STATE].size != names[ACTION].size:
        return {}
    rate = episode.schema.rate_hz
    ahead = max(1, round(ANSWER_TIMEOUT_S * rate))
    position, command = np.asarray(episode[STATE], np.float64), np.asarray(episode[ACTION], np.float64)
    effort = np.asarray(episode[EFFORT], np.float64) if EFFORT in names else None
    found: dict[str, float] = {}
    for joint in range(position.shape[1]):
        turned = names[STATE].units[joint if len(names[STATE].units) > 1 else 0] in ("rad", "rad/s")
        if not turned or np.ptp(position[:, joint]) < LEAST_MOTION_RAD or len(position) < 4 * ahead:
            continue
        label = names[STATE].elements[joint].partition(".")[0] if names[STATE].elements else f"joint{joint}"
        trace = Trace(
            label, "rad", np.asarray(episode.time_s), position[:, joint], command[:, joint],
            effort=effort[:, joint] if effort is not None and effort.shape == position.shape else None,
        )  # fmt: skip
        following, friction = measure_following(trace), measure_friction(trace)
        if following is not None and following.delay_known:
            found[f"actuator.delay.{label}"] = following.delay.value
        if friction is not None:
            found[f"actuator.friction.{label}"] = friction.value
        away = command[:-ahead, joint] - position[:-ahead, joint]
        moved = position[ahead:, joint] - position[:-ahead, joint]
        found[f"actuator.answer.{label}"] = float(away @ moved) / max(float(away @ away), 1e-12)
    return found


def _scene(episode: Episode) -> dict[str, float]:
    """Perceived positions before the robot touches anything."""
    signal = next((s for s in episode.schema.signals if s.name == SCENE), None)
    if signal is None or not signal.elements:
        return {}
    start = np.median(np.asarray(episode[SCENE], np.float64)[:STANDING_ROWS], axis=0)
    positions = dict(zip(signal.elements, start.tolist(), strict=True))
    kept = [n for n in positions if n.endswith((".x", ".y", ".z")) or n == "object.r21"]
    return {f"scene.{name}": positions[name] for name in kept}


def _cameras(episode: Episode, usual: Mapping[str, Array]) -> dict[str, float]:
    """Global image features of the first frame, relative to the reference frame."""
    found: dict[str, float] = {}
    for name, before in usual.items():
        if name not in episode.frames:
            continue
        frame = np.asarray(episode.frames[name][0], np.float64)
        now, usually = (
            dict(zip(QUALITIES, measure_qualities(image), strict=True)) for image in (frame, before)
        )
        down, right = measure_shift(before, frame)
        found |= {
            f"camera.brightness.{name}": now["exposure"] / max(usually["exposure"], 1e-6),
            f"camera.warmth.{name}": now["colour, red to green"] - now["colour, blue to green"],
            f"camera.contrast.{name}": now["contrast"] / max(usually["contrast"], 1e-6),
            f"camera.sharpness.{name}": now["sharpness"] / max(usually["sharpness"], 1e-6),
            f"camera.dulled.{name}": measure_dulled(before, frame),
            f"camera.shift.down.{name}": down,
            f"camera.shift.right.{name}": right,
        }
    return found


def _floor(name: str) -> float:
    return next(floor for head, floor in FLOORS.items() if name.startswith(head))


def _noise(episode: str, name: str) -> float:
    """A standard normal number seeded by an episode's id and a feature's name."""
    seed = int.from_bytes(hashlib.blake2b(f"{episode}:{name}".encode(), digest_size=8).digest(), "little")
    return float(np.random.default_rng(seed).standard_normal())
