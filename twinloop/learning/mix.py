"""How much simulated data to co-train with: a budgeted search over shares that needs no robot.

Error and success rise and fall once over the share, so the search climbs: three shares train for a third of the updates, then
the neighbours of the best so far, until both have been seen or a third of what training all shares would cost is spent; the
best goes on to the end. Training is the real one, stopped and continued, so the policy that comes out is bit for bit the one
that `--mix SHARE` would have made. Looking earlier misleads: at a sixth of the updates small shares, which see real data
more often, are ahead of those that win in the end.

A share is scored by two things that a robot's success needs: the error on real episodes that were held out, and success in a
twin whose readings the policy is told are a robot's, in scenes as far apart as the simulated data's: near the middle everything succeeds.
Each alone may mislead (few held-out episodes; a twin is no robot), so the mean of both ranks decides, and the error where they tie: a
twin in which everything fails has no say.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.errors import LearnError, WrongUse
from twinloop.evaluation.run import evaluate
from twinloop.evaluation.twin import TwinEnvironment
from twinloop.generation.record import find_stored_twin, load_generation, recorded_job
from twinloop.learning.config import TrainConfig
from twinloop.learning.device import AUTO
from twinloop.learning.fit import Hear
from twinloop.learning.train import UNFINISHED, train
from twinloop.policies.policy import WORDS, Policy, load_policy
from twinloop.randomization import Randomization
from twinloop.randomization.scenes import scenes_of
from twinloop.records import SavedRecord, load_record, save_record
from twinloop.twins import Twin

SHARES = (0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 0.97)
FIRST = (1, 2, 4)
"""Places of the shares that are tried first: 0.25, 0.5 and 0.8 of the usual seven."""

PART = 1 / 3
"""Share of the updates after which shares are compared."""

MOST_COST = 1 / 3
"""Share of the cost of training them all that the search and the training of the best may take together."""

SCENES = 60
CHOICE = "mix.json"

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Probe(SavedRecord):
    """One share after so many updates: error on held-out real episodes (scaled), success in the twin."""

    COMMAND = "twinloop train --mix auto"

    share: float
    updates: int
    real_error: float
    twin_success: float | None


@dataclass(frozen=True)
class MixChoice(SavedRecord):
    """The share that was chosen, and why. `cost_updates` counts the chosen one's training to the end as well."""

    FILE, COMMAND = CHOICE, "twinloop train --mix auto"

    share: float
    steps: int
    cost_updates: int
    seconds: float
    probes: tuple[Probe, ...]


def choose_mix(
    sim: str | Path | Dataset,
    real: str | Path | Dataset,
    *,
    config: TrainConfig,
    folder: str | Path,
    twin: Twin | None = None,
    shares: Sequence[float] = SHARES,
    scenes: int = SCENES,
    photos: str | Path | None = None,
    workspace: str | Path = ".",
    threads: int = 1,
    device: str = AUTO,
    tell: Tell = lambda line: None,
) -> MixChoice:
    """Find the sim share for `co-train`; `folder` keeps what is under way, and goes on with what is there.

    `twin` is where policies are tried; default: the one that the simulated data was made with. A calibrated one tells more.
    """
    if config.recipe != "co-train":
        raise WrongUse("only co-training has a mix to choose", got=config.recipe, expected="co-train")
    if config.steps < config.validate_every:
        raise WrongUse(
            "shares are compared where training validates, and this one ends before",
            got=f"{config.steps} updates",
            expected=f"at least {config.validate_every}",
            remedy=f"more --steps, or --set validate_every={max(1, config.steps // 3)}",
        )
    if len(set(shares)) < 2 or not all(0.0 < share < 1.0 for share in shares):
        raise WrongUse("a search needs at least two shares between 0 and 1", got=list(shares))
    root, order = Path(folder), sorted(set(shares))
    data = tuple(source if isinstance(source, Dataset) else open_dataset(source) for source in (sim, real))
    judge = twin or twin_of(data[0])
    where = _scenes_in(data[0], judge) if judge else None
    words = {
        "photos": photos,
        "workspace": workspace,
        "threads": threads,
        "device": device,
        "scenes": scenes,
        "where": where,
    }
    began, pause, found = time.monotonic(), _pause(config), dict[float, Probe]()
    most = max(2, int((MOST_COST * len(order) * config.steps - (config.steps - pause)) / pause + 1e-9))
    while len(found) < most and (share := next_share(order, found)) is not None:
        found[share] = _probe(data, root, replace(config, mix=share), judge, pause, words)
        tell(_said(found[share]))
    chosen = best_share(found)
    cost = len(found) * pause + config.steps - pause
    choice = MixChoice(chosen, config.steps, cost, round(time.monotonic() - began, 1), tuple(found.values()))
    choice.save(root)
    return choice


def train_auto(
    sim: str | Path | Dataset,
    real: str | Path | Dataset,
    *,
    out: str | Path,
    config: TrainConfig,
    twin: Twin | None = None,
    photos: str | Path | None = None,
    workspace: str | Path = ".",
    tracking: str | None = None,
    threads: int = 1,
    device: str = AUTO,
    resume: bool = False,
    hear: Hear = lambda point, steps: None,
    tell: Tell = lambda line: None,
) -> Policy:
    """Choose the share, then train it to the end from where the search left it. The policy's folder keeps `mix.json`."""
    target = Path(out)
    search = target.with_name(f"{target.name}.mix")
    if search.exists() and not resume:
        raise LearnError(f"{search} holds an unfinished search", remedy="go on with --resume, or delete it")
    if not resume and target.exists() and any(target.iterdir()):
        raise LearnError(f"{target} exists and is not empty", remedy="choose another folder")
    if (search / CHOICE).exists():
        choice = load_choice(search)
    else:
        choice = choose_mix(
            sim, real, config=config, folder=search, twin=twin, photos=photos, workspace=workspace, threads=threads, device=device,
            tell=tell
        )  # fmt: skip
    begun = search / f"{choice.share:g}"
    if begun.exists() and not target.exists():
        shutil.move(begun, target)
    tell(f"chose {choice.share:g}")
    if (target / WORDS).exists():
        policy = load_policy(target)
    else:
        policy = train(
            sim,
            real,
            out=target,
            config=replace(config, mix=choice.share),
            photos=photos,
            workspace=workspace,
            tracking=tracking,
            threads=threads,
            device=device,
            resume=True,
            hear=hear,
        )
    shutil.move(search / CHOICE, target / CHOICE)
    shutil.rmtree(search)
    return policy


def scores(probes: Sequence[Probe]) -> Any:
    """A number for each of these shares, larger is better: the mean of their ranks, the smaller error where equal."""
    error = stats.rankdata([-probe.real_error for probe in probes])
    if any(probe.twin_success is None for probe in probes):
        return error
    success = stats.rankdata([probe.twin_success for probe in probes])
    return 0.5 * (error + success) + 1e-3 * error


def load_choice(folder: str | Path) -> MixChoice:
    """What a search found; `folder` is its own or the policy's."""
    return load_record(MixChoice, folder)


def twin_of(dataset: Dataset) -> Twin | None:
    """The twin that a simulated dataset was made with; None where it says of none."""
    side = dataset.provenance_table()
    if side is None or not len(side):
        return None
    row = side.select(["twin", "twin_hash"]).slice(0, 1).to_pylist()[0]
    return find_stored_twin(dataset.root, row["twin_hash"], row["twin"]) if row["twin_hash"] else None


def _scenes_in(dataset: Dataset, twin: Twin) -> Randomization | None:
    """Where things lay in a simulated dataset; None where no run that made it is kept."""
    record = load_generation(dataset.root, dataset.id)
    made = recorded_job(dataset.root, record).randomization if record else None
    return scenes_of(made, twin) if made else None


def next_share(order: Sequence[float], found: Mapping[float, Probe]) -> float | None:
    """The share to try next: the first ones, then neighbours of the best; None when both are known.

    A neighbour beyond everything tried so far comes first: there may be more behind it.
    """
    for place in FIRST:
        share = order[min(place, len(order) - 1)]
        if share not in found:
            return share
    at = order.index(best_share(found))
    sides = [order[place] for place in (at - 1, at + 1) if 0 <= place < len(order)]
    fresh = [share for share in sides if share not in found]
    return max(fresh, key=lambda share: not min(found) < share < max(found), default=None)


def best_share(found: Mapping[float, Probe]) -> float:
    """The share that scores best of those tried."""
    made = list(found.values())
    return made[int(np.argmax(scores(made)))].share


def _probe(
    data: Sequence[Dataset],
    root: Path,
    config: TrainConfig,
    twin: Twin | None,
    pause: int,
    words: dict[str, Any],
) -> Probe:
    """Train one share up to a number of updates and look at it; once looked at, it is remembered."""
    name = f"{config.mix:g}"
    note = root / f"{name}-{pause}.json"
    if note.exists():
        return load_record(Probe, note)
    out = root / name
    if (out / WORDS).exists():  # it stopped improving before it was to pause
        policy = load_policy(out)
    else:
        policy = train(
            *data,
            out=out,
            config=config,
            photos=words["photos"],
            workspace=words["workspace"],
            threads=words["threads"],
            device=words["device"],
            resume=(out / UNFINISHED).exists(),
            pause_at=pause,
        )
    success = None
    if twin is not None:
        environment = TwinEnvironment(twin, words["where"], as_robot=True)
        success = evaluate(policy, environment, episodes=words["scenes"], seed=config.seed).success_rate
    made = Probe(config.mix, pause, policy.training_record.results["validation"], success)
    save_record(made, note)
    return made


def _pause(config: TrainConfig) -> int:
    """Where to compare: where training validates anyway, so that stopping changes nothing."""
    every = config.validate_every
    return min(config.steps, max(1, int(PART * config.steps / every + 1e-9)) * every)


def _said(probe: Probe) -> str:
    tried = "" if probe.twin_success is None else f", {100 * probe.twin_success:.0f} % in the twin"
    return f"share {probe.share:g} after {probe.updates} updates: real error {probe.real_error:.4f}{tried}"
