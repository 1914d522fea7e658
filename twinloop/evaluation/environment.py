"""The door for environments: a twin or a robot, as a place where policies are tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from twinloop.episode import Episode
from twinloop.evaluation.result import Evaluation, Trial
from twinloop.generation.artefacts import KIND as ARTEFACT
from twinloop.policies.protocol import PolicyLike
from twinloop.robots.record import VOID
from twinloop.robots.safety.envelope import count_interventions

OnProgress = Callable[[int, int], None]
"""Called with trials done and trials in total."""


@runtime_checkable
class Environment(Protocol):
    """Somewhere policies can be tried, each in the same scenes."""

    def try_policies(
        self,
        policies: Sequence[PolicyLike],
        episodes: int | None,
        seed: int,
        out: Path | None,
        on_progress: OnProgress,
    ) -> list[Evaluation]:
        """Try every policy in every scene; see `evaluate_in_turns`."""


def dataset_folder(out: Path, policy: PolicyLike, policies: Sequence[PolicyLike]) -> Path:
    """Where the episodes of a policy are kept: `out` itself if it is the only one."""
    return out if len(policies) == 1 else out / policy.name


def read_trial(number: int, episode: Episode) -> Trial:
    """Read the outcome of an episode."""
    phases = [event.detail for event in episode.events if event.kind == "phase"]
    void = [event.detail for event in episode.events if event.kind == VOID]
    return Trial(
        number,
        episode.success,
        episode.outcome.failure,
        phases[-1] if phases else None,
        dict(episode.provenance.draw),
        sum(event.kind == ARTEFACT for event in episode.events),
        void[0] if void else None,
        count_interventions(episode.events),
    )
