"""Messy logs of two arms with known parameters: jittered loops, lost rows, missing readings, a clock that is off, 30 to 500 Hz.

A robot's loop runs unevenly; each turn it reads its joints and sends a command, which holds until the next. The log is a CSV
file as people have them: stamps in milliseconds since 1970 by a clock that runs fast, rows missing, cells empty. It is
ingested through a map as any other.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.episode import Episode, Schema, Signal, make_episode
from twinloop.identification.config import IdentifyConfig
from twinloop.identification.predict import Predictor, Window
from twinloop.identification.recording import find_channels, read_recording
from twinloop.identification.run import identify
from twinloop.logs.ingest import ingest
from twinloop.logs.log_map import parse_map
from twinloop.tasks import make_cell
from twinloop.twins import Twin, load_twin, make_twin_from_model, with_time_step

Array = NDArray[Any]

RATES_HZ = (30.0, 50.0, 100.0, 200.0, 500.0)
RUNS, SECONDS = 4, 2.0
NOISE_RAD, QUANTUM_RAD = 3e-4, 5e-4
JITTER, LOST, MISSING, CLOCK_FAST, STAMP_S = 0.15, 0.03, 0.01, 5e-5, 1e-4
"""Of the period; of the rows; of the readings; a clock's error; and the scatter of its stamps."""
EPOCH_MS = 1.7e12
FINER = 8
"""Time moves on smoothly in a robot: its logs are simulated with so much shorter time steps than its twin's."""

STRANGER = """
<mujoco model="stranger">
  <compiler angle="radian"/>
  <option timestep="0.002" integrator="implicitfast"/>
  <worldbody>
    <body name="turret" pos="0 0 0.3">
      <joint name="turn" axis="0 0 1" range="-2.5 2.5" damping="3" armature="0.3" frictionloss="1.5"/>
      <geom type="capsule" fromto="0 0 0 0 0 0.1" size="0.05" mass="4"/>
      <body name="boom" pos="0 0 0.1">
        <joint name="lift" axis="0 1 0" range="-2 2" damping="4" armature="0.4" frictionloss="2"/>
        <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.04" mass="3"/>
        <body name="tip" pos="0.4 0 0">
          <joint name="bend" axis="0 1 0" range="-2 2" damping="1" armature="0.1" frictionloss="0.6"/>
          <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="1.5"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="turn" joint="turn" kp="400" kv="20" forcerange="-80 80"/>
    <position name="lift" joint="lift" kp="600" kv="30" forcerange="-120 120"/>
    <position name="bend" joint="bend" kp="150" kv="8" forcerange="-40 40"/>
  </actuator>
</mujoco>
"""


@dataclass(frozen=True)
class Arm:
    """An arm, the parameters to recover, and how far commands go."""

    twin: Twin
    parameters: tuple[str, ...]
    reach_rad: float


def arms(folder: Path) -> dict[str, Arm]:
    """A packaged arm and one from a stranger's MJCF."""
    file = folder / "stranger.xml"
    file.write_text(STRANGER)
    return {
        "so101": Arm(
            load_twin("so101"),
            (
                *(f"{joint}_friction_nm" for joint in ("shoulder_lift", "elbow_flex", "wrist_roll")),
                *(f"{joint}_damping_nms_rad" for joint in ("shoulder_lift", "wrist_roll")),
                "elbow_flex_armature_kgm2",
                "wrist_flex_armature_kgm2",
                "action_delay_s",
            ),
            0.4,
        ),
        "stranger": Arm(
            make_twin_from_model(file),
            (
                *(
                    f"{joint}_{kind}"
                    for joint in ("lift", "bend")
                    for kind in ("friction_nm", "damping_nms_rad")
                ),
                "turn_armature_kgm2",
                "bend_armature_kgm2",
                "bend_stiffness_nm_rad",
                "action_delay_s",
            ),
            0.4,
        ),
    }


def draw_truth(arm: Arm, rng: np.random.Generator) -> dict[str, float]:
    """Values within a factor of two of nominal, and a delay of 0 to 60 ms."""
    return {
        name: float(rng.uniform(0.0, 0.06))
        if name == "action_delay_s"
        else float(arm.twin.parameter(name).nominal * 2.0 ** rng.uniform(-1.0, 1.0))  # type: ignore[operator]
        for name in arm.parameters
    }


def recover(what: Sequence[Any]) -> dict[str, Any]:
    """Identify one arm from its messy logs: whether each interval holds the truth."""
    name, seed = what
    rng = np.random.default_rng([11, seed])
    with tempfile.TemporaryDirectory() as scratch:
        arm = arms(Path(scratch))[name]
        truth = draw_truth(arm, rng)
        rate_hz = RATES_HZ[seed % len(RATES_HZ)]
        (logs := Path(scratch) / "logs").mkdir()
        for run in range(RUNS):
            write_log(logs / f"run_{run}.csv", arm, truth, rate_hz, rng)
        dataset = ingest(logs, Path(scratch) / "dataset", parse_map(log_map(arm, rate_hz))).dataset
        found = identify(arm.twin, list(dataset), arm.parameters, config=IdentifyConfig(threads=1))
    return {
        "arm": name,
        "rate_hz": rate_hz,
        "parameters": {
            e.name: {
                "truth": truth[e.name],
                "value": e.value,
                "low": e.low,
                "high": e.high,
                "status": e.status,
                "covered": bool(e.low <= truth[e.name] <= e.high),
            }
            for e in found.estimates
        },
    }


def write_log(
    file: Path, arm: Arm, truth: Mapping[str, float], rate_hz: float, rng: np.random.Generator
) -> None:
    """One run as a CSV file."""
    count = round(SECONDS * rate_hz)
    true_s = (np.arange(count) + JITTER * rng.uniform(-1.0, 1.0, count)) / rate_hz
    actions, readings = simulate(arm, truth, true_s, rate_hz, rng)
    readings = (
        np.round((readings + NOISE_RAD * rng.standard_normal(readings.shape)) / QUANTUM_RAD) * QUANTUM_RAD
    )
    readings[rng.random(count) < MISSING] = np.nan
    stamps_ms = EPOCH_MS + 1e3 * ((1.0 + CLOCK_FAST) * true_s + STAMP_S * rng.standard_normal(count))
    kept = rng.random(count) >= LOST
    names = make_cell(arm.twin).actuators
    header = ["stamp_ms", *(f"{name}_pos" for name in names), *(f"{name}_cmd" for name in names)]
    lines = [
        ",".join([f"{stamp:.3f}", *("" if np.isnan(x) else f"{x:.6f}" for x in row)])
        for stamp, row in zip(stamps_ms[kept], np.hstack([readings, actions])[kept], strict=True)
    ]
    file.write_text("\n".join([",".join(header), *lines]) + "\n")


def simulate(
    arm: Arm, truth: Mapping[str, float], time_s: Array, rate_hz: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Commands (T, joints) sent at `time_s`, and where the joints are then."""
    cell = make_cell(with_time_step(arm.twin, arm.twin.physics_dt_s / FINER))
    names = cell.actuators
    home = np.array([arm.twin.home.get(name, 0.0) for name in names])
    waves = np.zeros((len(time_s), len(names)))
    for column in range(len(names)):
        for _ in range(3):
            hz, phase = rng.uniform(0.3, min(3.0, rate_hz / 10.0)), rng.uniform(0.0, 2.0 * np.pi)
            waves[:, column] += np.sin(2.0 * np.pi * hz * time_s + phase) - np.sin(phase)
    actions = home + 0.5 * arm.reach_rad * waves
    still = np.tile(home, (len(time_s), 1))
    schema = Schema(
        (
            Signal("observation.state", (len(names),), ("rad",), "float64", tuple(f"{n}.pos" for n in names)),
            Signal("action", (len(names),), ("rad",), "float64", tuple(f"{n}.target" for n in names)),
        ),
        rate_hz,
    )
    blank: Episode = make_episode(
        schema, time_s - time_s[0], {"observation.state": still, "action": actions}, task=""
    )
    channels = find_channels(cell, blank)
    predictor = Predictor(cell, [read_recording(cell, blank, channels)], channels, list(truth), threads=1)
    values = {name: np.array([value]) for name, value in truth.items()}
    return actions, still + predictor.residuals(values, [Window(0, 0, len(time_s))])[0]


def log_map(arm: Arm, rate_hz: float) -> str:
    """The map of such a log, as a person would write it."""
    names = make_cell(arm.twin).actuators
    listed = {part: ", ".join(f"{name}_{part}" for name in names) for part in ("pos", "cmd")}
    joints = ", ".join(names)
    return f"""
format: csv
robot_type: {arm.twin.name}
rate_hz: {rate_hz:g}
task: excite
provenance: {{source: real, actor: excitation}}
clock: {{channel: stamp_ms, unit: ms}}
signals:
  observation.state: {{from: [{listed["pos"]}], elements: [{joints}], unit: rad, missing: drop}}
  action: {{from: [{listed["cmd"]}], elements: [{joints}], unit: rad}}
"""
