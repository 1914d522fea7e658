"""Experiment design and drift, against known truth: designed motions beside a plain chirp, and machines that change or not."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Section, Settings, Table, Target, spread
from tests.identification.worlds import record
from twinloop.experts import Motion
from twinloop.identification.change import watch
from twinloop.identification.config import IdentifyConfig
from twinloop.identification.design import Design, design_excitation
from twinloop.identification.drift import Drift, follow, watch_drift
from twinloop.identification.fit import Prepared, prepare
from twinloop.identification.predict import Window
from twinloop.identification.problem import Noise, Problem
from twinloop.identification.scale import Scale
from twinloop.identification.solve import solve
from twinloop.twins import Parameter, Twin, load_twin

Array = NDArray[Any]

TITLE = "Experiment design and drift"
FRICTION, DAMPING, ARMATURE, DELAY = (
    "motor_friction_nm",
    "motor_damping_nms_rad",
    "motor_armature_kgm2",
    "action_delay_s",
)
QUESTIONS = {
    "friction, damping, armature, delay": (FRICTION, DAMPING, ARMATURE, DELAY),
    "friction, damping": (FRICTION, DAMPING),
    "friction, load, encoder bias": (FRICTION, "load_mass_kg", "motor_encoder_bias_rad"),
}
QUANTUM, DITHER = 0.001534, 5e-4
USUAL = {FRICTION: 0.02, DAMPING: 0.03, "load_mass_kg": 0.49}


def run(settings: Settings) -> Section:
    twin = load_twin("servo_pendulum")
    designs, gains = measure_designs(twin, settings)
    recovery, recovered = measure_recovery(twin, settings)
    quiet, alarms, lifetimes = measure_quiet(settings)
    detection, found, asked, named = measure_detection(twin, settings)
    targets = (
        Target(
            "expected confidence volume at least 2x smaller than a chirp's",
            f"{min(gains):.1f}x at the least of {len(gains)}",
            min(gains) >= 2.0,
        ),
        Target(
            "the same in the volume of recovered errors, at least 2x", f"{recovered:.1f}x", recovered >= 2.0
        ),
        Target(
            "false alarms at most 1 % per 100 stationary episodes",
            f"{alarms} of {lifetimes} lifetimes",
            alarms <= 0.01 * lifetimes,
        ),
        Target(
            "a friction change of 30 % is detected within 10 episodes, and named",
            f"{found} of {asked}, {named} named rightly",
            found == asked == named,
        ),
    )
    notes = (
        "The chirp is the best of three phases, as large as the same limits on reach, speed, acceleration and torque "
        "allow, checked in the same simulation.",
        "Recovered errors: the motion is simulated with parameters up to 10 % from nominal, readings get noise of "
        "0.5 mrad and a step of 1.5 mrad, and the parameters are fitted. The volume is the root of the determinant of "
        "the errors' second moments, in units of the prior ranges.",
        "Lifetimes of the linear world: 20 episodes of baseline and 100 to watch, every parameter scattering between "
        "episodes by more than one episode's own uncertainty. Series are watched as such too, with other laws.",
    )
    return Section("identify_design", TITLE, (designs, recovery, quiet, detection), targets, notes)


def measure_designs(twin: Twin, settings: Settings) -> tuple[Table, list[float]]:
    """Expected volume against the chirp, over seeds."""
    how: dict[str, Any] = (
        {"generations": 2, "brood": 8} if settings.quick else {"generations": 6, "brood": 24}
    )
    seeds = range(1) if settings.quick else range(3)
    rows, gains = [], []
    for question, names in QUESTIONS.items():
        made = [design_excitation(twin, names, 8.0, seed=seed, threads=1, **how) for seed in seeds]
        gains += [design.gain for design in made]
        narrower = [e.chirp / e.half_width for e in made[0].expected]
        rows.append(
            (
                question,
                spread([design.gain for design in made], 1),
                ", ".join(f"{ratio:.2f}" for ratio in narrower),
            )
        )
        settings.say.print(f"{question}: {gains[-1]:.1f}x")
    columns = ("asked", "volume, times smaller", "interval of each, times narrower (first seed)")
    return Table("Designed motions of 8 s beside a chirp, servo pendulum", columns, tuple(rows)), gains


def measure_recovery(twin: Twin, settings: Settings) -> tuple[Table, float]:
    """Errors of fits to recordings of the designed motion and of the chirp."""
    names = QUESTIONS["friction, damping, armature, delay"]
    noise = float(np.hypot(DITHER, QUANTUM / np.sqrt(12.0)))
    how: dict[str, Any] = (
        {"generations": 2, "brood": 8} if settings.quick else {"generations": 6, "brood": 24}
    )
    design = design_excitation(twin, names, 6.0, noise=noise, seed=0, threads=1, **how)
    seeds = range(5 if settings.quick else 16)
    errors = {
        kind: np.array([recovered_error(twin, design, motion, seed) for seed in seeds])
        for kind, motion in (("designed", design.motion), ("chirp", design.chirp))
    }
    rows = []
    for index, expected in enumerate(design.expected):
        mine, plain = (np.sqrt(np.mean(errors[kind][:, index] ** 2)) for kind in ("designed", "chirp"))
        inside = np.mean(np.abs(errors["designed"][:, index]) <= expected.half_width)
        rows.append(
            (
                f"{expected.name} ({expected.unit})",
                f"{expected.half_width / 1.96:.3g}",
                f"{mine:.3g}",
                f"{expected.chirp / 1.96:.3g}",
                f"{plain:.3g}",
                f"{inside:.0%}",
            )
        )
    ranges = np.array([np.ptp(twin.parameter(name).bounds) for name in names])
    volume = {
        kind: np.sqrt(np.linalg.det((rows_ / ranges).T @ (rows_ / ranges) / len(rows_)))
        for kind, rows_ in errors.items()
    }
    gained = float(volume["chirp"] / volume["designed"])
    rows.append(
        (
            "volume, chirp's over the designed",
            f"{design.gain:.1f} expected",
            "",
            "",
            f"{gained:.1f} recovered",
            "",
        )
    )
    columns = (
        "parameter",
        "designed: expected deviation",
        "error over seeds",
        "chirp: expected deviation",
        "error over seeds",
        "within the designed motion's 95 % interval",
    )
    return Table(f"Recovered by fits to 6 s, {len(seeds)} seeds", columns, tuple(rows)), gained


def recovered_error(twin: Twin, design: Design, motion: Motion, seed: int) -> Array:
    """Fitted minus true value of each asked parameter."""
    rng = np.random.default_rng(1000 + seed)
    names = [expected.name for expected in design.expected]
    truth = {
        name: float(twin.parameter(name).nominal) * (1.0 + 0.1 * (2.0 * rng.random() - 1.0)) for name in names
    }
    truth[DELAY] = 0.02 * rng.random()
    episodes = [
        record(
            twin,
            truth,
            2 * seed + k,
            seconds=motion.duration_s,
            rate_hz=motion.rate_hz,
            noise=DITHER,
            quantum=QUANTUM,
            commands=motion.commands,
        )
        for k in range(2)
    ]
    ready = prepare(twin, episodes, names, IdentifyConfig(held_out=[episodes[1].id], threads=1))
    place = solve(ready.problem, ready.start).place
    return np.array(
        [float(s.outward(p)) - truth[s.name] for s, p in zip(ready.problem.scales, place, strict=True)]
    )


class LinearMachine:
    """Episodes whose readings are a matrix times that episode's parameters, plus noise: a stand-in for the twin."""

    def __init__(self, seed: int, episodes: int, rows: int = 40, scatter: float = 0.02) -> None:
        rng = np.random.default_rng(seed)
        self.recordings = tuple(
            SimpleNamespace(id=f"episode {i}", time_s=np.arange(rows) * 0.01) for i in range(episodes)
        )
        self.names = ("p0", "p1", "p2")
        self.design = rng.standard_normal((episodes, rows, 3)) * rng.uniform(0.7, 1.4, (episodes, 1, 3))
        truth = np.array([0.3, -0.5, 0.05]) + scatter * rng.standard_normal((episodes, 3))
        self.readings = np.einsum("etp,ep->et", self.design, truth) + 0.05 * rng.standard_normal(
            (episodes, rows)
        )

    def residuals(self, values: Mapping[str, Array], windows: Any, offsets: Array | None = None) -> Array:
        theta = np.stack([values[name] for name in self.names], axis=1)
        which = [window.recording for window in windows]
        made = np.einsum("wtp,rp->rwt", self.design[which], theta) - self.readings[which]
        return np.asarray(made.reshape(len(theta), -1, 1))

    def lifetime(self, baseline: int) -> Drift:
        scales = tuple(Scale(Parameter(name, 0.0, (-1.0, 1.0)), -1.0, 1.0) for name in self.names)
        windows = tuple(Window(i, 0, len(self.readings[0])) for i in range(baseline))
        noise, center = np.array([0.05]), np.full(3, 0.5)
        problem = Problem(self, scales, windows, Noise(noise, noise), np.zeros(0), center)  # type: ignore[arg-type]
        fitted = tuple(range(baseline))
        held_out = tuple(range(baseline, len(self.recordings)))
        ready = Prepared(self.recordings, (), fitted, held_out, None, problem, center, ())  # type: ignore[arg-type]
        return follow(ready, solve(problem, center), baseline)


def measure_quiet(settings: Settings) -> tuple[Table, int, int]:
    """False alarms: of whole lifetimes through the estimator, and of bare series with other laws."""
    count = 20 if settings.quick else 300
    alarms = sum(bool(LinearMachine(seed, 120).lifetime(20).changes) for seed in range(count))
    rows = [("linear machine, 3 parameters and the error left", f"{alarms} of {count}")]
    settings.say.print(f"false alarms: {rows[0][1]}")
    laws = {
        "normal": lambda rng: rng.standard_normal(120),
        "Student, 4 degrees of freedom": lambda rng: rng.standard_t(4, 120),
        "log-normal, sigma 0.5": lambda rng: np.exp(0.5 * rng.standard_normal(120)),
        "normal, 3 % outliers of ten times the size": lambda rng: (
            rng.standard_normal(120) * np.where(rng.random(120) < 0.03, 10.0, 1.0)
        ),
        "correlated from episode to episode, 0.2": lambda rng: correlated(rng, 0.2),
        "correlated from episode to episode, 0.4": lambda rng: correlated(rng, 0.4),
    }
    for law, draw in laws.items():
        rng = np.random.default_rng(7)
        many = 5 * count
        false = sum(watch(draw(rng), np.ones(120), 20).alarm is not None for _ in range(many))
        rows.append((f"one series, {law}", f"{false} of {many}"))
    return Table("False alarms in 100 stationary episodes", ("what", "alarmed"), tuple(rows)), alarms, count


def correlated(rng: np.random.Generator, memory: float) -> Array:
    """A first-order process of unit variance."""
    made = rng.standard_normal(120)
    for row in range(1, len(made)):
        made[row] = memory * made[row - 1] + np.sqrt(1.0 - memory**2) * made[row]
    return made


def measure_detection(twin: Twin, settings: Settings) -> tuple[Table, int, int, int]:
    """Machines whose friction, load or both change after 25 episodes, each episode a little different."""
    cases: dict[str, dict[str, float]] = {
        "friction + 30 %": {FRICTION: 1.3},
        "friction - 30 %": {FRICTION: 0.7},
        "load + 20 %": {"load_mass_kg": 1.2},
        "nothing": {},
    }
    seeds = range(1 if settings.quick else 5)
    rows, found, asked, named = [], 0, 0, 0
    for case, change in cases.items():
        results = [lifetime(twin, change, seed) for seed in seeds]
        waits = [first_wait(result) for result in results]
        right = sum({c.name for c in result.moved} == set(change) for result in results)
        if FRICTION in change:
            asked += len(results)
            named += right
            found += sum(wait is not None and 1 <= wait <= 10 for wait in waits)
        seen = [float(wait) for wait in waits if wait is not None]
        rows.append(
            (
                case,
                f"{len(seen)} of {len(results)}",
                spread(seen) if seen else "-",
                f"{right} of {len(results)}",
            )
        )
        settings.say.print(f"{case}: {rows[-1][1:]}")
    columns = ("change", "alarmed", "episodes until noticed", "moved parameters named rightly")
    return (
        Table("Servo pendulum, baseline 20, change after 25 of 36 episodes", columns, tuple(rows)),
        found,
        asked,
        named,
    )


def lifetime(twin: Twin, change: Mapping[str, float], seed: int) -> Drift:
    """36 episodes of 1 s; parameters scatter by 3 % between episodes."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(36):
        truth = {name: value * float(np.exp(0.03 * rng.standard_normal())) for name, value in USUAL.items()}
        if number >= 25:
            truth = {name: value * change.get(name, 1.0) for name, value in truth.items()}
        made.append(record(twin, truth, 100 * seed + number, seconds=1.0, rate_hz=100.0, quantum=QUANTUM))
    return watch_drift(twin, made, list(USUAL), baseline=20, threads=1)


def first_wait(result: Drift) -> int | None:
    """Episodes from the change to the first alarm of what moved."""
    return min((change.alarmed - 24 for change in result.moved), default=None)
