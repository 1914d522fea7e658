"""Stages that decide: the gate, its films, the release."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from twinloop.datasets.outcomes import known_outcomes
from twinloop.datasets.reader import open_dataset
from twinloop.errors import GateError
from twinloop.generation.videos import record_video
from twinloop.policies.policy import Policy, load_policy
from twinloop.promotion.chain import FOLDER
from twinloop.promotion.evidence import load_evidence
from twinloop.promotion.registry import PolicyRegistry
from twinloop.promotion.rules import Rules
from twinloop.promotion.run import EVIDENCE, RECORDINGS, Situation, Watchers, gate
from twinloop.randomization import Randomization
from twinloop.report.gate_page import write_gate_page
from twinloop.stages import Done, Progress
from twinloop.steps.folders import GATE, REPORT, RUNS, THREADS, TWIN, Found, policy_of, share_of
from twinloop.steps.models import measured_of, value_at
from twinloop.steps.robot import Station, reached
from twinloop.twins import Twin


@dataclass(frozen=True)
class Rival:
    """The policy that a candidate has to beat. Stages know it by its id, wherever it is kept."""

    content_hash: str
    folder: Path

    @property
    def policy(self) -> Policy:
        """The policy itself."""
        return load_policy(self.folder)


def rival_of(root: Path, candidate: Done, otherwise: Done | None) -> Rival | None:
    """The champion of the workspace that the candidate meets, or met before it took its place; `otherwise` where there was none."""
    held = PolicyRegistry(root).rival(policy_of(candidate).id) if (root / FOLDER).exists() else None
    if held is not None:
        return Rival(held.policy_id, Path(held.folder))
    if otherwise is None:
        return None
    return Rival(policy_of(otherwise).id, otherwise.folder / otherwise.found["name"])


def take_over(out: Path, progress: Progress, *, root: Path, number: int) -> Found:
    """The champion, with which a later round begins."""
    if not (root / FOLDER).exists():
        raise GateError(
            f"round {number} begins with a champion, and there is none",
            remedy="go through the first round, or `twinloop promote` the policy that is in use",
        )
    policy = PolicyRegistry(root).policy("champion")
    policy.save(out / policy.name)
    return {"name": policy.name, "policy": policy.id, "round": number, "validation": None, "curve": []}


def decide(
    out: Path,
    progress: Progress,
    *,
    workspace: Path,
    candidate: Done,
    champion: Rival | None,
    twin: Twin,
    identified: Done,
    explained: Done,
    robot: Station,
    scenes: Randomization,
    listed: int,
    first: int,
    rules: Rules,
    seed: int,
) -> Found:
    """May the candidate take the champion's place, or, without one, pass the bar? Trials until the evidence suffices."""
    loaded = policy_of(candidate)
    varied = measured_of(twin, identified, explained).variations
    middle = {v.name: value_at(v.distribution, 0.5) for v in varied if v.name not in scenes.names}
    with reached(robot.url) as (arm, supervisor):
        verdict = gate(
            loaded,
            twin,
            champion=champion.policy if champion else None,
            rules=rules,
            robot=arm,
            supervisor=supervisor,
            evidence=load_evidence(file) if (file := out / GATE / EVIDENCE).exists() else None,
            scenes=listed,
            first_scene=first,
            randomization=scenes,
            measured=middle,
            seed=seed,
            threads=THREADS,
            out=out / GATE,
            situation=Situation(twin_folder=identified.folder / TWIN, workspace=workspace),
            watchers=Watchers(trial=lambda number, *_: progress(number, rules.max_trials)),
        )
    evidence = load_evidence(out / GATE / EVIDENCE)
    write_gate_page(verdict, evidence, out / REPORT)
    return verdict.as_json() | {
        "simulation": share_of([trial.candidate for trial in evidence.simulated]),
        "robot": share_of([trial.candidate for trial in evidence.real]) | {"standin": evidence.standin},
        "recordings": f"{GATE}/{RECORDINGS}/{loaded.name}",
    }


def film(out: Path, progress: Progress, *, twin: Twin, before: Done, after: Done) -> Found:
    """What a failure looked like before and a success after, where there are such."""
    made = []
    wanted = (
        ("before", before.folder / RUNS, False),
        ("after", after.folder / after.found["recordings"], True),
    )
    for when, folder, success in wanted:
        if not folder.exists():
            continue
        runs = open_dataset(folder)
        chosen = [n for n, won in zip(runs.numbers, known_outcomes(runs), strict=True) if won is success]
        if chosen:
            title = f"{when}: a {'success' if success else 'failure'}"
            record_video(runs.episode(chosen[0]), out / f"{when}.webm", twin=twin, title=title)
            made.append({"file": f"{when}.webm", "caption": title})
    return {"films": made}


def release(
    out: Path, progress: Progress, *, root: Path, policy: Done, champion: Rival | None, verdict: Done, by: str
) -> Found:
    """The candidate as champion, on the grounds of its verdict. Whoever is champion before the first loop is entered first."""
    registry, candidate = PolicyRegistry(root), policy_of(policy)
    if champion is not None and registry.state().aliases.get("champion") is None:
        registry.promote(champion.policy, None, by=by, override="in use before the loop")
    holder = registry.policy("champion") if registry.state().aliases.get("champion") else None
    if holder is None or holder.id != candidate.id:
        registry.promote(candidate, verdict.folder / GATE / "verdict.json", by=by)
    registry.verify()
    return {"champion": candidate.id, "name": candidate.name}
