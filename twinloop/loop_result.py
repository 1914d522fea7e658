"""`LoopResult`: what each stage of a loop found, as nouns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinloop.alignment.result import Alignment
from twinloop.anchoring import Anchor
from twinloop.coverage.result import Coverage
from twinloop.datasets.reader import Dataset
from twinloop.diagnosis.result import Diagnosis
from twinloop.evaluation.result import Evaluation
from twinloop.gap.result import Gap
from twinloop.generation.videos import Video
from twinloop.identification.result import Identification
from twinloop.monitoring.run import MonitorReport
from twinloop.planning.items import Plan
from twinloop.policies.protocol import PolicyLike
from twinloop.promotion.champion import Champion
from twinloop.promotion.evidence import Evidence, load_evidence
from twinloop.promotion.run import EVIDENCE
from twinloop.promotion.verdict import Verdict
from twinloop.stages import Stage


@dataclass(frozen=True, eq=False)
class LoopResult:
    """What each stage of a loop found; None for stages that did not run."""

    folder: Path
    stages: tuple[Stage[Any], ...]
    generate: Dataset | None = None
    train: PolicyLike | None = None
    evaluate_sim: Evaluation | None = None
    evaluate: Evaluation | None = None
    gate_first: Verdict | None = None
    gap: Gap | None = None
    excite: Dataset | None = None
    align: tuple[Alignment, ...] | None = None
    identify: Identification | None = None
    demonstrate: Dataset | None = None
    diagnose: Diagnosis | None = None
    coverage: Coverage | None = None
    plan: Plan | None = None
    anchor: Anchor | None = None
    regenerate: Dataset | None = None
    retrain: PolicyLike | None = None
    reevaluate: Evaluation | None = None
    demonstrate_more: Dataset | None = None
    select: Dataset | None = None
    finetune: PolicyLike | None = None
    gate: Verdict | None = None
    video: tuple[Video, ...] | None = None
    promote: Champion | None = None
    monitor: MonitorReport | None = None

    @property
    def evidence(self) -> Evidence | None:
        """The trials of the last gate."""
        stage = self.stage("gate") or self.stage("gate-first")
        return load_evidence(stage.folder / EVIDENCE) if stage is not None else None

    @property
    def verdict(self) -> Verdict | None:
        """The last gate's verdict."""
        return self.gate or self.gate_first

    def stage(self, name: str) -> Stage[Any] | None:
        """A stage that was reached, by name."""
        return next((stage for stage in self.stages if stage.name == name), None)
