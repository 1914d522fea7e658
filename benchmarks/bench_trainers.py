"""Whether an unmodified trainer learns in a twin: PPO of Stable-Baselines3 on `franka_reach`, from several seeds."""

from __future__ import annotations

import os

from benchmarks.peers.environment import Peer
from benchmarks.report import Section, Settings, Table, Target
from twinloop.stats.interval import exact_interval

TITLE = "Training in a twin with an unmodified trainer"
PEER = Peer("Stable-Baselines3", "sb3")
SEEDS = (0, 1, 2)
SECONDS, STEPS = 600, 10_000_000
LEAST = 0.9


def run(settings: Settings) -> Section:
    seconds, seeds = (10, SEEDS[:1]) if settings.quick else (SECONDS, SEEDS)
    promise = f"PPO succeeds in at least {LEAST:.0%} of fresh scenes after {SECONDS / 60:.0f} minutes or less"
    if reason := PEER.install():
        return Section("trainers", TITLE, (), (Target(promise, reason, None),))
    rows, successes, scenes, loads = [], [], 0, []
    for seed in seeds:
        loads.append(os.getloadavg()[0])
        learned = PEER.run("learn_to_reach.py", seconds, STEPS, seed, with_twinloop=True)
        rate = exact_interval(learned["successes"], learned["scenes"])
        minutes = f"{learned['seconds'] / 60:.1f}"
        rows.append((str(seed), f"{learned['steps']:,}", minutes, f"{learned['successes']}", rate.percent))
        settings.say.print(*rows[-1])
        successes.append(learned["successes"])
        scenes = learned["scenes"]
    worst = min(successes)
    columns = ("seed", "environment steps", "minutes", f"successes of {scenes}", "95 %")
    return Section(
        "trainers",
        TITLE,
        (Table("PPO on franka_reach: 64 environments, two cores", columns, tuple(rows)),),
        (
            Target(
                f"{promise}, from the worst of {len(seeds)} seeds",
                f"{worst} of {scenes}",
                worst / scenes >= LEAST,
            ),
        ),
        (
            "Ordinary settings: two layers of 128, learning rate 1e-3, gamma 0.95, observations and rewards normalised. A run "
            "ends early when its last hundred episodes succeeded at a rate of 0.99.",
            "The pose of the tool is observed, as the joints read it (`poses`); success is the tool's centre within 2.5 cm for 0.1 s.",
        ),
        loads=tuple(loads),
    )
