"""Identification against known truth: hundreds of recoveries with noise, counting encoders and delays.

Each recovery draws its own truth, records three short motions of a servo that swings a weight, and identifies friction,
damping, rotor inertia and the delay. Then: what was made impossible to identify on purpose, and what slow logging does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.kept import answers, made_on
from benchmarks.report import Section, Settings, Table, Target
from twinloop.identification.config import IdentifyConfig
from twinloop.identification.fit import RefusedData
from twinloop.identification.run import identify
from twinloop.testing.known_truth import record_known
from twinloop.twins import load_twin

NAME = "identify_truth"
QUANTUM = 0.001534
RATE_HZ = 200.0
NAMES = ("motor_friction_nm", "motor_damping_nms_rad", "motor_armature_kgm2", "action_delay_s")
HOPELESS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "two delays": (
        ("motor_damping_nms_rad", "action_delay_s", "observation_delay_s"),
        ("action_delay_s", "observation_delay_s"),
    ),
    "gain and torque": (
        ("motor_damping_nms_rad", "firmware_gain", "torque_scale"),
        ("firmware_gain", "torque_scale"),
    ),
    "inertia in slow motion": (("motor_friction_nm", "motor_armature_kgm2"), ("motor_armature_kgm2",)),
}


def run(settings: Settings) -> Section:
    recoveries = 24 if settings.quick else 200
    per_kind = 4 if settings.quick else 20
    slow = 3 if settings.quick else 12
    jobs: dict[str, Any] = {f"recover-{seed}": ("recover", seed) for seed in range(recoveries)}
    for number, kind in enumerate(HOPELESS):
        jobs |= {f"hopeless-{number}-{seed}": ("hopeless", (kind, seed)) for seed in range(per_kind)}
    for keep in (2, 7, 13):
        jobs |= {f"rate-{keep}-{seed}": ("rate", (keep, seed)) for seed in range(slow)}
    made: dict[str, list[Any]] = {"recover": [], "hopeless": [], "rate": []}
    for key, answer in answers(settings, NAME, _job, jobs).items():
        made[jobs[key][0]].append(answer)
    return _section(made, (made_on(settings, NAME),))


def _job(job: tuple[str, Any]) -> Any:
    kind, what = job
    return {"recover": _recover, "hopeless": _hopeless, "rate": _rate}[kind](what)


def draw_truth(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([7, seed])
    return {
        "motor_friction_nm": float(rng.uniform(0.005, 0.06)),
        "motor_damping_nms_rad": float(np.exp(rng.uniform(np.log(0.01), np.log(0.08)))),
        "motor_armature_kgm2": float(rng.uniform(0.001, 0.006)),
        "action_delay_s": float(rng.uniform(0.0, 0.6)),
    }


def _recover(seed: int) -> dict[str, Any]:
    twin, truth = load_twin("servo_pendulum"), draw_truth(seed)
    logs = [
        record_known(twin, truth, 1000 * seed + i, seconds=2.0, rate_hz=RATE_HZ, quantum=QUANTUM)
        for i in range(4)
    ]
    found = identify(twin, logs, NAMES, config=IdentifyConfig(threads=1))
    return {
        name: {
            "error": abs(found[name].value - truth[name]),
            "relative": abs(found[name].value / truth[name] - 1.0),
            "covered": bool(found[name].low <= truth[name] <= found[name].high),
            "status": found[name].status,
            "half": 0.5 * (found[name].high - found[name].low),
            "signed": found[name].value - truth[name],
        }
        for name in NAMES
    }


def _hopeless(what: tuple[str, int]) -> dict[str, Any]:
    kind, seed = what
    asked, impossible = HOPELESS[kind]
    twin = load_twin("servo_pendulum")
    truth = {k: v for k, v in draw_truth(500 + seed).items() if k != "action_delay_s"}
    slow = "slow" in kind
    logs = [
        record_known(
            twin, truth, 77_000 + 10 * seed + i, seconds=2.0, quantum=QUANTUM, top_hz=0.15 if slow else 3.0
        )
        for i in range(3)
    ]
    found = identify(twin, logs, asked, config=IdentifyConfig(threads=1))
    named = {name for confusion in found.confusions for name in confusion.names}
    return {
        "kind": kind,
        "called": all(found[name].status != "identifiable" for name in impossible),
        "named": len(impossible) < 2 or named >= set(impossible),
    }


def _rate(what: tuple[int, int]) -> dict[str, Any]:
    keep, seed = what
    twin, truth = load_twin("servo_pendulum"), draw_truth(900 + seed)
    logs = [
        record_known(twin, truth, 88_000 + 10 * seed + i, seconds=4.0, quantum=QUANTUM, keep_every=keep)
        for i in range(3)
    ]
    refused = False
    try:
        found = identify(twin, logs, NAMES, config=IdentifyConfig(threads=1))
    except RefusedData as error:
        refused = "Hz" in str(error)
        found = identify(twin, logs, NAMES, config=IdentifyConfig(threads=1, force="to show the bias"))
    return {
        "hz": RATE_HZ / keep,
        "refused": refused,
        "relative": {name: found[name].value / truth[name] - 1.0 for name in NAMES[:3]},
    }


def _section(made: dict[str, list[Any]], notes: tuple[str, ...]) -> Section:
    recovered = made["recover"]
    rows = []
    called = [r for answer in recovered for r in answer.values() if r["status"] == "identifiable"]
    for name in NAMES:
        mine = [answer[name] for answer in recovered]
        sure = [r for r in mine if r["status"] == "identifiable"]
        rows.append(
            (
                name,
                f"{len(sure) / len(mine):.0%}",
                f"{np.median([r['relative'] for r in sure]):.2%}" if sure else "-",
                f"{np.mean([r['covered'] for r in mine]):.1%}",
            )
        )
    delays = np.array([answer["action_delay_s"]["error"] for answer in recovered])
    covered = float(np.mean([r["covered"] for answer in recovered for r in answer.values()]))
    median = float(np.median([r["relative"] for r in called]))
    hopeless = made["hopeless"]
    kinds = []
    for kind in HOPELESS:
        mine = [answer for answer in hopeless if answer["kind"] == kind]
        kinds.append(
            (
                kind,
                f"{np.mean([a['called'] for a in mine]):.0%}",
                f"{np.mean([a['named'] for a in mine]):.0%}",
                str(len(mine)),
            )
        )
    rates = []
    for hz in sorted({answer["hz"] for answer in made["rate"]}):
        mine = [answer for answer in made["rate"] if answer["hz"] == hz]
        biases = [f"{np.median([abs(a['relative'][name]) for a in mine]):.0%}" for name in NAMES[:3]]
        rates.append((f"{hz:.0f}", f"{np.mean([a['refused'] for a in mine]):.0%}", *biases))
    share = float(np.mean([answer["called"] for answer in hopeless]))
    within = float(np.mean(delays <= 0.5 / RATE_HZ))
    slow = [answer for answer in made["rate"] if answer["hz"] < 16]
    return Section(
        NAME,
        "Identification against known truth",
        (
            Table(
                f"{len(recovered)} recoveries: noise 0.5 mrad, encoder step 1.5 mrad, delay 0 to 600 ms",
                (
                    "parameter",
                    "called identifiable",
                    "median relative error of those",
                    "95 % interval covers",
                ),
                tuple(rows),
            ),
            Table(
                "Impossible on purpose",
                ("what", "called not identifiable or weak", "combination named", "runs"),
                tuple(kinds),
            ),
            Table(
                "Logging rate: median relative error of a robot commanded at 200 Hz",
                ("Hz", "refused", "friction", "damping", "rotor inertia"),
                tuple(rates),
            ),
        ),
        (
            Target(
                "median relative error of identifiable parameters <= 5 %", f"{median:.2%}", median <= 0.05
            ),
            Target("95 % intervals cover 90 to 98 %", f"{covered:.1%}", 0.90 <= covered <= 0.98),
            Target(
                "delays of 0 to 600 ms within half a sample (2.5 ms)",
                f"{within:.1%} of them, worst {1000 * delays.max():.2f} ms",
                within == 1.0,
            ),
            Target("impossible parameters are called so >= 95 %", f"{share:.1%}", share >= 0.95),
            Target(
                "logging at 15 Hz is flagged",
                f"{np.mean([a['refused'] for a in slow]):.0%}",
                all(a["refused"] for a in slow),
            ),
        ),
        notes,
    )
