"""The double pendulum fitted by Twinloop and by mujoco.sysid: same windows, same parameters, same machine, in turn."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from mujoco import rollout
from numpy.typing import NDArray

from benchmarks.peers import mujoco_sysid
from benchmarks.report import Table, Target
from twinloop.episode import Episode
from twinloop.identification.config import IdentifyConfig
from twinloop.identification.predict import held_integral
from twinloop.identification.recording import find_channels, read_recording
from twinloop.identification.run import identify
from twinloop.identification.windows import cut, split_episodes
from twinloop.tasks import make_cell
from twinloop.twins import Twin, load_twin

Array = NDArray[Any]

SENSORS = (
    '<sensor><jointpos name="shoulder" joint="shoulder"/><jointpos name="elbow" joint="elbow"/></sensor>'
)
PRIORS: dict[str, tuple[float, float]] = {
    "upper_mass_kg": (0.1, 1.5),
    "upper_inertia_kgm2": (0.001, 0.05),
    "lower_mass_kg": (0.1, 1.5),
    "lower_inertia_kgm2": (0.001, 0.05),
    "shoulder_damping_nms_rad": (0.0, 0.1),
    "elbow_damping_nms_rad": (0.0, 0.1),
    "shoulder_friction_nm": (0.0, 1.0),
    "elbow_friction_nm": (0.0, 1.0),
}
TRUTH = {
    "upper_mass_kg": 0.42,
    "upper_inertia_kgm2": 0.014,
    "lower_mass_kg": 0.55,
    "lower_inertia_kgm2": 0.013,
    "shoulder_damping_nms_rad": 0.012,
    "elbow_damping_nms_rad": 0.006,
    "shoulder_friction_nm": 0.22,
    "elbow_friction_nm": 0.09,
}
NOISE_RAD = 2e-4
"""Of the hardware's encoders, from its recordings at rest."""
EVERYTHING_S = 1e4
"""Both fit all windows of the episodes that are not held out."""
Replay = Callable[[Twin, Sequence[Episode], Sequence[str]], Any]


def measure(
    episodes: Sequence[Episode], horizon_s: float, replay: Replay, work: Path, say: Callable[[str], None]
) -> tuple[Table, list[Target]]:
    """Both on the real recordings and on motions of a twin whose parameters are known."""
    if missing := mujoco_sysid.install():
        return Table("Beside mujoco.sysid", ("problem", "why"), (("all", missing),)), [
            Target("error and time no worse than mujoco.sysid", missing, None)
        ]
    rows, targets = [], []
    for problem, data, truth in (("real", episodes, None), ("known truth", simulated(episodes), TRUTH)):
        ours, ours_s, held_out = fit_ours(data, horizon_s)
        theirs, theirs_s = fit_theirs(data, horizon_s, work)
        errors = {}
        for name, values, seconds in (("Twinloop", ours, ours_s), ("mujoco.sysid", theirs, theirs_s)):
            rms = replay(load_twin("double_pendulum").with_values(values), data, held_out).short
            wrong = relative_errors(values, truth) if truth else None
            errors[name] = float(np.median(wrong)) if wrong is not None else float(np.exp(np.log(rms).mean()))
            rows.append(
                (
                    problem,
                    name,
                    *(f"{x:.5f}" for x in rms),
                    f"{np.median(wrong):.2%}, {np.max(wrong):.2%}" if wrong is not None else "",
                    f"{seconds:.1f}",
                )
            )
            say(f"{problem}, {name}: {seconds:.0f} s")
        targets += [
            Target(
                f"{problem}: error no worse than mujoco.sysid",
                f"{errors['Twinloop']:.3g} against {errors['mujoco.sysid']:.3g}",
                errors["Twinloop"] <= 1.02 * errors["mujoco.sysid"],
            ),
            Target(
                f"{problem}: at most a fifth of mujoco.sysid's processor time",
                f"{ours_s:.1f} s against {theirs_s:.1f} s",
                5.0 * ours_s <= theirs_s,
            ),
        ]
    columns = (
        "problem", "by", "shoulder (rad)", "elbow (rad)", "parameter error: median, largest", "processor seconds",
    )  # fmt: skip
    title = f"Beside mujoco.sysid: double pendulum, 8 parameters, windows of {horizon_s:g} s, no delay fitted"
    return Table(title, columns, tuple(rows)), targets


def fit_ours(
    episodes: Sequence[Episode], horizon_s: float
) -> tuple[dict[str, float], float, tuple[str, ...]]:
    """Values, seconds of processor time, and which episodes were held out."""
    began = time.process_time()
    found = identify(
        load_twin("double_pendulum"),
        episodes,
        tuple(PRIORS),
        config=IdentifyConfig(priors=PRIORS, horizon_s=horizon_s, seconds=EVERYTHING_S),
    )
    seconds = time.process_time() - began
    return {e.name: e.value for e in found.estimates}, seconds, found.held_out


def fit_theirs(episodes: Sequence[Episode], horizon_s: float, work: Path) -> tuple[dict[str, float], float]:
    """The same windows, with commands held and starts as Twinloop reads them off."""
    problem, out = work / "sysid_problem.npz", work / "sysid_result.json"
    np.savez(problem, **_problem(episodes, horizon_s))
    mujoco_sysid.run("fit.py", problem, out)
    words = json.loads(out.read_text())
    return words["values"], float(words["seconds"])


def relative_errors(values: Mapping[str, float], truth: Mapping[str, float]) -> Array:
    return np.array([abs(values[name] / truth[name] - 1.0) for name in truth])


def simulated(episodes: Sequence[Episode], seed: int = 5) -> list[Episode]:
    """The same commands sent to a twin with known parameters, read with the hardware's noise."""
    rng = np.random.default_rng(seed)
    model = load_twin("double_pendulum").make_model(TRUTH)
    data, made = mujoco.MjData(model), []
    for episode in episodes:
        time_s = np.asarray(episode.time_s, np.float64)
        steps = int(np.ceil((time_s[-1] - time_s[0]) / model.opt.timestep))
        edges = time_s[0] + model.opt.timestep * np.arange(steps + 1)
        commands = np.asarray(episode["action"], np.float64)
        held = np.diff(held_integral(time_s, commands, edges), axis=0) / model.opt.timestep
        data.qpos[:] = np.asarray(episode["observation.state"][0], np.float64)
        state = np.empty(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS))
        mujoco.mj_getState(model, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        states, _ = rollout.rollout(model, data, state, held)
        qpos = np.concatenate([state[None, 1:3], states[0][:, 1:3]])
        read = np.stack([np.interp(time_s, edges, qpos[:, joint]) for joint in range(2)], axis=1)
        read += NOISE_RAD * rng.standard_normal(read.shape)
        kind = episode["observation.state"].dtype
        made.append(replace(episode, signals={**episode.signals, "observation.state": read.astype(kind)}))
    return made


def _problem(episodes: Sequence[Episode], horizon_s: float) -> dict[str, Any]:
    twin = load_twin("double_pendulum")
    cell = make_cell(twin)
    channels = find_channels(cell, episodes[0])
    recordings = [read_recording(cell, episode, channels) for episode in episodes]
    fitted, _ = split_episodes([recording.id for recording in recordings])
    windows = cut(recordings, fitted, horizon_s)
    rows = min(len(window) for window in windows)
    dt_s = twin.physics_dt_s
    parts: dict[str, list[Array]] = {key: [] for key in ("qpos", "qvel", "controls", "stamps", "readings")}
    for window in windows:
        recording = recordings[window.recording]
        stamps = recording.time_s[window.start : window.start + rows] - recording.time_s[window.start]
        steps = int(np.ceil(horizon_s / dt_s)) + 5
        edges = recording.time_s[window.start] + dt_s * np.arange(steps + 1)
        held = np.diff(held_integral(recording.command_s, recording.commands, edges), axis=0) / dt_s
        parts["qpos"].append(recording.qpos[window.start])
        parts["qvel"].append(recording.qvel[window.start])
        parts["controls"].append(held)
        parts["stamps"].append(stamps)
        parts["readings"].append(recording.readings[window.start : window.start + rows])
    return {
        **{key: np.stack(value) for key, value in parts.items()},
        "xml": twin.mjcf.replace("</mujoco>", f"{SENSORS}</mujoco>"),
        "names": np.array(list(PRIORS)),
        "nominal": np.array([float(twin.nominal[name]) for name in PRIORS]),
        "low": np.array([low for low, _ in PRIORS.values()]),
        "high": np.array([high for _, high in PRIORS.values()]),
    }
