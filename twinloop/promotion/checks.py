"""Whether the evidence may be believed at all: is the twin current, were people asked, does the simulator behave?

A check is a function of a `Subject` under the name it is registered by; other packages add one with an entry point in the
group `twinloop.gate_checks`. "not evaluated" is a legal answer, and says whether it blocks.
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
from twinloop.promotion.attempts import left_out
from twinloop.promotion.evidence import Evidence
from twinloop.promotion.rules import Rules
from twinloop.twins import Twin

LONG = 4.0
"""Scenes for each trial drawn from them, from which on a list is as good as all scenes (benchmarks/bench_gate.py)."""

Status = Literal["passed", "failed", "not evaluated"]


@dataclass(frozen=True)
class Check:
    """One answer; `accepted` names who let it pass nevertheless, and why."""

    name: str
    status: Status
    detail: str
    needed: bool = True
    accepted: str | None = None

    @property
    def blocks(self) -> bool:
        """Whether it stands in the way of a promotion."""
        if self.accepted is not None:
            return False
        return self.status == "failed" or (self.status == "not evaluated" and self.needed)


@dataclass(frozen=True)
class Subject:
    """What is looked at: the evidence, the twin and the folder it was loaded from, the data behind the policies.

    `datasets` are entries of a policy's training_record: id, version, role, name, episodes. `drift` is what `twinloop drift --json` or the monitor
    reported last, with `since`, the time from which the twin is in use.
    """

    evidence: Evidence
    rules: Rules
    twin: Twin
    twin_folder: Path | None = None
    workspace: Path | None = None
    datasets: tuple[Mapping[str, Any], ...] = ()
    drift: Mapping[str, Any] | None = None
    alerts: tuple[Mapping[str, Any], ...] = ()
    twin_since: datetime | None = None


class GateCheck(Protocol):
    """Looks at a subject; changes nothing."""

    def __call__(self, subject: Subject, /) -> Check:
        """The answer."""


CHECKS: Registry[GateCheck] = Registry("gate check", "gate_checks")


def run_checks(subject: Subject) -> tuple[Check, ...]:
    """Every check, in alphabetical order; simulation that is not used needs no current twin."""
    return tuple(CHECKS.get(name)(subject) for name in CHECKS.names())


def accept(
    checks: Iterable[Check], names: Sequence[str], by: str | None, reason: str | None
) -> tuple[Check, ...]:
    """The same, with the named ones let pass by somebody who says why."""
    made = tuple(checks)
    known = {check.name for check in made}
    for name in names:
        if name not in known:
            raise UnknownName("gate check", name, known)
    if names and not (by and reason):
        raise WrongUse("whoever lets a check pass says so", remedy="--by NAME --reason TEXT")
    return tuple(replace(c, accepted=f"{by}: {reason}") if c.name in names else c for c in made)


def twin_is_current(checks: Iterable[Check]) -> bool:
    """Whether simulated trials may speak for slices: the twin passed its own gate and nobody had to look away."""
    status = {check.name: check.status for check in checks}
    return status.get("replay") == "passed" and status.get("drift") != "failed"


@CHECKS.register("replay")
def replay(subject: Subject) -> Check:
    """The twin is one that the replay gate accepted, or one that an identification could not make better."""
    used = bool(subject.evidence.simulated)
    file = subject.twin_folder / "identification.json" if subject.twin_folder else None
    if file is None or not file.is_file():
        detail = "the twin was never compared with recordings; run `twinloop identify`"
        return Check("replay", "not evaluated", detail, needed=used)
    try:
        found = json.loads(file.read_text())
        gate, identified, base = found["gate"], found["twin_hash"], found["base"]
        accepted, reason = bool(gate["accepted"]), str(gate["reason"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GateError(f"{file} cannot be read ({error})", remedy="twinloop identify again") from error
    if not accepted and base == subject.twin.content_hash:
        return Check("replay", "passed", f"the twin stands, no other values replay better ({reason})", used)
    if identified != subject.twin.content_hash:
        return Check("replay", "failed", "the twin was changed since it was identified", needed=used)
    return Check("replay", "passed" if accepted else "failed", reason, needed=used)


@CHECKS.register("drift")
def drift(subject: Subject) -> Check:
    """Nothing has moved since the twin was identified that nobody has looked at."""
    if subject.drift is not None and subject.drift.get("drift"):
        moved = ", ".join(subject.drift.get("dimensions", ())) or "something"
        return Check("drift", "failed", f"{moved} has moved since; identify again")
    since = subject.twin_since
    pending = [
        alert
        for alert in subject.alerts
        if alert.get("changes_twin") and (since is None or datetime.fromisoformat(alert["at"]) > since)
    ]
    if pending:
        return Check("drift", "failed", f"unresolved alert of the monitor: {pending[-1]['what']}")
    if subject.drift is not None or subject.alerts:
        return Check("drift", "passed", "no drift is reported since the twin is in use")
    return Check("drift", "not evaluated", "no drift report and no monitor", needed=False)


@CHECKS.register("consent")
def consent(subject: Subject) -> Check:
    """Whoever is in the data agreed: to training what was trained on, to evaluating what was recorded for the gate."""
    missing = ["what the policies were trained on"]
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
        gone = ", ".join(dict.fromkeys(missing))
        detail = f"nobody can look at {gone}: not in a workspace, or not as it was"
        return Check("consent", "not evaluated", detail, needed=False)
    looked = len(subject.datasets) + len(subject.evidence.recordings)
    return Check("consent", "passed", f"{looked} datasets, no objection")


@CHECKS.register("artefacts")
def artefacts(subject: Subject) -> Check:
    """The simulator behaved in nearly all of the candidate's simulated trials."""
    trials = subject.evidence.simulated
    if not trials:
        return Check("artefacts", "not evaluated", "nothing was simulated", needed=False)
    counts = [trial.artefacts for trial in trials if trial.artefacts is not None]
    if len(counts) < len(trials):
        return Check("artefacts", "not evaluated", "the trials do not say how many artefacts they show")
    share = sum(count > 0 for count in counts) / len(trials)
    most = subject.rules.max_artefact_fraction
    status: Status = "passed" if share <= most else "failed"
    detail = f"{100 * share:.1f} % of {len(trials)} simulated trials of the candidate show artefacts, {100 * most:g} % are allowed"
    return Check("artefacts", status, detail)


@CHECKS.register("same twin")
def same_twin(subject: Subject) -> Check:
    """The simulated trials are of this version of the twin."""
    if not subject.evidence.simulated:
        return Check("same twin", "not evaluated", "nothing was simulated", needed=False)
    made_in, called = subject.evidence.twin, f"{subject.twin.name} {subject.twin.version}"
    name = made_in.get("name") or subject.twin.name
    if name == subject.twin.name and not made_in.get("hash"):
        return Check("same twin", "not evaluated", f"the trials do not say in which version of {name}")
    if name != subject.twin.name or made_in["hash"] != subject.twin.content_hash:
        detail = f"simulated in {name} {made_in.get('version')}, but the twin is {called}"
        return Check("same twin", "failed", detail)
    return Check("same twin", "passed", called)


@CHECKS.register("list")
def list_length(subject: Subject) -> Check:
    """The list of scenes is long beside the trials drawn from it; else the verdict is about these scenes and no others."""
    scenes, trials = len(subject.evidence.simulated), len(subject.evidence.real)
    if not subject.evidence.combinable:
        return Check("list", "not evaluated", "no real trials drawn from a list of scenes", needed=False)
    if scenes < LONG * trials:
        detail = f"{trials} trials drawn from only {scenes} scenes: the verdict is about these scenes, not about all"
        return Check("list", "not evaluated", detail, needed=False)
    return Check("list", "passed", f"{trials} trials drawn from {scenes} scenes")


@CHECKS.register("attempts")
def attempts(subject: Subject) -> Check:
    """No earlier trials of these policies on this robot are left out."""
    if subject.workspace is None:
        return Check("attempts", "not evaluated", "no workspace that remembers gates", needed=False)
    if earlier := left_out(subject.workspace, subject.evidence):
        trials, file = sum(one.trials for one in earlier), earlier[-1].evidence
        detail = f"{trials} earlier trials of these policies on this robot are left out; go on from them with --evidence {file}"
        return Check("attempts", "failed", detail)
    return Check("attempts", "passed", "no earlier trials are left out")
