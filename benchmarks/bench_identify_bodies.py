"""Identification of bodies on real recordings: two driven pendulums by Quanser, a double pendulum and a tossed cube.

Every recording is ingested through its map. The calibrated twin and the published parameters replay the same held-out
episodes from the same starts. Needs the real recordings (TWINLOOP_REAL_DATA, default ../shared/real).
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from rich.console import Console

from benchmarks import sysid_peer, tosses
from benchmarks.kept import answers, made_on
from benchmarks.report import ROOT, Section, Settings, Table, Target
from twinloop.episode import Episode
from twinloop.identification.config import IdentifyConfig
from twinloop.identification.predict import Predictor
from twinloop.identification.recording import find_channels, read_recording
from twinloop.identification.run import identify
from twinloop.identification.windows import cut
from twinloop.logs.ingest import ingest
from twinloop.logs.log_map import parse_map
from twinloop.tasks import make_cell
from twinloop.twins import Twin, load_twin

Array = NDArray[Any]
Values = Mapping[str, float]

REAL = Path(os.environ.get("TWINLOOP_REAL_DATA") or ROOT.parent / "shared" / "real")
NAME, TITLE = "identify_bodies", "Identification of bodies on real recordings"
BESIDE, CUBE = "mujoco_sysid", "cube_toss"
PARTS = "TWINLOOP_BODIES"
"""The variable that names the parts to measure, all of them by default; what has been measured is kept."""
HORIZON_S = 0.5
LONGER_S = 2.0


@dataclass(frozen=True)
class Body:
    """One device: its recordings, its twin, what is fitted in which range, and the figures others published for it.

    `stale_rows` is how many rows at the start of each recording are from before the run.
    """

    title: str
    folder: str
    maps: tuple[str, ...]
    twin: str
    parameters: Sequence[str]
    priors: Mapping[str, tuple[float, float]]
    published: Mapping[str, Values]
    stale_rows: int = 0


@dataclass(frozen=True)
class Replay:
    """Error per channel over held-out windows: root mean square of short ones, and that of the typical long one."""

    short: Array
    long: Array


def run(settings: Settings) -> Section:
    if not (REAL / "quanser").exists():
        missing = f"not measured: no recordings in {REAL}; set TWINLOOP_REAL_DATA"
        return Section(NAME, TITLE, (), (Target("better than published", missing, None),))
    parts = (*(body.twin for body in bodies()), BESIDE, CUBE)
    wanted = os.environ.get(PARTS, " ".join(parts)).split()
    tables: list[Table] = []
    targets: list[Target] = []
    for part in parts:
        jobs = {part: [part, settings.quick]} if part in wanted else {}
        for found in (answers(settings, NAME, measure_part, jobs, workers=1) or {part: None}).values():
            if found is None:
                targets.append(Target(part, f"not measured: not among {PARTS}", None))
                continue
            tables += [_table(words) for words in found["tables"]]
            targets += [Target(**words) for words in found["targets"]]
    notes = (
        f"Pendulums: the twin starts from the recorded positions, with speeds read off them, gets the recorded commands, "
        f"and runs {HORIZON_S:g} or {LONGER_S:g} s before it is put back on the recording. Held out: a quarter of the "
        "episodes, by the hash of their ids. Published parameters replay the same windows from the same starts. Of the "
        "long windows the median is shown: a pendulum that is balanced upright leaves any prediction within 2 s.",
        "Recorded speeds are not used: the Quanser ones are low-pass filtered and lag by 20 ms, those of the double "
        "pendulum come in steps of 0.19 rad/s. The first row of each cart-pole recording has the cart's place from before "
        "its encoder was set to zero and is left out.",
        *tosses.NOTES,
        made_on(settings, NAME),
    )
    return Section(NAME, TITLE, tuple(tables), tuple(targets), notes)


def measure_part(job: tuple[str, bool]) -> dict[str, Any]:
    """Tables and targets of one part, as JSON."""
    part, quick = job
    with tempfile.TemporaryDirectory() as scratch:
        settings = Settings(quick, Path(scratch), Console())
        if part == BESIDE:
            double = bodies()[0]
            runs = load(double.maps, double.folder, Path(scratch))
            table, targets = sysid_peer.measure(runs, HORIZON_S, replay, Path(scratch), settings.say.print)
        elif part == CUBE:
            tossed = load(("cube_toss",), "cube_toss", Path(scratch), speeds=True)
            table, targets = tosses.measure(tossed, quick=quick, say=settings.say.print)
        else:
            table, target = measure(next(body for body in bodies() if body.twin == part), settings)
            targets = [target]
    return {"tables": [asdict(table)], "targets": [asdict(target) for target in targets]}


def _table(words: Mapping[str, Any]) -> Table:
    return Table(words["title"], tuple(words["columns"]), tuple(tuple(row) for row in words["rows"]))


def bodies() -> list[Body]:
    """The three pendulums."""
    double = load_twin("double_pendulum")
    return [
        Body(
            "Double pendulum (DFKI, torque in)",
            "double_pendulum",
            ("double_pendulum", "double_pendulum_tracking"),
            "double_pendulum",
            (
                "upper_mass_kg upper_inertia_kgm2 lower_mass_kg lower_inertia_kgm2 elbow_rotor_kgm2 "
                "shoulder_damping_nms_rad elbow_damping_nms_rad shoulder_friction_nm elbow_friction_nm action_delay_s"
            ).split(),
            {
                "action_delay_s": (0.0, 0.03),
                "elbow_rotor_kgm2": (0.0, 5e-4),
                "shoulder_damping_nms_rad": (0.0, 0.1),
                "elbow_damping_nms_rad": (0.0, 0.1),
                "shoulder_friction_nm": (0.0, 1.0),
                "elbow_friction_nm": (0.0, 1.0),
            },
            {name: published_double_pendulum(name, double) for name in ("1.0", "1.1", "2.0", "3.0")},
        ),
        Body(
            "Furuta pendulum (Quanser Qube, volts in)",
            "quanser",
            ("quanser_qube",),
            "furuta_pendulum",
            (
                "arm_inertia_kgm2 pendulum_center_m pendulum_inertia_kgm2 theta_resistance_ohm "
                "theta_motor_constant_vs_rad theta_friction_nm theta_damping_nms_rad alpha_friction_nm "
                "alpha_damping_nms_rad theta_stiffness_nm_rad theta_push_nm action_delay_s"
            ).split(),
            {
                "action_delay_s": (0.0, 0.03),
                "theta_friction_nm": (0.0, 0.005),
                "theta_damping_nms_rad": (0.0, 1e-3),
                "alpha_friction_nm": (0.0, 1e-3),
                "alpha_damping_nms_rad": (0.0, 2e-4),
                "theta_push_nm": (-0.002, 0.002),
                "theta_stiffness_nm_rad": (0.0, 0.003),
            },
            {
                "SimuRLacra": {},
                "the same, arm a rod about its end": {"arm_inertia_kgm2": 0.095 * 0.085**2 / 3.0},
            },
        ),
        Body(
            "Cart-pole (Quanser, volts in)",
            "quanser",
            ("quanser_cartpole",),
            "cart_pole",
            (
                "cart_mass_kg pole_center_m pole_inertia_kgm2 x_resistance_ohm x_damping_ns_m x_friction_n x_push_n "
                "theta_damping_nms_rad action_delay_s"
            ).split(),
            {
                "cart_mass_kg": (0.3, 1.6),
                "pole_center_m": (0.1, 0.25),
                "pole_inertia_kgm2": (6e-4, 2.4e-3),
                "x_resistance_ohm": (1.3, 5.2),
                "x_damping_ns_m": (0.0, 10.0),
                "x_friction_n": (0.0, 2.0),
                "x_push_n": (-1.0, 1.0),
                "theta_damping_nms_rad": (0.0, 0.004),
                "action_delay_s": (0.0, 0.02),
            },
            {
                "SimuRLacra, short pole": {},
                "SimuRLacra, long pole": {
                    "pole_mass_kg": 0.23,
                    "pole_center_m": 0.3205,
                    "pole_inertia_kgm2": 0.23 * 0.3205**2 / 3.0,
                },
            },
            stale_rows=1,
        ),
    ]


def published_double_pendulum(version: str, twin: Twin) -> Values:
    """A published set as values of the twin, with the same equations of motion.

    Only four combinations of the links' masses, centres and inertias move the machine: two sets have a lower link whose
    inertia about its centre would be negative, so the centre is moved until it is not and the upper link makes up for it.
    """
    file = REAL / f"double_pendulum/model_{version}_model_parameters.yml"
    if not file.exists():
        return twin.nominal  # type: ignore[return-value]
    p = yaml.safe_load(file.read_text())
    moment = p["m2"] * p["r2"]
    lower_center = min(0.95 * p["I2"] / moment, p["r2"])
    lower_mass = moment / lower_center
    excess = p["m2"] - lower_mass
    upper_moment = p["m1"] * p["r1"] + p["l1"] * excess
    upper_inertia = p["I1"] + p["l1"] ** 2 * excess
    upper_center = min(0.9 * upper_inertia / upper_moment, p["r1"])
    return {
        "upper_mass_kg": upper_moment / upper_center,
        "upper_center_m": upper_center,
        "upper_inertia_kgm2": upper_inertia - upper_moment * upper_center,
        "lower_mass_kg": lower_mass,
        "lower_center_m": lower_center,
        "lower_inertia_kgm2": p["I2"] - moment * lower_center,
        "elbow_rotor_kgm2": p["Ir"],
        "shoulder_armature_kgm2": p["gr"] ** 2 * p["Ir"],
        "shoulder_damping_nms_rad": p["b1"],
        "elbow_damping_nms_rad": p["b2"],
        "shoulder_friction_nm": p["cf1"],
        "elbow_friction_nm": p["cf2"],
    }


def measure(body: Body, settings: Settings) -> tuple[Table, Target]:
    """Fit one device and replay what was held out, beside the published figures."""
    with tempfile.TemporaryDirectory(dir=settings.work) as scratch:
        episodes = load(body.maps, body.folder, Path(scratch), skip=body.stale_rows)
    twin = load_twin(body.twin)
    began = time.monotonic()
    found = identify(
        twin,
        episodes,
        body.parameters,
        config=IdentifyConfig(
            priors=body.priors, horizon_s=HORIZON_S, seconds=20.0 if settings.quick else 80.0
        ),
    )
    fitted_s = time.monotonic() - began
    settings.say.print(f"{body.title}: fitted in {fitted_s:.0f} s; {found.gate.reason}")
    sets: dict[str, Twin] = {f"published, {name}": twin.with_values(v) for name, v in body.published.items()}
    sets["identified"] = found.twin
    replays = {name: replay(version, episodes, found.held_out) for name, version in sets.items()}
    units = [f"{name} ({unit})" for name, unit in zip(found.channels, found.units, strict=True)]
    columns = (
        "parameters",
        *(f"{u}, {HORIZON_S:g} s" for u in units),
        *(f"{u}, median of {LONGER_S:g} s" for u in units),
    )
    rows = tuple(
        (name, *(f"{x:.4f}" for x in errors.short), *(f"{x:.4f}" for x in errors.long))
        for name, errors in replays.items()
    )
    ours = replays.pop("identified")
    best_short = np.min([other.short for other in replays.values()], axis=0)
    best_long = np.min([other.long for other in replays.values()], axis=0)
    ratios = np.concatenate([ours.short / best_short, ours.long / best_long])
    title = f"{body.title}: held-out RMS error, {len(found.held_out)} of {len(episodes)} episodes; fitted in {fitted_s:.0f} s"
    measured = (
        f"{ratios.min():.2f} to {ratios.max():.2f} of the best published error, over joints and horizons"
    )
    better = bool(np.all(ratios < 1.0))
    return Table(title, columns, rows), Target(f"{body.twin}: better than published", measured, better)


def load(
    maps: Sequence[str], folder: str, scratch: Path, *, speeds: bool = False, skip: int = 0
) -> list[Episode]:
    """Recordings as episodes, through their maps; `speeds` keeps recorded ones, `skip` leaves out the first rows."""
    episodes = []
    for name in maps:
        words = yaml.safe_load((ROOT / f"docs/maps/{name}.yaml").read_text())
        if not speeds:
            words["signals"].pop("observation.velocity", None)
        log_map = parse_map(yaml.safe_dump(words, allow_unicode=True))
        episodes += list(ingest(REAL / folder, scratch / name, log_map).dataset)
    return [without_first(episode, skip) for episode in episodes] if skip else episodes


def without_first(episode: Episode, rows: int) -> Episode:
    """The episode from a later row on."""
    signals = {name: values[rows:] for name, values in episode.signals.items()}
    return replace(episode, time_s=episode.time_s[rows:], signals=signals)


def replay(twin: Twin, episodes: Sequence[Episode], held_out: Sequence[str]) -> Replay:
    """Errors of one version of a twin on the held-out episodes."""
    cell = make_cell(twin)
    channels = find_channels(cell, episodes[0])
    recordings = [read_recording(cell, e, channels) for e in episodes if e.id in held_out]
    predictor = Predictor(cell, recordings, channels, ())

    def errors(horizon_s: float) -> Array:
        """Root mean squares (windows, channels)."""
        windows = cut(recordings, range(len(recordings)), horizon_s)
        residual = predictor.residuals({}, windows)[0]
        ends = np.cumsum([len(window) for window in windows])[:-1]
        return np.sqrt([np.mean(part**2, axis=0) for part in np.split(residual, ends)])

    return Replay(np.sqrt(np.mean(errors(HORIZON_S) ** 2, axis=0)), np.median(errors(LONGER_S), axis=0))
