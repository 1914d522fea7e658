"""The verdict: promote, refuse, or need n more trials; with the reasons."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from twinloop.promotion.checks import CHECKS, Check, twin_is_current
from twinloop.promotion.evidence import Contender, Evidence, load_evidence
from twinloop.promotion.rules import Rules
from twinloop.promotion.statistics import Statistics, measure
from twinloop.records import SavedRecord, load_record

Decision = Literal["promote", "refuse", "more"]


@dataclass(frozen=True)
class Verdict(SavedRecord):
    """A decision about one candidate, with its basis.

    `more` is the number of further real trials that the decision "more" asks for. `evidence_hash` is that of the evidence file.
    """

    FILE, COMMAND = "verdict.json", "twinloop gate --out FOLDER"

    decision: Decision
    reasons: tuple[str, ...]
    candidate: Contender
    champion: Contender | None
    rules: Rules
    statistics: Statistics
    checks: tuple[Check, ...]
    more: int | None
    evidence_hash: str
    robot: str | None
    standin: bool
    decided_at: str

    @property
    def sentence(self) -> str:
        """The decision in one line."""
        decisions = {"promote": "promote", "refuse": "refuse", "more": f"need {self.more} more trials"}
        return f"{decisions[self.decision]}: {'; '.join(self.reasons)}"


def decide(evidence: Evidence, statistics: Statistics, rules: Rules, checks: Sequence[Check] = ()) -> Verdict:
    """Decide; a pure function of its arguments, except for the time stamp."""
    robot = "stand-in" if evidence.standin else "real"
    decision, more, reasons = _decide(statistics, rules, checks, robot)
    return Verdict(
        decision=decision,
        reasons=tuple(reasons),
        candidate=evidence.candidate,
        champion=evidence.champion,
        rules=rules,
        statistics=statistics,
        checks=tuple(checks),
        more=more,
        evidence_hash=evidence_hash(evidence),
        robot=evidence.robot,
        standin=evidence.standin,
        decided_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _decide(
    found: Statistics, rules: Rules, checks: Sequence[Check], robot: str
) -> tuple[Decision, int | None, list[str]]:
    mean = _mean(found, robot, rules.alpha)
    if failed := [check for check in checks if check.blocks]:
        return "refuse", None, [f"{check.name}: {check.detail}" for check in failed]
    if worse := [part for part in found.slices if part.standing == "worse"]:
        margin = f"by more than {100 * rules.slice_margin:g} points"
        return (
            "refuse",
            None,
            [f"{part.name} is worse {margin} ({_shown_by(part.shown_by, robot)} trials)" for part in worse],
        )
    if found.refusing and not found.promoting:
        return "refuse", None, [f"no gain of {100 * rules.min_effect:g} points or more: {mean}"]
    undecided = [part.name for part in found.slices if part.standing == "open"]
    if found.promoting and not undecided:
        slices = (
            f"; none of {len(found.slices)} slices worse"
            if found.slices
            else "; no value varies, so there are no slices"
        )
        return "promote", None, [f"{mean}{slices}"]
    more = _more(found, rules, bool(undecided))
    left = rules.max_trials - found.trials
    reasons = [mean]
    if found.promoting:
        reasons.append(f"not yet shown to be no worse: {', '.join(undecided)}")
    if rules.simulation_only:
        return ("refuse", None, [f"underpowered: {'; '.join(reasons)}; simulate more scenes"])
    if left <= 0:
        return (
            "refuse",
            None,
            [f"underpowered: all {rules.max_trials} trials are used up; {'; '.join(reasons)}"],
        )
    if more is None and 2 * found.trials <= rules.max_trials:
        more = found.trials  # too early to give up: double the trials
    if more is None or more > left:
        needed = (
            "no number of trials would suffice" if more is None else f"about {more} more trials are needed"
        )
        return "refuse", None, [f"underpowered: {needed} and {left} are left; {'; '.join(reasons)}"]
    return "more", more, reasons


def _more(found: Statistics, rules: Rules, undecided: bool) -> int | None:
    if not found.promoting:
        return found.more
    # The mean is settled and only slices are open; half as many trials again is a rough guess.
    return max(1, found.trials // 2) if undecided else 0


def _mean(found: Statistics, robot: str, alpha: float) -> str:
    """Summary of the trials. The test is one-sided: once it is passed, the bar is stated instead of the interval."""
    if found.estimate is None:
        return "no trials yet"
    kind = "simulated" if found.grounds == "simulated" else robot
    simulated = f" and {found.simulated_trials} simulated" if found.grounds == "real and simulated" else ""
    after = f"after {found.trials} {kind} {'pairs' if found.paired else 'trials'}{simulated}"
    # Outcomes adjusted by simulation are unbiased but may average outside the possible range, which is what is displayed.
    points = 100 * min(max(found.estimate, -1.0 if found.paired else 0.0), 1.0)
    estimate = f"gain {points:+.1f} points" if found.paired else f"success rate {points:.1f} %"
    bar = f"{100 * found.bar:+g}" if found.paired else f"{100 * found.bar:g} %"
    if found.promoting:
        return f"{estimate} {after}, above {bar} with {100 * (1 - alpha):g} % confidence"
    return f"{estimate} [{100 * found.low:.1f}, {100 * found.high:.1f}] {after}, bar {bar}"


def _shown_by(trials: str, robot: str) -> str:
    return robot if trials == "real" else trials


def evidence_hash(evidence: Evidence) -> str:
    """256 bits of the evidence's content."""
    return hashlib.sha256(json.dumps(evidence.as_json(), sort_keys=True).encode()).hexdigest()


def load_verdict(path: str | Path) -> Verdict:
    """Read a verdict that `twinloop gate` wrote.

    Args:
        path: The file, or the folder that holds `verdict.json`.

    Returns:
        The verdict.

    Raises:
        WrongUse: If there is no such file or it is not a verdict.
    """
    return load_record(Verdict, path)


def find_contradiction(verdict: Verdict, file: Path) -> str | None:
    """Why a verdict does not follow from the evidence in its folder, or None if deciding again gives the same."""
    evidence = load_evidence(file.with_name("evidence.json"))
    if evidence_hash(evidence) != verdict.evidence_hash:
        return f"{file} does not belong to the evidence next to it"
    rules, checks = verdict.rules, verdict.checks
    if missing := set(CHECKS.names()) - {check.name for check in checks}:
        return f"{file} lacks checks: {', '.join(sorted(missing))}"
    statistics = measure(evidence, rules, twin_is_current=twin_is_current(checks), interval=False)
    again = decide(evidence, statistics, rules, checks)
    if again.decision != verdict.decision:
        return f"{file} says {verdict.decision!r}, but its evidence gives {again.decision!r}"
    return None
