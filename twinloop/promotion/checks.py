"""Checks that the evidence is valid: is the twin current, is there consent, does the simulator behave?

A check is a registered function of a `Subject`; other packages add one with an entry point in the group
`twinloop.gate_checks`. "not evaluated" is a valid status; `needed` states whether it blocks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from twinloop.consent.require import check_consent
from twinloop.consent.training import check_training
from twinloop.datasets.reader import open_dataset
from twinloop.errors import GateError, TwinloopError, UnknownName, WrongUse
from twinloop.plugins import Registry
from twinloop.promotion.attempts import find_omitted
from twinloop.promotion.evidence import Evidence
from twinloop.promotion.rules import Rules
from twinloop.twins import Twin

MIN_SCENES_PER_TRIAL = 4.0
"""From this many scenes per trial on, a verdict about the list holds for all scenes (benchmarks/bench_gate.py)."""

Status = Literal["passed", "failed", "not evaluated"]


@dataclass(frozen=True)
class Check:
    """The result of one check; `accepted` states who waived it, and why."""

    name: str
    status: Status
    detail: str
    needed: bool = True
    accepted: str | None = None

    @property
    def blocks(self) -> bool:
        """Whether it prevents a promotion."""
        if self.accepted is not None:
            return False
        return self.status == "failed" or (self.status == "not evaluated" and self.needed)


@dataclass(frozen=True)
class Situation:
    """What checks look at in addition to the evidence, and the checks that `by` accepted for a `reason`.

    `drift` is the output of `twinloop drift --json`, `alerts` are the monitor's, `twin_since` is the time since when the twin is in
    use, `quirks` is the output of `twinloop evaluate --engines --json`.
    """

    twin_folder: Path | None = None
    workspace: Path | None = None
    drift: Mapping[str, Any] | None = None
    alerts: tuple[Mapping[str, Any], ...] = ()
    twin_since: datetime | None = None
    accepted: tuple[str, ...] = ()
    by: str | None = None
    reason: str | None = None
    quirks: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Subject(Situation):
    """Input of the checks: the evidence, the twin, the situation, and the training data of the policies.

    `datasets` are entries of a policy's training record: id, version, role, name, episodes.
    """

    evidence: Evidence
    rules: Rules
    twin: Twin
    datasets: tuple[Mapping[str, Any], ...] = ()


class GateCheck(Protocol):
    """A function of a subject, without side effects."""

    def __call__(self, subject: Subject, /) -> Check:
        """Return the result."""


CHECKS: Registry[GateCheck] = Registry("gate check", "gate_checks")


def run_checks(subject: Subject) -> tuple[Check, ...]:
    """Run every check, in alphabetical order."""
    return tuple(CHECKS.get(name)(subject) for name in CHECKS.names())


def accept(
    checks: Iterable[Check], names: Sequence[str], by: str | None, reason: str | None
) -> tuple[Check, ...]:
    """Waive the named checks, recording who did so and why."""
    checks = tuple(checks)
    known = {check.name for check in checks}
    for name in names:
        if name not in known:
            raise UnknownName("gate check", name, known)
    if names and not (by and reason):
        raise WrongUse("accepting a check needs a name and a reason", remedy="--by NAME --reason TEXT")
    return tuple(replace(c, accepted=f"{by}: {reason}") if c.name in names else c for c in checks)


def twin_is_current(checks: Iterable[Check]) -> bool:
    """Whether simulated trials count for slices: the replay check passed without being waived, and there is no drift."""
    status = {check.name: check.status for check in checks}
    return status.get("replay") == "passed" and status.get("drift") != "failed"


@CHECKS.register("replay")
def replay(subject: Subject) -> Check:
    """The replay gate accepted the twin, or identification could not improve it."""
    used = bool(subject.evidence.simulated)
    file = subject.twin_folder / "identification.json" if subject.twin_folder else None
    if file is None or not file.is_file():
        detail = "the twin was never compared with recordings; run `twinloop identify`"
        return Check("replay", "not evaluated", detail, needed=used)
    try:
        result = json.loads(file.read_text())
        gate, identified, base = result["gate"], result["twin_hash"], result["base"]
        accepted, reason = bool(gate["accepted"]), str(gate["reason"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise GateError(f"{file} cannot be read ({error})", remedy="twinloop identify again") from error
    if not accepted and base == subject.twin.content_hash:
        return Check("replay", "passed", f"the twin is kept: no other values replay better ({reason})", used)
    if identified != subject.twin.content_hash:
        return Check("replay", "failed", "the twin was modified after identification", needed=used)
    return Check("replay", "passed" if accepted else "failed", reason, needed=used)


@CHECKS.register("drift")
def drift(subject: Subject) -> Check:
    """No unresolved drift since the twin was identified."""
    if subject.drift is not None and subject.drift.get("drift"):
        moved = ", ".join(subject.drift.get("dimensions", ())) or "a parameter"
        return Check(
            "drift", "failed", f"drift since the twin was identified: {moved}; run `twinloop identify` again"
        )
    since = subject.twin_since
    pending = [
        alert
        for alert in subject.alerts
        if alert.get("changes_twin") and (since is None or datetime.fromisoformat(alert["at"]) > since)
    ]
    if pending:
        return Check("drift", "failed", f"unresolved monitor alert: {pending[-1]['what']}")
    if subject.drift is not None or subject.alerts:
        return Check("drift", "passed", "no drift reported since the twin is in use")
    return Check("drift", "not evaluated", "no drift report and no monitor alerts", needed=False)


@CHECKS.register("engines")
def engines(subject: Subject) -> Check:
    """`twinloop evaluate --engines` found the candidate robust in this twin."""
    needed = subject.rules.require_engines
    if subject.quirks is None:
        missing = "not tried in several engines; --engines FILE takes what `twinloop evaluate --engines --json` prints"
        return Check("engines", "not evaluated", missing, needed)
    found = _of_candidate(subject.quirks, subject.evidence.candidate.id)
    if found is None:
        return Check("engines", "not evaluated", "the engines' file is about another policy", needed)
    if found.get("twin_hash") != subject.twin.content_hash:
        return Check(
            "engines", "not evaluated", "the engines' file is about another version of the twin", needed
        )
    verdict, because = str(found.get("verdict")), str(found.get("because"))
    if verdict == "exploits":
        return Check("engines", "failed", because)
    return Check("engines", "passed" if verdict == "robust" else "not evaluated", because, needed)


def _of_candidate(quirks: Mapping[str, Any], policy: str) -> Mapping[str, Any] | None:
    listed = quirks.get("quirks", [quirks])
    entries = listed if isinstance(listed, list) else []
    return next((one for one in entries if isinstance(one, Mapping) and one.get("policy_id") == policy), None)


@CHECKS.register("consent")
def consent(subject: Subject) -> Check:
    """Consent covers training for the training data, and evaluation for the recordings of the gate."""
    missing = ["the training data of the policies"]
    if subject.workspace is not None and subject.datasets:
        training = check_training(subject.workspace, subject.datasets)
        if training.objections:
            return Check("consent", "failed", f"may not be used to train: {training.objections[0]}")
        missing = list(training.missing)
    for path in subject.evidence.recordings:
        try:
            objections = check_consent(open_dataset(path), "evaluate", subject.workspace or Path.cwd())
        except TwinloopError:
            missing.append(path)
            continue
        if objections:
            detail = (
                f"{path} may not be used to evaluate: episode {objections[0].episode}, {objections[0].reason}"
            )
            return Check("consent", "failed", detail)
    if missing:
        detail = f"cannot check {', '.join(dict.fromkeys(missing))}: not in a workspace, or modified"
        return Check("consent", "not evaluated", detail, needed=False)
    count = len(subject.datasets) + len(subject.evidence.recordings)
    return Check("consent", "passed", f"{count} datasets, no objection")


@CHECKS.register("artefacts")
def artefacts(subject: Subject) -> Check:
    """Few of the candidate's simulated trials have simulation artefacts."""
    trials = subject.evidence.simulated
    if not trials:
        return Check("artefacts", "not evaluated", "nothing was simulated", needed=False)
    counts = [trial.artefacts for trial in trials if trial.artefacts is not None]
    if len(counts) < len(trials):
        return Check("artefacts", "not evaluated", "the number of artefacts in the trials is unknown")
    fraction = sum(count > 0 for count in counts) / len(trials)
    limit = subject.rules.max_artefact_fraction
    status: Status = "passed" if fraction <= limit else "failed"
    detail = f"{100 * fraction:.1f} % of {len(trials)} simulated trials of the candidate have artefacts; the limit is {100 * limit:g} %"
    return Check("artefacts", status, detail)


@CHECKS.register("same twin")
def same_twin(subject: Subject) -> Check:
    """The simulated trials used this version of the twin."""
    if not subject.evidence.simulated:
        return Check("same twin", "not evaluated", "nothing was simulated", needed=False)
    used, current = subject.evidence.twin, f"{subject.twin.name} {subject.twin.version}"
    name = used.get("name") or subject.twin.name
    if name == subject.twin.name and not used.get("hash"):
        return Check("same twin", "not evaluated", f"the trials do not state the version of {name}")
    if name != subject.twin.name or used["hash"] != subject.twin.content_hash:
        detail = f"simulated in {name} {used.get('version')}, but the current twin is {current}"
        return Check("same twin", "failed", detail)
    return Check("same twin", "passed", current)


@CHECKS.register("list")
def list_length(subject: Subject) -> Check:
    """The list of scenes is much longer than the number of trials; otherwise the verdict holds for the listed scenes only."""
    scenes, trials = len(subject.evidence.simulated), len(subject.evidence.real)
    if not subject.evidence.combinable:
        return Check("list", "not evaluated", "no real trials drawn from a list of scenes", needed=False)
    if scenes < MIN_SCENES_PER_TRIAL * trials:
        detail = f"{trials} trials drawn from only {scenes} scenes: the verdict holds for these scenes only"
        return Check("list", "not evaluated", detail, needed=False)
    return Check("list", "passed", f"{trials} trials drawn from {scenes} scenes")


@CHECKS.register("attempts")
def attempts(subject: Subject) -> Check:
    """No earlier trials of these policies on this robot are omitted."""
    if subject.workspace is None:
        return Check("attempts", "not evaluated", "no workspace with a record of gates", needed=False)
    if earlier := find_omitted(subject.workspace, subject.evidence):
        trials, file = sum(attempt.trials for attempt in earlier), earlier[-1].evidence
        detail = f"{trials} earlier trials of these policies on this robot are omitted; continue from them with --evidence {file}"
        return Check("attempts", "failed", detail)
    return Check("attempts", "passed", "no earlier trials are omitted")
