"""`twinloop evaluate`: how often policies succeed, in a twin or on a robot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

import twinloop
from twinloop.cli import console
from twinloop.cli.attend import RATER, Attend, Rater, supervise
from twinloop.cli.options import (
    CompensateMs,
    EnvironmentUrl,
    Json,
    PolicyMap,
    PolicyNames,
    PolicyTwin,
    SceneConfig,
)
from twinloop.cli.places import choose_place, load_policy, load_policy_twin
from twinloop.cli.quirks import evaluate_quirks
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.policies.latency import Latency
    from twinloop.robots.protocol import Robot, TrialSupervisor

RobotUrl = Annotated[str | None, Option(help="Evaluate on this robot: standin:NAME, tcp:HOST:PORT ...")]
Episodes = Annotated[int, Option(help="Episodes of each policy.")]
Seed = Annotated[
    int,
    Option(
        min=0,
        help="Random seed for the scenes in a twin; number of the first scene on a robot. The same for every policy.",
    ),
]
UntilFailure = Annotated[
    bool, Option("--until-failure", help="On a robot: stop after the first trial that fails.")
]
Seconds = Annotated[
    float | None, Option(help="On a robot: time limit of an episode; default: that of the robot's task.")
]
Out = Annotated[
    Path | None, Option(help="Store the episodes as a dataset; of several policies, one dataset each.")
]
ChargedLatency = Annotated[
    str,
    Option(
        metavar="measured|MS|none|FILE",
        help="Inference time charged in simulation: as measured first, milliseconds, none, or as in an earlier --json output.",
    ),
]
Engines = Annotated[
    str | None,
    Option(
        metavar="all|NAME,...",
        help="Try the policies in these physics engines, in the same scenes, and say whether they exploit the first one.",
    ),
]
TimeSteps = Annotated[
    str | None, Option(metavar="S,...", help="The same for physics time steps in seconds: 0.001,0.002,0.004.")
]
Ray = Annotated[
    str | None,
    Option(metavar="ADDRESS", help="In a twin: on the Ray cluster at this address, in groups of 32 trials."),
]
Videos = Annotated[
    Path | None, Option(metavar="FOLDER", help="Write videos of each policy's first failures, as WebM.")
]


def evaluate(
    policies: PolicyNames,
    twin: PolicyTwin = None,
    robot: RobotUrl = None,
    env: EnvironmentUrl = None,
    episodes: Episodes = 200,
    seed: Seed = 0,
    until_failure: UntilFailure = False,
    seconds: Seconds = None,
    config: SceneConfig = None,
    latency: ChargedLatency = "none",
    compensate_ms: CompensateMs = None,
    map_file: PolicyMap = None,
    out: Out = None,
    videos: Videos = None,
    engines: Engines = None,
    timesteps: TimeSteps = None,
    ray: Ray = None,
    attend: Attend = False,
    rater: Rater = RATER,
    json: Json = False,
) -> None:
    """Measure how often policies succeed, in the same scenes for each, with exact 95 % intervals.

    On a robot, several policies take turns in every scene. With a person beside it, they do so in a drawn order that the person does not
    know, and the same command resumes.
    """
    robot = choose_place(robot, env)
    _require_one_place(twin, robot, config, seconds, ray)
    if engines is not None or timesteps is not None:
        if robot is not None or videos is not None or ray is not None:
            raise WrongUse(
                "--engines and --timesteps compare simulations", got="--robot, --env, --videos or --ray"
            )
        loaded = _open_policies(policies, compensate_ms, map_file, twin, None)
        cell, randomization = _load_scenes(loaded[0], twin, config)
        place = twinloop.TwinEnvironment(cell, randomization, latency=_read_latency(latency, loaded))
        evaluate_quirks(loaded, place, engines, timesteps, episodes=episodes, seed=seed, out=out, json=json)
        return
    if videos is not None and videos.exists() and not videos.is_dir():
        raise WrongUse("videos are written to a folder", got=f"the file {videos}")
    with ExitStack() as stack:
        opened = stack.enter_context(_open_robot(robot, attend, rater))
        loaded = _open_policies(policies, compensate_ms, map_file, twin, opened)
        charged = _read_latency(latency, loaded)
        kept = out
        if videos is not None and out is None:
            kept = Path(stack.enter_context(TemporaryDirectory())) / "episodes"
        with console.progress_bar("evaluating", describe=partial(_describe_share, loaded)) as progress:
            trials = {"episodes": episodes, "seed": seed, "out": kept, "on_progress": progress}
            if opened is not None:
                found = _on_robot(loaded, opened, videos is not None, until_failure, seconds, charged, trials)
            else:
                found = _in_twin(loaded, twin, config, charged, trials, ray)
        written = []
        if videos is not None and kept is not None:
            written = _write_videos(loaded, kept, twin, config, videos)
    _report(found, written, out, videos, json)
    if opened is None and not json:
        _explain_no_success(loaded, found)


def _require_one_place(
    twin: str | None, robot: str | None, config: Path | None, seconds: float | None, ray: str | None
) -> None:
    """Refuse a twin beside a robot, and options about the one for the other."""
    if twin is not None and robot is not None:
        raise WrongUse("--twin and --robot exclude each other")
    if robot is not None and ray is not None:
        raise WrongUse("--ray spreads trials in a twin; a robot is one place")
    if robot is not None and config is not None:
        raise WrongUse("--config varies a twin, not a robot", got=f"--config {config}", remedy="leave it out")
    if robot is None and seconds is not None:
        raise WrongUse("--seconds limits trials on a robot; in a twin the task's own time limit holds")
    if seconds is not None and seconds <= 0:
        raise WrongUse("--seconds must be positive", got=seconds)


@contextmanager
def _open_robot(
    address: str | None, attend: bool, rater: str
) -> Iterator[tuple[Robot, TrialSupervisor] | None]:
    """The connected robot at an address with its supervisor; None without an address."""
    if address is None:
        yield None
        return
    with supervise(address, attend, rater) as place:
        yield place


def _open_policies(
    names: list[str],
    compensate_ms: float | None,
    map_file: Path | None,
    twin: str | None,
    place: tuple[Robot, TrialSupervisor] | None,
) -> list[twinloop.PolicyLike]:
    """The policies, foreign ones for the robot or twin that they are tried on; those of one name with their ids in their names."""
    from twinloop.policies.open import is_address

    description = place[0].description if place is not None else None
    alone = len(names) == 1
    return _rename_duplicates(
        [
            load_policy(
                name,
                compensate_ms,
                interface_map=map_file if alone or is_address(name) else None,
                twin=twin,
                description=description,
            )
            for name in names
        ]
    )


def _describe_share(policies: list[twinloop.PolicyLike], seconds: float) -> str:
    """Say which share of the time foreign policies took to answer; nothing of our own."""
    asked = sum(policy.asked_s for policy in policies if isinstance(policy, twinloop.MappedPolicy))
    return f" (policy {100 * min(asked / seconds, 1.0):.0f} % of the time)" if asked and seconds > 0 else ""


def _read_latency(text: str, policies: list[twinloop.PolicyLike]) -> dict[str, Latency]:
    """The inference times to charge, by the policies' ids."""
    import json

    from twinloop.policies.latency import Latency, measure_latency

    if text == "none":
        return {}
    if text == "measured":
        return {policy.id: measure_latency(policy) for policy in policies}
    if Path(text).is_file():
        try:
            found = json.loads(Path(text).read_text())["evaluations"]
            times = {str(one["policy_id"]): tuple(map(float, one["latency_s"])) for one in found}
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise WrongUse(
                f"{text} has no inference times", expected="what `twinloop evaluate --json` prints"
            ) from error
        return {policy: Latency(own) for policy, own in times.items() if own}
    try:
        return {policy.id: Latency((1e-3 * float(text),)) for policy in policies}
    except ValueError as error:
        raise WrongUse(
            "cannot read --latency", got=text, expected="measured, none, milliseconds or a file"
        ) from error


def _rename_duplicates(policies: list[twinloop.PolicyLike]) -> list[twinloop.PolicyLike]:
    """Policies of the same name with their ids in their names, which results, folders and videos are named after."""
    from twinloop.policies.protocol import with_name

    names, ids = [policy.name for policy in policies], [policy.id for policy in policies]
    if len(set(ids)) < len(ids):
        raise WrongUse("a policy is named twice", got=", ".join(names))
    return [
        with_name(policy, f"{policy.name}-{policy.id[:6]}") if names.count(policy.name) > 1 else policy
        for policy in policies
    ]


def _in_twin(
    policies: list[twinloop.PolicyLike],
    twin: str | None,
    config: Path | None,
    latency: dict[str, Latency],
    trials: dict[str, Any],
    ray: str | None,
) -> list[twinloop.Evaluation]:
    from twinloop.executors import OnRay
    from twinloop.generation.processes import usable_cores

    cell, randomization = _load_scenes(policies[0], twin, config)
    environment = twinloop.TwinEnvironment(cell, randomization, threads=usable_cores(), latency=latency)
    environment = replace(environment, executor=None if ray is None else OnRay(ray))
    return twinloop.evaluate_in_turns(policies, environment, **trials)


def _load_scenes(
    policy: twinloop.PolicyLike, twin: str | None, config: Path | None
) -> tuple[twinloop.Twin, twinloop.Randomization | None]:
    """The twin, named or else the config's own or else the policy's, and what varies in it."""
    from twinloop.randomization import load_config_twin, load_generate_config

    if config is None:
        return load_policy_twin(policy, twin), None
    loaded = load_generate_config(config)
    declared = loaded.twin is not None or loaded.scene is not None
    cell = load_config_twin(loaded) if twin is None and declared else load_policy_twin(policy, twin)
    return cell, twinloop.load_randomization(loaded, cell)


def _on_robot(
    policies: list[twinloop.PolicyLike],
    place: tuple[Robot, TrialSupervisor],
    filmed: bool,
    until_failure: bool,
    seconds: float | None,
    latency: dict[str, Latency],
    trials: dict[str, Any],
) -> list[twinloop.Evaluation]:
    """Evaluate on a robot; stored episodes have the cameras that the policies see, and one to film."""
    from twinloop.policies.protocol import cameras_of

    opened, supervisor = place
    filming = [camera.name for camera in opened.description.cameras[: int(filmed)]]
    seen = cameras_of(*policies)
    cameras = tuple(dict.fromkeys((*seen, *filming))) if trials["out"] is not None else ()
    environment = twinloop.RobotEnvironment(
        opened, supervisor, seconds, cameras=cameras, until_failure=until_failure, latency=latency
    )
    return twinloop.evaluate_in_turns(policies, environment, **trials)


def _write_videos(
    policies: list[twinloop.PolicyLike], kept: Path, twin: str | None, config: Path | None, folder: Path
) -> list[Path]:
    """Videos of failures: from the robot's camera where it has one, else rendered in the twin."""
    from twinloop.generation.videos import record_failure_videos
    from twinloop.policies.protocol import twin_of

    written = []
    for policy in policies:
        known = twin or config or twin_of(policy)
        cell = _load_scenes(policy, twin, config)[0] if known else None
        dataset = twinloop.open_dataset(kept / policy.name if len(policies) > 1 else kept)
        written += record_failure_videos(dataset, folder, twin=cell, title=policy.name)
    return written


def _report(
    found: list[twinloop.Evaluation], written: list[Path], out: Path | None, videos: Path | None, json: bool
) -> None:
    pairs = [(found[0].policy, other.policy, twinloop.compare(found[0], other)) for other in found[1:]]
    if json:
        compared = [{"first": a, "second": b} | vars(c) for a, b, c in pairs]
        evaluations = [e.as_json() for e in found]
        console.print_json({"evaluations": evaluations, "pairs": compared, "videos": written})
        return
    columns = ("policy", "where", "episodes", "success, 95 % interval", "failures", "failed in phase")
    console.print_table(columns, [_row(one) for one in found])
    for first, second, pair in pairs:
        console.out.print(
            f"{first} minus {second}: {100 * pair.difference:+.1f} points in the same scenes "
            f"({pair.only_first} only the first, {pair.only_second} only the second; p = {pair.p_value:.2g})"
        )
    for one in found:
        if one.repeated:
            console.out.print(
                f"{one.policy}: {console.count(len(one.repeated), 'void trial')} repeated and kept apart "
                f"({', '.join(dict.fromkeys(one.repeated))})"
            )
        if one.interventions:
            did = ", ".join(f"{kind} {count}" for kind, count in one.interventions.items())
            trials = sum(bool(trial.interventions) for trial in one.trials)
            console.out.print(
                f"{one.policy}: the safety envelope intervened in {trials} of {len(one.trials)} trials ({did})"
            )
    if out is not None:
        console.out.print(f"stored {sum(len(one.trials) for one in found)} episodes in {out}")
    if videos is not None:
        console.out.print(f"wrote {console.count(len(written), 'video')} of failures to {videos}")


def _explain_no_success(policies: list[twinloop.PolicyLike], found: list[twinloop.Evaluation]) -> None:
    """Say what to look at where a foreign policy never succeeded in a twin."""
    from twinloop.policies.mapping.mapped import explain_no_success

    for policy, one in zip(policies, found, strict=True):
        if one.judged and not one.successes and (why := explain_no_success(policy)):
            console.out.print(why)


def _row(found: twinloop.Evaluation) -> tuple[object, ...]:
    rate = found.interval()
    where = f"stand-in {found.where.removeprefix('standin-')}" if found.standin else found.where
    success = f"{100 * rate.value:.1f} % [{100 * rate.low:.1f}, {100 * rate.high:.1f}]"
    unknown = len(found.trials) - len(found.judged)
    if found.void:
        success += f"; {len(found.void)} void: {found.void[0].void}"
        unknown -= len(found.void)
    if unknown:
        success = f"{success if found.judged else 'unknown'}; {unknown} not judged"
    reasons, phases = (
        ", ".join(f"{name} {count}" for name, count in counts.items()) or "-"
        for counts in (found.failures, found.failed_in)
    )
    return found.policy, where, len(found.trials), success, reasons, phases
