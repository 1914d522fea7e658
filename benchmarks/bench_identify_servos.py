"""Servos identified from public recordings: an SO-101 arm and a servo that swings a weight, judged on motions kept apart.

Needs the real recordings (TWINLOOP_REAL_DATA, default ../shared/real).
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import ROOT, Section, Settings, Table, Target
from tests.quality import recordings
from twinloop.episode import Episode
from twinloop.identification.config import IdentifyConfig
from twinloop.identification.fit import prepare
from twinloop.identification.predict import Predictor, Window
from twinloop.identification.recording import find_channels, read_recording
from twinloop.identification.scale import values_at
from twinloop.identification.solve import THOROUGH, solve
from twinloop.identification.windows import split_episodes
from twinloop.logs.ingest import ingest
from twinloop.logs.log_map import load_map
from twinloop.tasks import make_cell
from twinloop.twins import Twin, load_twin

Array = NDArray[Any]
Priors = Mapping[str, tuple[float, float]]

TITLE = "Servos identified from real recordings"
ARM_RAD = 0.012
LAGS_S = np.arange(0.06, 0.20, 0.005)

ARM = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll")
ARM_COULOMB: Priors = {
    "servo_stiffness_scale": (0.4, 4.0),
    "joint_damping_scale": (0.2, 4.0),
    "joint_armature_scale": (0.2, 2.0),
    "action_delay_s": (0.0, 0.06),
    "table_height_m": (-0.08, -0.02),
    **{f"{joint}_friction_nm": (0.01, 1.0) for joint in ARM},
}
ARM_GEAR: Priors = {
    "servo_stribeck_speed_rad_s": (0.02, 1.0),
    "servo_stiction_extra_nm": (0.0, 0.3),
    "servo_drive_load_friction": (0.0, 0.7),
    "servo_external_load_stiction": (0.0, 0.7),
}
PENDULUM_COULOMB: Priors = {
    "torque_scale": (0.4, 2.5),
    "motor_back_emf_nms_rad": (0.005, 0.2),
    "motor_damping_nms_rad": (0.0005, 0.05),
    "motor_armature_kgm2": (0.0005, 0.006),
    "motor_friction_nm": (0.001, 0.1),
    "action_delay_s": (0.0, 0.03),
    "motor_encoder_bias_rad": (-0.05, 0.05),
}
PENDULUM_GEAR: Priors = {
    "motor_drive_load_friction": (0.0, 0.7),
    "motor_external_load_friction": (0.0, 0.5),
    "motor_drive_load_growth_per_nm": (0.0, 1.0),
}
START = {
    "servo_stribeck_speed_rad_s": 0.1,
    "servo_stiction_extra_nm": 0.03,
    "servo_drive_load_friction": 0.2,
    "servo_external_load_stiction": 0.2,
    "motor_drive_load_friction": 0.2,
    "motor_external_load_friction": 0.05,
    "motor_drive_load_growth_per_nm": 0.2,
}
"""Where the search for gear friction starts, the same for every fold; all else starts from the twin's published values."""
GIVEN = {"firmware_gain": "observation.kp", "supply_v": "observation.supply"}
FOLDS = 4


@dataclass(frozen=True)
class Fit:
    """Values found on some episodes, and what is left in an open-loop replay of every whole episode: (T, channels) each."""

    values: dict[str, float]
    residuals: dict[str, Array]


def run(settings: Settings) -> Section:
    if not recordings.present():
        missing = f"not measured: no recordings in {recordings.REAL}; set TWINLOOP_REAL_DATA"
        return Section("identify_servos", TITLE, (), (Target(f"arm <= {ARM_RAD} rad", missing, None),))
    with tempfile.TemporaryDirectory(dir=settings.work) as folder:
        arm = load_episodes("so101", Path(folder))
        pendulum = load_episodes("servo_pendulum", Path(folder))
        arm_tables, arm_targets = measure_arm(arm, settings)
        pendulum_tables, pendulum_targets = measure_pendulum(pendulum, settings)
    notes = (
        "Ingested through docs/maps; fitted by robust least squares on open-loop windows of the training episodes, from the "
        "published values on; errors are of open-loop replays of whole episodes from their first reading. Of the arm's models the "
        "one that replays the fitted motions best is judged.",
        "Arm: a quarter of the motions, by hash, is held out; constant lags are fitted on the training motions too. "
        f"Pendulum: {FOLDS} folds by hash, so that every log is held out once; published values come as they are.",
    )
    return Section(
        "identify_servos", TITLE, (*arm_tables, *pendulum_tables), (*arm_targets, *pendulum_targets), notes
    )


def load_episodes(name: str, folder: Path) -> list[Episode]:
    done = ingest(recordings.REAL / name, folder / name, load_map(ROOT / f"docs/maps/{name}.yaml"))
    return list(done.dataset)


def fit(
    twin: Twin,
    episodes: Sequence[Episode],
    priors: Priors,
    held_out: Sequence[str],
    *,
    horizon_s: float,
    seconds: float,
    given: Mapping[str, str] | None = None,
) -> Fit:
    """Fit the parameters named by `priors` to all but the held-out episodes, and replay every one."""
    start = twin.with_values({name: value for name, value in START.items() if name in priors})
    ready = prepare(
        start,
        episodes,
        list(priors),
        IdentifyConfig(
            priors=priors, given=given or {}, horizon_s=horizon_s, seconds=seconds, held_out=held_out
        ),
    )
    # Recordings start at rest, and windows are long beside what a wrong start can do.
    exact = replace(ready.problem, start_deviation=np.zeros_like(ready.problem.start_deviation))
    solution = solve(exact, ready.start, endings=THOROUGH[1:])
    values = {name: float(v[0]) for name, v in values_at(exact.scales, solution.place[None]).items()}
    return Fit(values, replay(exact.predictor, values))


def replay(predictor: Predictor, values: Mapping[str, float]) -> dict[str, Array]:
    windows = [Window(i, 0, len(recording)) for i, recording in enumerate(predictor.recordings)]
    left = predictor.residuals({k: np.array([v]) for k, v in values.items()}, windows)[0]
    ends = np.cumsum([len(window) for window in windows])
    return {
        recording.id: left[end - len(recording) : end]
        for recording, end in zip(predictor.recordings, ends, strict=True)
    }


def measure_arm(episodes: Sequence[Episode], settings: Settings) -> tuple[list[Table], list[Target]]:
    fitted, kept = split_episodes([episode.id for episode in episodes])
    held = [episodes[i].id for i in kept]
    lagged = constant_lag([episodes[i] for i in fitted], episodes)
    errors = {"constant lag": lagged}
    found = {}
    twin = load_twin("so101")
    for name, priors in (
        ("Coulomb and viscous", ARM_COULOMB),
        ("gear", {**ARM_COULOMB, **ARM_GEAR}),
    ):
        made = fit(twin, episodes, priors, held, horizon_s=3.0, seconds=30.0 if settings.quick else 120.0)
        errors[name] = {key: rms(rows[:, : len(ARM)]) for key, rows in made.residuals.items()}
        found[name] = made.values
        settings.say.print(f"arm, {name}: {np.mean([errors[name][i] for i in held]):.4f} rad held out")
    tables = [
        Table(
            "SO-101: RMSE in rad of whole motions, mean over motions",
            ("model", "motions", *ARM, "mean"),
            tuple(
                (name, what, *(f"{v:.4f}" for v in mean), f"{mean.mean():.4f}")
                for name, by in errors.items()
                for what, ids in (("fitted", [episodes[i].id for i in fitted]), ("held out", held))
                for mean in [np.mean([by[key] for key in ids], axis=0)]
            ),
        ),
        Table(
            "SO-101: held-out motions, mean RMSE of the five joints in rad",
            ("motion", *errors),
            tuple(
                (episodes[i].task, *(f"{by[episodes[i].id].mean():.4f}" for by in errors.values()))
                for i in kept
            ),
        ),
        values_table("SO-101: values found", found),
    ]
    trained = [episodes[i].id for i in fitted]
    chosen = min(found, key=lambda name: float(np.mean([errors[name][key] for key in trained])))
    best = np.mean([errors[chosen][key] for key in held], axis=0)
    base = np.mean([lagged[key] for key in held], axis=0)
    ahead = int(np.sum(best < base))
    targets = [
        Target(
            f"SO-101: held-out motions within {ARM_RAD} rad",
            f"{best.mean():.4f} rad by {chosen.lower()} friction (constant lag {base.mean():.4f})",
            bool(best.mean() <= ARM_RAD),
        ),
        Target(
            "SO-101: better than a constant lag on every joint", f"{ahead} of 5 joints", ahead == len(ARM)
        ),
    ]
    return tables, targets


def constant_lag(fitted: Sequence[Episode], episodes: Sequence[Episode]) -> dict[str, Array]:
    """RMSE per joint of the command, late by one lag per joint that is best on the fitted motions."""

    def errors(episode: Episode, lag_s: float) -> Array:
        time_s = np.asarray(episode.time_s)
        command, position = (
            np.asarray(episode.signals[name], np.float64) for name in ("action", "observation.state")
        )
        late = [np.interp(time_s - lag_s, time_s, command[:, k]) - position[:, k] for k in range(len(ARM))]
        return rms(np.stack(late, axis=1))

    table = np.array([np.mean([errors(episode, lag) for episode in fitted], axis=0) for lag in LAGS_S])
    best = table.argmin(axis=0)
    made = {}
    for episode in episodes:
        rows = np.array([errors(episode, lag) for lag in LAGS_S])
        made[episode.id] = rows[best, np.arange(len(ARM))]
    return made


def measure_pendulum(episodes: Sequence[Episode], settings: Settings) -> tuple[list[Table], list[Target]]:
    twin = coarser(load_twin("servo_pendulum"))
    ids = [episode.id for episode in episodes]
    order = in_hash_order(ids)
    models = {
        "Coulomb, viscous": PENDULUM_COULOMB,
        "with gear friction": {**PENDULUM_COULOMB, **PENDULUM_GEAR},
    }
    folds = range(1 if settings.quick else FOLDS)
    errors: dict[str, dict[str, float]] = {"published, Coulomb": published(twin, episodes)}
    found: dict[str, dict[str, float]] = {}
    for name, priors in models.items():
        errors[name] = {}
        for fold in folds:
            held = order[fold::FOLDS]
            made = fit(twin, episodes, priors, held, horizon_s=7.0, seconds=1e4, given=GIVEN)
            errors[name].update({key: float(np.abs(made.residuals[key]).mean()) for key in held})
            found[f"{name}, fold {fold + 1}"] = made.values
            settings.say.print(
                f"pendulum, {name}, fold {fold + 1}: {np.mean([errors[name][i] for i in held]):.4f} rad"
            )
    judged = [key for key in ids if key in errors["Coulomb, viscous"]]
    tasks = {episode.id: episode.task for episode in episodes}
    rows = [(tasks[key], *(f"{by[key]:.4f}" for by in errors.values())) for key in judged]
    means = {name: float(np.mean([by[key] for key in judged])) for name, by in errors.items()}
    rows.append(("mean", *(f"{value:.4f}" for value in means.values())))
    less = 1.0 - means["with gear friction"] / means["Coulomb, viscous"]
    tables = [
        Table(
            "XL330 pendulum: mean absolute error of whole held-out logs in rad", ("log", *errors), tuple(rows)
        ),
        values_table("XL330 pendulum: values found", found),
    ]
    promise = "XL330 pendulum: error at least 50 % below Coulomb and viscous friction fitted alike"
    measured = f"{less:.0%} ({means['with gear friction']:.4f} against {means['Coulomb, viscous']:.4f} rad)"
    return tables, [Target(promise, measured, less >= 0.5)]


def in_hash_order(ids: Sequence[str]) -> list[str]:
    """Ids in the order of their hashes."""
    return sorted(ids, key=lambda name: hashlib.blake2b(name.encode(), digest_size=8).digest())


def coarser(twin: Twin) -> Twin:
    """The same bench in steps of 2.5 ms, half of what the log resolves."""
    return replace(twin, mjcf=twin.mjcf.replace('timestep="0.001"', 'timestep="0.0025"'))


def published(twin: Twin, episodes: Sequence[Episode]) -> dict[str, float]:
    """Mean absolute error of the published Coulomb-viscous values (BAM, model m1)."""
    known = json.loads((recordings.REAL / "servo_pendulum/published_params/xl330_m1.json").read_text())
    values = {
        "torque_scale": known["kt"] * 7.4 / known["R"] / 0.7124,
        "motor_back_emf_nms_rad": known["kt"] ** 2 / known["R"],
        "motor_damping_nms_rad": known["friction_viscous"],
        "motor_armature_kgm2": known["armature"],
        "motor_friction_nm": known["friction_base"],
        "motor_encoder_bias_rad": -known["q_offset"],
    }
    cell = make_cell(twin)
    channels = find_channels(cell, episodes[0])
    made = [read_recording(cell, episode, channels, GIVEN) for episode in episodes]
    left = replay(Predictor(cell, made, channels, list(values)), values)
    return {key: float(np.abs(rows).mean()) for key, rows in left.items()}


def values_table(title: str, found: Mapping[str, Mapping[str, float]]) -> Table:
    names = sorted({name for values in found.values() for name in values})
    rows = [(name, *(f"{v[name]:.4g}" if name in v else "" for v in found.values())) for name in names]
    return Table(title, ("parameter", *found), tuple(rows))


def rms(rows: Array) -> Array:
    """Root mean square of each column."""
    return np.asarray(np.sqrt(np.mean(rows**2, axis=0)))
