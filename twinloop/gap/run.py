"""`measure_gap`: from real episodes and a twin to the gap, dimension by dimension. The path on one page."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.episode import Episode
from twinloop.errors import UnknownName, WrongUse
from twinloop.gap import actuation, contact, human, latency, numerics, sensing, slices, visual
from twinloop.gap.conditions import Known, conditions_of, dimension_of
from twinloop.gap.evidence import GapEvidence, Options, simulated, spread
from twinloop.gap.registry import METRICS
from twinloop.gap.result import Gap, Measure, NotEvaluated, collect
from twinloop.gap.success import Success, measure_success
from twinloop.policies.open import open_policy
from twinloop.policies.protocol import PolicyLike
from twinloop.twins import Twin, load_twin
from twinloop.twins.parameter import DIMENSIONS

BUILT_IN = (contact, visual, sensing, slices, human, actuation, latency, numerics)
"""Modules that register metrics."""

OnProgress = Callable[[str, int, int], None]


def measure_gap(
    real: Dataset | str | Path,
    twin: Twin | str | Path,
    sim: Dataset | str | Path | None = None,
    *,
    policy: PolicyLike | str | Path | None = None,
    only: Sequence[str] | None = None,
    conditions: Mapping[str, Known] | None = None,
    options: Options | None = None,
    on_progress: OnProgress = lambda what, done, total: None,
) -> Gap:
    """Measure how far a twin is from real episodes, by gap dimension.

    Args:
        real: Real episodes.
        twin: The twin.
        sim: Simulated episodes to compare with; by default the twin's replay of the real commands and, for what replay
            cannot show, a small generated set.
        policy: Evaluated in the twin; its success rate is compared with that of the real episodes in which it acted.
        only: Gap dimensions to measure; by default all.
        conditions: Conditions of real episodes (object, light, participant, ...) by their number or id.
        options: Sizes and random seed of the measurement.
        on_progress: Called with the dimension and the numbers of steps done and in all.

    Returns:
        Each difference (sim - real) with its unit, 95 % interval and numbers of episodes, and what was not evaluated.

    Raises:
        UnknownName: A gap dimension does not exist.
        WrongUse: There are no real episodes, or a condition names an episode that does not exist.
    """
    options = options or Options()
    cell = twin if isinstance(twin, Twin) else load_twin(twin)
    source = real if isinstance(real, Dataset) else open_dataset(real)
    if not len(source):
        raise WrongUse(f"{source.root} has no episodes", expected="real episodes, recorded or ingested")
    numbers = spread(source, options.episodes)
    episodes = [source.episode(number) for number in numbers]
    table = conditions or {}
    known = [
        conditions_of(one, table.get(one.id, table.get(str(n))))
        for n, one in zip(numbers, episodes, strict=True)
    ]
    simulation = None
    if sim is not None:
        dataset = sim if isinstance(sim, Dataset) else open_dataset(sim)
        simulation = simulated(dataset, dataset.root.name, options.episodes)
    names = _metrics_of(only)
    step = [0]

    def log(line: str) -> None:
        on_progress(line, step[0], len(names))

    with tempfile.TemporaryDirectory(prefix="twinloop-gap-") as work:
        evidence = GapEvidence(cell, episodes, known, options, Path(work), simulation, log)
        if only is None:
            _require_same_robot(evidence)
        found: list[Measure | NotEvaluated] = []
        for step[0], name in enumerate(names):
            log(name)
            found += METRICS.get(name)(evidence)
        log("success")
        success = _success(evidence, policy, Path(work), only)
    return Gap(
        twin=cell.name,
        twin_version=cell.version,
        real=str(source.root),
        sim=simulation.name if simulation else None,
        episodes=len(episodes),
        dimensions=collect(found, only),
        success=success,
        notes=_notes(episodes, len(source)),
        seed=options.seed,
        standin=any(episode.provenance.source == "standin" for episode in episodes),
        real_episodes=tuple(episode.id for episode in episodes),
    )


def _notes(episodes: Sequence[Episode], there: int) -> tuple[str, ...]:
    """What a reader should know about the data."""
    notes = []
    if all(episode.provenance.source == "sim" for episode in episodes):
        notes.append("the episodes passed as real are simulated")
    if len(episodes) < there:
        notes.append(f"{len(episodes)} of {there} real episodes were used, spread evenly")
    return tuple(notes)


def _metrics_of(only: Sequence[str] | None) -> list[str]:
    """The metrics of the requested dimensions; a metric's name starts with its dimension."""
    for name in only or ():
        if name not in DIMENSIONS:
            raise UnknownName("gap dimension", name, DIMENSIONS)
    return [name for name in METRICS.names() if only is None or name.split()[0] in only]


def _require_same_robot(evidence: GapEvidence) -> None:
    """Refuse episodes with commands for another number of joints: almost nothing could be compared."""
    commands = next((s.size for s in evidence.real[0].schema.signals if s.name == "action"), None)
    if commands not in (None, len(evidence.cell.actuators)) and isinstance(evidence.joints, WrongUse):
        raise evidence.joints


def _success(
    evidence: GapEvidence, policy: PolicyLike | str | Path | None, work: Path, only: Sequence[str] | None
) -> Success:
    """Success of all real episodes against simulated ones, or of one policy's against its trials in the twin.

    Slices are over conditions of the requested dimensions.
    """
    real = evidence.real
    known = [
        {n: v for n, v in one.items() if only is None or dimension_of(n, evidence.twin) in only}
        for one in evidence.known
    ]
    if policy is None:
        sim = evidence.sim if evidence.has_sim else None
        return measure_success(
            real, sim.episodes if sim else (), known, sim.known if sim else (), sim.name if sim else ""
        )
    from twinloop.evaluation.run import evaluate
    from twinloop.evaluation.twin import TwinEnvironment

    found = open_policy(policy) if isinstance(policy, str | Path) else policy
    acted = f"{found.name}@{found.id}"
    mine = [k for k, one in enumerate(real) if one.provenance.actor_id == acted]
    if not mine:
        actors = sorted({one.provenance.actor_id or "no actor recorded" for one in real})
        raise WrongUse(
            f"policy {found.name} acted in none of the real episodes",
            got=", ".join(actors),
            expected=acted,
            remedy="twinloop evaluate POLICY --robot ROBOT --out DATASET records them",
        )
    options = evidence.options
    environment = TwinEnvironment(evidence.twin, threads=options.threads or 1)
    evaluate(found, environment, episodes=options.trials, seed=options.seed, out=work / "trials")
    tried = simulated(open_dataset(work / "trials"), f"{options.trials} trials in the twin", options.trials)
    return measure_success(
        [real[k] for k in mine], tried.episodes, [known[k] for k in mine], tried.known, tried.name
    )
