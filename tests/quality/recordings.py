"""Real recordings as episodes, loaded with numpy alone; where they are is said by TWINLOOP_REAL_DATA."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from twinloop.episode import Episode, Provenance, Schema, Signal, make_episode

ROOT = Path(__file__).parent.parent.parent
REAL = Path(os.environ.get("TWINLOOP_REAL_DATA") or ROOT.parent / "shared" / "real")
JOINTS = ("Rotation", "Pitch", "Elbow", "Wrist_Pitch", "Wrist_Roll", "Jaw")
SO101 = Schema(
    (
        Signal("action", (6,), ("rad",) * 5 + ("1",), "float64", JOINTS),
        Signal("observation.state", (6,), ("rad",) * 5 + ("1",), "float64", JOINTS),
        Signal("observation.velocity", (6,), ("rad/s",) * 5 + ("1",), "float64", JOINTS),
        Signal("observation.torque", (6,), ("N·m",), "float64", JOINTS),
    ),
    rate_hz=50.0,
    robot_type="so101",
)


def present() -> bool:
    """Whether the recordings are here."""
    return (REAL / "so101/motions_38.npz").exists()


def so101(motions: int | None = None) -> Iterator[tuple[str, Episode]]:
    """The scripted motions of an SO-101 arm, by name."""
    with np.load(REAL / "so101/motions_38.npz") as file:
        names = sorted({key.split("/")[0] for key in file.files})
        for name in names[:motions]:
            yield name, so101_motion(name, file)


def so101_motion(name: str, file: np.lib.npyio.NpzFile | None = None) -> Episode:
    """One motion."""
    if file is None:
        with np.load(REAL / "so101/motions_38.npz") as opened:
            return so101_motion(name, opened)
    part = {key: file[f"{name}/{key}"] for key in ("t", "cmd", "pos", "vel", "torque")}
    return _real(
        SO101,
        part["t"],
        {
            "action": part["cmd"],
            "observation.state": part["pos"],
            "observation.velocity": part["vel"],
            "observation.torque": part["torque"],
        },
    )


def quanser() -> Iterator[tuple[str, Episode]]:
    """Furuta pendulum and cart-pole, volts in, nominal time stamps."""
    with np.load(REAL / "quanser/qube_cartpole.npz") as file:
        for run in sorted({key.rsplit("/", 1)[0] for key in file.files}):
            time_s, states, volts = (file[f"{run}/{key}"] for key in ("time", "states", "actions"))
            rows = min(len(time_s), len(states), len(volts))
            units = (
                ("m", "rad", "m/s", "rad/s") if run.startswith("qcp") else ("rad", "rad", "rad/s", "rad/s")
            )
            schema = Schema(
                (
                    Signal("observation.state", (4,), units, "float64"),
                    Signal("action", (1,), ("V",), "float64"),
                ),
                rate_hz=500.0 if "500Hz" in run else 250.0,
            )
            yield (
                run,
                _real(schema, time_s[:rows], {"observation.state": states[:rows], "action": volts[:rows]}),
            )


def servo_pendulum() -> Iterator[tuple[str, Episode]]:
    """A position servo with a pendulum, true time stamps."""
    for path in sorted((REAL / "servo_pendulum/xl330").glob("*.json")):
        entries = json.loads(path.read_text())["entries"]
        time_s = np.array([entry["timestamp"] for entry in entries])
        signals = {
            "observation.state": np.array([[entry["position"]] for entry in entries]),
            "observation.velocity": np.array([[entry["speed"]] for entry in entries]),
            "action": np.array([[entry["goal_position"]] for entry in entries]),
        }
        yield path.stem, _real(_single("rad", _rate_hz(time_s)), time_s, signals)


def simple_pendulum() -> Iterator[tuple[str, Episode]]:
    """A torque-limited pendulum, 50 to 1000 Hz."""
    for path in sorted((REAL / "simple_pendulum").glob("*measured*.csv")):
        time_s, position, velocity, torque = np.loadtxt(path, delimiter=",", skiprows=1)[:, -4:].T
        signals = {
            "observation.state": position[:, None],
            "observation.velocity": velocity[:, None],
            "action": torque[:, None],
        }
        yield path.stem, _real(_single("N·m", _rate_hz(time_s)), time_s, signals)


def double_pendulum() -> Iterator[tuple[str, Episode]]:
    """Two direct-drive joints, 500 Hz, torque commands."""
    columns = json.loads((REAL / "double_pendulum/columns.json").read_text())
    with np.load(REAL / "double_pendulum/sysid_C1.npz") as file:
        for run in file.files:
            names = columns[f"sysid_C1/{run}"]
            column = {name: file[run][:, i].astype(np.float64) for i, name in enumerate(names)}
            time_s = column["time"]
            if not (np.diff(time_s) > 0).all():
                continue
            schema = Schema(
                (
                    Signal("observation.state", (2,), ("rad",), "float64"),
                    Signal("observation.velocity", (2,), ("rad/s",), "float64"),
                    Signal("action", (2,), ("N·m",), "float64"),
                ),
                rate_hz=_rate_hz(time_s),
            )
            signals = {
                "observation.state": np.stack([column["pos_meas1"], column["pos_meas2"]], axis=1),
                "observation.velocity": np.stack([column["vel_meas1"], column["vel_meas2"]], axis=1),
                "action": np.stack([column["tau_con1"], column["tau_con2"]], axis=1),
            }
            yield run, _real(schema, time_s, signals)


def cube_tosses(count: int | None = None) -> Iterator[tuple[str, Episode]]:
    """A tossed cube seen by a tracker, 148 Hz, nominal time stamps."""
    schema = Schema(
        (
            Signal("observation.state", (7,), ("m",) * 3 + ("1",) * 4, "float64"),
            Signal("observation.velocity", (6,), ("m/s",) * 3 + ("rad/s",) * 3, "float64"),
        ),
        rate_hz=148.0,
    )
    with np.load(REAL / "cube_toss/tosses_400.npz") as file:
        position, turn, velocity, spin, offsets = (
            file[name] for name in ("pos", "quat_wxyz", "vel", "omega_body", "offsets")
        )
    for toss, (first, stop) in enumerate(pairwise(offsets)):
        if count is not None and toss >= count:
            return
        rows = slice(int(first), int(stop))
        signals = {
            "observation.state": np.concatenate([position[rows], turn[rows]], axis=1).astype(np.float64),
            "observation.velocity": np.concatenate([velocity[rows], spin[rows]], axis=1).astype(np.float64),
        }
        yield f"toss {toss}", _real(schema, np.arange(rows.stop - rows.start) / 148, signals)


def _single(action_unit: str, rate_hz: float) -> Schema:
    return Schema(
        (
            Signal("observation.state", (1,), ("rad",), "float64"),
            Signal("observation.velocity", (1,), ("rad/s",), "float64"),
            Signal("action", (1,), (action_unit,), "float64"),
        ),
        rate_hz=rate_hz,
    )


def _rate_hz(time_s: np.ndarray) -> float:
    return float(round(1 / np.median(np.diff(time_s)), 1))


def _real(schema: Schema, time_s: np.ndarray, signals: dict[str, np.ndarray]) -> Episode:
    return make_episode(schema, time_s, signals, provenance=Provenance(source="real"))
