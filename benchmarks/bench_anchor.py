"""Three ways to randomize, judged where it counts: policies trained on each, tried on stand-ins for reality.

- point: the calibrated twin and nothing but scenes varied;
- guessed: wide ranges around the nominal twin, as the package ships them, without a look at reality;
- anchored: the calibrated twin, varied by what identification left uncertain.

The same excitation runs identify the twin, the same number of simulated episodes trains each policy, and all policies of one
reality meet the same scenes. Made cells stay in benchmarks/work/anchor, so that an interrupted run goes on where it was;
`TWINLOOP_ANCHOR_TRIALS` and `TWINLOOP_ANCHOR_REALITIES` make the table larger or smaller.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.cells import NOMINAL, TWIN, Cells, in_twin, on_standin, shown
from benchmarks.report import Section, Settings, Table, Target
from twinloop.anchoring import anchored_randomization
from twinloop.datasets.reader import open_dataset
from twinloop.generation.run import generate
from twinloop.identification.config import IdentifyConfig
from twinloop.identification.result import Identification, load_identification
from twinloop.identification.run import identify
from twinloop.learning.config import TrainConfig
from twinloop.learning.train import train
from twinloop.randomization import Randomization, default_randomization, load_randomization
from twinloop.robots import connected, open_robot
from twinloop.robots.controllers import ExpertController
from twinloop.robots.record import RecordingSpec, record
from twinloop.twins import Twin, load_twin

REALITIES = tuple(os.environ.get("TWINLOOP_ANCHOR_REALITIES", "mild,worn,remote,workshop,severe").split(","))
TRIALS = int(os.environ.get("TWINLOOP_ANCHOR_TRIALS", "100"))
EPISODES, STEPS = 1000, 3000
EXCITATIONS, EXCITED_S = 6, 8.0
EXCITED_FROM = 260
"""Excitation runs and evaluations are of different scenes; close by, because some realities drift from episode to episode."""
ARMS = ("nominal", "point", "guessed", "anchored")
PARAMETERS = (
    *(f"joint{number}_{what}" for what in ("friction_nm", "backlash_rad") for number in range(1, 8)),
    "servo_stiffness_scale",
    "servo_damping_scale",
    "action_delay_s",
)


def run(settings: Settings) -> Section:
    cells = Cells(settings.work / ("anchor-quick" if settings.quick else "anchor"), settings.say)
    small = settings.quick
    trials, realities = (4, ("ideal",)) if small else (TRIALS, REALITIES)
    rows, values, found = [], [], {}
    for reality in realities:
        result = identified(cells, reality, small)
        assert result is not None
        values += [
            (reality, e.name, f"{e.nominal:.4g}", f"{e.value:.4g} [{e.low:.4g}, {e.high:.4g}]", e.status)
            for e in result.estimates
        ]
        for arm in ARMS:
            policy = trained(cells, arm, reality, result, small)
            measured = on_standin(cells, policy, reality, trials)
            inside = cells.numbers(f"{policy.name}@twin", lambda p=policy: in_twin(p, 40 if small else 200))
            found[reality, arm] = measured["successes"]
            rows.append((reality, arm, *shown([measured], 1)[:2], shown([inside], 1)[0]))
    return Section(
        "anchor",
        "Anchored randomization beside guessed ranges and the point estimate",
        (
            Table(
                "Success of policies that saw no real demonstration (every robot is a stand-in)",
                (
                    "reality",
                    "trained on",
                    "success on the stand-in, 95 % interval",
                    "trials",
                    "in the nominal twin",
                ),
                tuple(rows),
            ),
            Table(
                "What identification found",
                ("reality", "parameter", "nominal", "value, 95 % interval", "status"),
                tuple(values),
            ),
        ),
        targets(found, realities, trials),
        (
            f"{EXCITATIONS} multisine and waypoint runs of {EXCITED_S:g} s on the stand-in identify "
            f"{len(PARAMETERS)} parameters; {EPISODES} simulated episodes and {STEPS} steps train a policy from states, "
            "one seed. Scenes vary alike in all four.",
        ),
    )


def identified(cells: Cells, reality: str, small: bool) -> Identification | None:
    """The twin calibrated from excitation runs, through the socket as a user would; None when the sitting ended first."""
    twin = load_twin(TWIN)

    def excite(out: Path) -> None:
        count = 4 if small else EXCITATIONS
        there = len(open_dataset(out)) if out.exists() else 0
        robot = open_robot(f"standin:{reality}")
        with connected(robot):
            for number in range(there, count):
                name = ("multisine", "waypoints")[number % 2]
                acting = ExpertController(twin, name, EXCITED_S)
                plan = RecordingSpec(1, EXCITED_S, task="Excite.", first=EXCITED_FROM + number)
                record(robot, acting, out, plan, supervisor=robot)

    def fit(out: Path) -> None:
        real = list(open_dataset(cells.root / f"excited-{reality}"))
        result = identify(
            twin,
            real,
            PARAMETERS,
            config=IdentifyConfig(signals=["observation.state"], seconds=4.0 if small else 12.0),
        )
        result.save(out)

    folder = cells.folder(f"excited-{reality}", excite) and cells.folder(f"identified-{reality}", fit)
    return folder and load_identification(folder)


def trained(cells: Cells, arm: str, reality: str, result: Identification, small: bool) -> Path:
    """A policy from simulated episodes of one arm; the two arms that do not look at reality are the same for all."""
    name = arm if arm in ("nominal", "guessed") else f"{arm}-{reality}"

    def simulate(out: Path) -> None:
        twin, randomization = randomization_of(arm, result)
        generate(
            twin,
            randomization,
            out=out,
            episodes=20 if small else EPISODES,
            seed=1,
            expert_noise=0.5,
            expert_sees_truth=True,
            resume=out.exists(),
        )

    def learn(out: Path) -> None:
        config = TrainConfig(recipe="sim-only", steps=60 if small else STEPS)
        train(cells.root / f"sim-{name}", None, out=out, config=config, resume=out.exists())

    cells.folder(f"sim-{name}", simulate)
    policy = cells.folder(f"policy-{name}", learn)
    assert policy is not None
    return policy


def randomization_of(arm: str, result: Identification | None) -> tuple[Twin, Randomization]:
    """The twin that an arm trains in, and what varies there; scenes vary alike in all."""
    twin = result.twin if result is not None and arm in ("point", "anchored") else load_twin(TWIN)
    scenes = load_randomization({"name": arm, "randomization": NOMINAL}, twin)
    if arm in ("nominal", "point"):
        return twin, scenes
    wide = default_randomization(twin)
    if arm == "anchored" and result is not None:
        wide = anchored_randomization(result, other_parameters=wide)
    return twin, (wide | scenes).named(arm)


def targets(
    found: Mapping[tuple[str, str], int], realities: Sequence[str], trials: int
) -> tuple[Target, ...]:
    """Anchored ranges against each of the others, all realities together."""
    made = []
    for arm in ("guessed", "point"):
        gain = sum(found[reality, "anchored"] - found[reality, arm] for reality in realities)
        points = 100 * gain / (trials * len(realities))
        made.append(
            Target(f"anchored ranges beat {arm}, mean over realities", f"{points:+.1f} points", gain > 0)
        )
    return tuple(made)
