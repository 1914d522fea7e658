"""How much simulated data to co-train with: a budgeted search over fractions of simulated data that needs no robot.

Error and success rise and fall once over the fraction, so the search climbs: three fractions train for a third of the updates,
then the neighbours of the best so far, until both are known or a third of the cost of training all fractions is spent; the best is
trained to the end. Training is paused and resumed, so the resulting policy is bit for bit the one of `--mix FRACTION`. Comparing
earlier misleads: at a sixth of the updates small fractions, which see real data more often, are ahead of those that win in the end.

A fraction is scored by two measures: the error on held-out real episodes, and the success rate in a twin with the policy in real
mode, in scenes as far apart as the simulated data's: near the middle everything succeeds. Each alone may mislead (few held-out
episodes; a twin is no robot), so the mean of both ranks decides, and the error where they tie: a twin in which everything fails then
does not count.
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
from twinloop.learning.fit import OnValidation
from twinloop.learning.train import UNFINISHED, train
from twinloop.policies.networks.policy import METADATA, Policy, load_policy
from twinloop.randomization import Randomization
from twinloop.randomization.scenes import scenes_of
from twinloop.records import SavedRecord, load_record, save_record
from twinloop.twins import Twin

SHARES = (0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 0.97)
FIRST = (1, 2, 4)
"""Indices of the fractions that are tried first: 0.25, 0.5 and 0.8 of the default seven."""

PART = 1 / 3
"""Fraction of the updates after which fractions are compared."""

MOST_COST = 1 / 3
"""Limit of the cost of search and training together, relative to training all fractions."""

SCENES = 60
CHOICE = "mix.json"


@dataclass(frozen=True)
class Probe(SavedRecord):
    """One fraction (`share`) after so many updates: error on held-out real episodes (scaled), success rate in the twin."""

    COMMAND = "twinloop train --mix auto"

    share: float
    updates: int
    real_error: float
    twin_success: float | None


@dataclass(frozen=True)
class MixChoice(SavedRecord):
    """The chosen fraction (`share`) of simulated data, and the evidence. `cost_updates` includes training the chosen one to the end."""

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
    log: Callable[[str], None] = lambda line: None,
) -> MixChoice:
    """Find the fraction of simulated data for `co-train`.

    Args:
        sim: Simulated dataset.
        real: Real dataset.
        config: Choices of the training; its `mix` is not used.
        folder: Keeps unfinished trainings and their scores; an interrupted search continues from it.
        twin: Where policies are evaluated, best a calibrated one; default: the twin that the simulated data was made with.
        shares: Fractions to choose from.
        scenes: Trials of each policy in the twin.
        photos: As in `train`.
        workspace: As in `train`.
        threads: As in `train`.
        device: As in `train`.
        log: Called with a line for each fraction.

    Returns:
        The chosen fraction, with the scores of those that were tried.

    Raises:
        WrongUse: The recipe is not `co-train`, or there is nothing to choose.
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
    environment = None
    if judge := twin or twin_of(data[0]):
        environment = TwinEnvironment(judge, _scenes_in(data[0], judge), as_robot=True)
    training: dict[str, Any] = {
        "photos": photos, "workspace": workspace, "threads": threads, "device": device,
    }  # fmt: skip
    began, pause, found = time.monotonic(), _pause(config), dict[float, Probe]()
    most = max(2, int((MOST_COST * len(order) * config.steps - (config.steps - pause)) / pause + 1e-9))
    while len(found) < most and (share := next_share(order, found)) is not None:
        probe = _probe(data, root, replace(config, mix=share), pause, environment, scenes, training)
        found[share] = probe
        log(_describe_probe(probe))
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
    on_validation: OnValidation = lambda point, steps: None,
    log: Callable[[str], None] = lambda line: None,
) -> Policy:
    """Choose the mix (`choose_mix`), then train with it (`train`); the policy's folder keeps `mix.json`."""
    training: dict[str, Any] = {
        "photos": photos, "workspace": workspace, "threads": threads, "device": device,
    }  # fmt: skip
    target = Path(out)
    search = target.with_name(f"{target.name}.mix")
    if search.exists() and not resume:
        raise LearnError(f"{search} holds an unfinished search", remedy="go on with --resume, or delete it")
    if not resume and target.exists() and any(target.iterdir()):
        raise LearnError(f"{target} exists and is not empty", remedy="choose another folder")
    if (search / CHOICE).exists():
        choice = load_choice(search)
    else:
        choice = choose_mix(sim, real, config=config, folder=search, twin=twin, log=log, **training)
    begun = search / f"{choice.share:g}"
    if begun.exists() and not target.exists():
        shutil.move(begun, target)
    log(f"chose {choice.share:g}")
    if (target / METADATA).exists():
        policy = load_policy(target)
    else:
        policy = train(
            sim,
            real,
            out=target,
            config=replace(config, mix=choice.share),
            tracking=tracking,
            resume=True,
            on_validation=on_validation,
            **training,
        )
    shutil.move(search / CHOICE, target / CHOICE)
    shutil.rmtree(search)
    return policy


def scores(probes: Sequence[Probe]) -> Any:
    """A score for each probe, larger is better: the mean of both ranks, and the smaller error where they tie."""
    error = stats.rankdata([-probe.real_error for probe in probes])
    if any(probe.twin_success is None for probe in probes):
        return error
    success = stats.rankdata([probe.twin_success for probe in probes])
    return 0.5 * (error + success) + 1e-3 * error


def load_choice(folder: str | Path) -> MixChoice:
    """Read `mix.json` from the folder of a search or of the policy."""
    return load_record(MixChoice, folder)


def twin_of(dataset: Dataset) -> Twin | None:
    """The twin that a simulated dataset was made with; None where it names none."""
    side = dataset.provenance_table()
    if side is None or not len(side):
        return None
    row = side.select(["twin", "twin_hash"]).slice(0, 1).to_pylist()[0]
    return find_stored_twin(dataset.root, row["twin_hash"], row["twin"]) if row["twin_hash"] else None


def _scenes_in(dataset: Dataset, twin: Twin) -> Randomization | None:
    """The scenes of a simulated dataset; None where the run that made it is not recorded."""
    record = load_generation(dataset.root, dataset.id)
    made = recorded_job(dataset.root, record).randomization if record else None
    return scenes_of(made, twin) if made else None


def next_share(order: Sequence[float], found: Mapping[float, Probe]) -> float | None:
    """The fraction to try next: the first ones, then neighbours of the best; None when both are known.

    A neighbour outside the range tried so far comes first: the best may lie beyond it.
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
    """The fraction with the best score."""
    made = list(found.values())
    return made[int(np.argmax(scores(made)))].share


def _probe(
    data: Sequence[Dataset],
    root: Path,
    config: TrainConfig,
    pause: int,
    environment: TwinEnvironment | None,
    scenes: int,
    training: dict[str, Any],
) -> Probe:
    """Train with one fraction up to a number of updates and score it; a stored score is reused."""
    name = f"{config.mix:g}"
    note = root / f"{name}-{pause}.json"
    if note.exists():
        return load_record(Probe, note)
    out = root / name
    if (out / METADATA).exists():  # it stopped improving before it was to pause
        policy = load_policy(out)
    else:
        resume = (out / UNFINISHED).exists()
        policy = train(*data, out=out, config=config, resume=resume, pause_at=pause, **training)
    success = None
    if environment is not None:
        success = evaluate(policy, environment, episodes=scenes, seed=config.seed).success_rate
    made = Probe(config.mix, pause, policy.training_record.results["validation"], success)
    save_record(made, note)
    return made


def _pause(config: TrainConfig) -> int:
    """Where to compare: where training validates anyway, so that stopping changes nothing."""
    every = config.validate_every
    return min(config.steps, max(1, int(PART * config.steps / every + 1e-9)) * every)


def _describe_probe(probe: Probe) -> str:
    tried = "" if probe.twin_success is None else f", {100 * probe.twin_success:.0f} % in the twin"
    return f"share {probe.share:g} after {probe.updates} updates: real error {probe.real_error:.4f}{tried}"
