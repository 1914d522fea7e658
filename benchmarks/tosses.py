"""The tossed cube: contact identified from tosses, judged by replaying tosses that were not fitted from their first frame."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Table, Target
from twinloop.episode import Episode
from twinloop.identification.config import IdentifyConfig
from twinloop.identification.predict import Predictor, Window
from twinloop.identification.recording import find_channels, read_recording, rotation_between
from twinloop.identification.run import identify
from twinloop.tasks import make_cell
from twinloop.twins import Twin, load_twin

Array = NDArray[Any]

EDGE_M = 0.1048
LENGTH_SCALE = 0.979
"""Recorded over true length: free fall shows 9.605 m/s2."""
GRAVITY_M_S2 = 9.605
CLEARANCE_M = 0.002
FEWEST, MOST = 3, 12
"""Rows of free flight from which the first frame's speeds are read off."""
WINDOW_S, WHOLE_S = 0.35, 10.0
"""Contact is first fitted in windows, which are hardly chaotic, and from there to whole tosses, which is what is judged."""

PARAMETERS: dict[str, tuple[float, float]] = {
    "object_friction": (0.08, 0.4),
    "object_face_friction_scale": (0.7, 2.0),
    "contact_time_s": (0.004, 0.02),
    "contact_damping_ratio": (0.4, 1.6),
    "contact_impedance": (0.3, 0.98),
    "contact_width_m": (0.0003, 0.006),
    "object_size_m": (0.1005, 0.106),
    "object_inertia_scale": (0.8, 1.8),
}
QUOTED = (
    ("quoted: quick fit of 7 parameters, MuJoCo", "13.2", "17.6"),
    ("quoted second-hand: Drake", "13.5", "16.5"),
    ("quoted second-hand: Bullet", "14.9", "16.5"),
    ("quoted second-hand: MuJoCo", "25.1", "21.7"),
)
NOTES = (
    "Cube: errors are means over each toss's frames, then over tosses, in % of the 10.48 cm edge and in degrees. 'As "
    "recorded' starts from the first frame's recorded speeds, which are differences to the frame before (so 0.033 m/s "
    "too high in z, which is put right) and scatter by 0.2 rad/s. 'Free flight' reads speeds off the first 3 to 12 "
    "frames, all before the first touch; nothing later is used. Quoted numbers are of all tosses, from the first frame.",
)


def measure(
    episodes: Sequence[Episode], *, quick: bool, say: Callable[[str], None]
) -> tuple[Table, list[Target]]:
    """Fit contact on free-flight starts, then replay the held-out tosses from both kinds of start."""
    smooth = [with_first_speeds(episode, *free_flight(episode)) for episode in episodes]
    recorded = [with_first_speeds(episode, *half_step_later(episode)) for episode in episodes]
    twin = load_twin("cube_toss").with_values(gravity_m_s2=GRAVITY_M_S2)
    began = time.monotonic()
    names = tuple(PARAMETERS)
    near = identify(
        twin,
        smooth,
        names,
        config=IdentifyConfig(priors=PARAMETERS, horizon_s=WINDOW_S, seconds=8.0 if quick else 20.0),
    )
    found = identify(
        near.twin,
        smooth,
        names,
        config=IdentifyConfig(priors=PARAMETERS, horizon_s=WHOLE_S, seconds=10.0 if quick else 60.0),
    )
    fitted_s = time.monotonic() - began
    say(f"cube: fitted in {fitted_s:.0f} s; {found.gate.reason}")
    versions = {
        "published figures, friction 0.18": load_twin("cube_toss"),
        "identified": found.twin,
    }
    rows = []
    results: dict[tuple[str, str], tuple[float, float, float]] = {}
    for name, version in versions.items():
        for start, source in (("as recorded", recorded), ("free flight", smooth)):
            kept = [episode for episode in source if episode.id in found.held_out]
            place, turn = replay_errors(version, kept)
            results[name, start] = (place.mean(), turn.mean(), place.std() / np.sqrt(len(place)))
            rows.append(
                (
                    f"{name}; start {start}",
                    f"{place.mean():.1f} ± {place.std() / np.sqrt(len(place)):.1f}",
                    f"{turn.mean():.1f} ± {turn.std() / np.sqrt(len(turn)):.1f}",
                    f"{np.median(place):.1f}",
                    f"{np.median(turn):.1f}",
                )
            )
    rows += [(*quoted, "", "") for quoted in QUOTED]
    columns = ("cube", "position (% of edge)", "rotation (deg)", "median position", "median rotation")
    title = f"Tossed cube: replay of {len(found.held_out)} held-out tosses; fitted on {len(found.fitted)} in {fitted_s:.0f} s"
    place, turn, _ = results["identified", "free flight"]
    raw_place, raw_turn, _ = results["identified", "as recorded"]
    measured = f"{place:.1f} % and {turn:.1f} deg from free flight; {raw_place:.1f} % and {raw_turn:.1f} deg as recorded"
    return Table(title, columns, tuple(rows)), [
        Target("cube: position <= 11 % of the edge", measured, place <= 11.0),
        Target("cube: rotation <= 16 degrees", measured, turn <= 16.0),
    ]


def replay_errors(twin: Twin, episodes: Sequence[Episode]) -> tuple[Array, Array]:
    """Per toss, replayed whole from its first frame: mean position error in % of the edge, mean rotation in degrees."""
    cell = make_cell(twin)
    channels = find_channels(cell, episodes[0])
    recordings = [read_recording(cell, episode, channels) for episode in episodes]
    windows = [Window(index, 0, len(recording)) for index, recording in enumerate(recordings)]
    residual = Predictor(cell, recordings, channels, ()).residuals({}, windows)[0]
    ends = np.cumsum([len(window) for window in windows])[:-1]
    kinds = np.array([channel.kind for channel in channels])
    place = np.linalg.norm(residual[:, kinds == "place"], axis=1) / EDGE_M * 100.0
    turn = np.degrees(np.linalg.norm(residual[:, kinds == "turn"], axis=1))
    return (
        np.array([part.mean() for part in np.split(place, ends)]),
        np.array([part.mean() for part in np.split(turn, ends)]),
    )


def free_flight(episode: Episode) -> tuple[Array, Array]:
    """Speed and turning rate at the first frame from the frames before the first touch.

    In flight the cube falls freely and, its inertia being the same about every axis, turns at a constant rate.
    """
    position = np.asarray(episode["observation.position"], np.float64)
    quat = np.asarray(episode["observation.orientation"], np.float64)
    time_s = np.asarray(episode.time_s - episode.time_s[0], np.float64)
    touching = np.flatnonzero(lowest_corner(position, quat) < CLEARANCE_M)
    count = int(np.clip(touching[0] - 1 if len(touching) else MOST, FEWEST, MOST))
    time_s = time_s[:count]
    basis = np.stack([np.ones(count), time_s], axis=1)
    fallen = position[:count] + np.array([0.0, 0.0, 0.5 * GRAVITY_M_S2]) * time_s[:, None] ** 2
    turned = rotation_between(np.repeat(quat[:1], count, axis=0), quat[:count])
    return np.linalg.lstsq(basis, fallen, rcond=None)[0][1], np.linalg.lstsq(basis, turned, rcond=None)[0][1]


def half_step_later(episode: Episode) -> tuple[Array, Array]:
    """The recorded speeds of the first frame; the vertical one belongs to half a frame earlier and has fallen since."""
    speed = np.array(episode["observation.velocity"][0], np.float64)
    speed[2] -= 0.5 * GRAVITY_M_S2 * float(episode.time_s[1] - episode.time_s[0])
    return speed, np.array(episode["observation.omega"][0], np.float64)


def with_first_speeds(episode: Episode, speed: Array, omega: Array) -> Episode:
    """The episode with other speeds in its first row; all else stays."""
    signals: Mapping[str, Array] = episode.signals
    changed = {name: np.array(signals[name]) for name in ("observation.velocity", "observation.omega")}
    changed["observation.velocity"][0], changed["observation.omega"][0] = speed, omega
    return replace(episode, signals={**signals, **changed})


def lowest_corner(position: Array, quat: Array) -> Array:
    """Height of the cube's lowest corner at every row."""
    w, x, y, z = quat.T
    third_row = np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=1)
    return np.asarray(position[:, 2] - 0.5 * EDGE_M * LENGTH_SCALE * np.abs(third_row).sum(axis=1))
