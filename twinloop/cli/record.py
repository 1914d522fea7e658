"""`twinloop record` and `twinloop standin`: record a robot; serve a stand-in for reality."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

import twinloop
from twinloop.cli import console
from twinloop.cli.attend import RATER, Attend, Rater, alone, is_person, page_is_open, supervise
from twinloop.cli.options import Json, PolicyMap, RobotUrl
from twinloop.cli.places import find_twin, load_policy
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.robots.controllers import Controller
    from twinloop.robots.protocol import Description, TrialSupervisor

EXCITATION_S = 10.0
"""Default duration of an excitation run."""

Expert = Annotated[
    str | None, Option(metavar="NAME", help="A scripted expert acts; 'task' selects the task's own.")
]
Excitation = Annotated[
    str | None,
    Option(
        metavar="SIGNAL,...",
        help="Excite the joints for identification: chirp, multisine, prbs or waypoints; several take turns.",
    ),
]
MotionFile = Annotated[
    Path | None, Option(metavar="FILE", help="Play back a motion, for example from `twinloop excite`.")
]
Operator = Annotated[
    str | None, Option(metavar="PSEUDONYM", help="A person demonstrates; never give a real name.")
]
PolicyName = Annotated[
    str | None,
    Option(
        help="A policy acts: its folder, name, address or map, or its alias in the registry, such as champion."
    ),
]
ShadowName = Annotated[
    str | None,
    Option(
        metavar="POLICY",
        help="With --policy: also run this policy without acting; its proposals go to OUT.shadow.jsonl.",
    ),
]
TwinName = Annotated[
    str | None, Option(metavar="NAME|FOLDER", help="The robot's twin; default: as the robot declares.")
]
Site = Annotated[str | None, Option(help="Where the robot stands; default: as the robot declares.")]
Consent = Annotated[str | None, Option(help="Consent record of the operator.")]

Reality = Annotated[
    str, Option(metavar="NAME|FILE.yaml", help="A shipped reality, or your own reality file.")
]
Lockstep = Annotated[
    bool, Option("--lockstep/--realtime", help="Advance time with each command, or by the clock.")
]
ListEffects = Annotated[
    bool, Option("--list-effects", help="List every key of a reality file with unit and range.")
]


def record(
    robot: RobotUrl,
    out: Annotated[Path, Option(help="The dataset; an existing one is appended to.")],
    episodes: Annotated[int, Option(help="Number of episodes.")] = 10,
    expert: Expert = None,
    excite: Excitation = None,
    motion: MotionFile = None,
    operator: Operator = None,
    policy: PolicyName = None,
    shadow: ShadowName = None,
    map_file: PolicyMap = None,
    camera: Annotated[list[str] | None, Option(help="Record this camera; repeatable.")] = None,
    seconds: Annotated[float | None, Option(help="Time limit of an episode; default: the task's.")] = None,
    first: Annotated[int, Option(help="Number of the first episode; the scene depends on it.")] = 0,
    task: Annotated[str | None, Option(help="Task instruction; default: the twin's task.")] = None,
    twin: TwinName = None,
    site: Site = None,
    consent: Consent = None,
    reconnects: Annotated[int, Option(help="Attempts to reconnect after the robot is lost.")] = 3,
    attend: Attend = False,
    rater: Rater = RATER,
    json: Json = False,
) -> None:
    """Record episodes from a robot while an expert, an excitation signal, an operator or a policy acts.

    With a person beside the robot, the same command resumes: it records the episodes that are missing.
    """
    from twinloop.robots.record import Station
    from twinloop.supervision.series import record_attended

    _require_one_actor(policy, shadow, expert, excite, motion, operator)
    signal = f"motion:{motion}" if motion is not None else excite
    is_trial = signal is None or attend or page_is_open()  # an excitation has no scene and no outcome
    with (
        supervise(robot, attend, rater) if is_trial else alone(robot) as (opened, supervisor),
        console.progress_bar("recording") as progress,
    ):
        cell, instruction, time_limit_s = _load_task(opened.description, twin, motion, excite)
        time_limit_s = seconds or time_limit_s
        if policy is not None:
            controller = _make_policy_controller(policy, shadow, map_file, opened.description, task)
        else:
            controller = _make_controller(cell, supervisor, signal or expert, operator, time_limit_s)
        spec = twinloop.RecordingSpec(
            episodes, time_limit_s, task=task or instruction, cameras=tuple(camera or ()), first=first, site=site,
            operator=operator, consent=consent, judged=signal is None, reconnects=reconnects,
        )  # fmt: skip
        watch: dict[str, Any] = {"on_progress": progress, "log": console.log}
        if is_person(supervisor):
            dataset = record_attended(Station(opened, controller, supervisor), out, spec, supervisor, **watch)
        else:
            dataset = twinloop.record(opened, controller, out, spec, supervisor=supervisor, **watch)
        description = opened.description
    if shadow is not None:
        _save_shadow(controller, out)
    _print_recording(dataset, description, episodes, signal is None, json)


def standin(
    reality: Reality = "",
    twin: Annotated[str | None, Option(help="The twin to build; default: the reality's.")] = None,
    socket: Annotated[Path | None, Option(help="Serve at this Unix socket.")] = None,
    port: Annotated[int | None, Option(help="Serve at this port of 127.0.0.1; 0 picks one.")] = None,
    lockstep: Lockstep = False,
    list_shipped: Annotated[bool, Option("--list", help="List the shipped stand-ins.")] = False,
    list_effects: ListEffects = False,
    json: Json = False,
) -> None:
    """Serve a stand-in for reality: the twin's cell in another physics engine, with effects the twin does not model."""
    if list_shipped:
        _print_realities(json)
        return
    if list_effects:
        _print_effects(json)
        return
    os.environ.setdefault("MUJOCO_GL", "egl")  # read by MuJoCo when it is imported
    from twinloop.robots.standin.reality import list_realities
    from twinloop.robots.standin.run import serve_reality

    if not reality:
        example = "twinloop standin --reality mild --port 4750"
        raise WrongUse("no reality given", available=list_realities(), remedy=example)
    if (socket is None) == (port is None):
        raise WrongUse("no address to listen at", expected="either --socket PATH or --port NUMBER")

    def on_ready(url: str) -> None:
        text = f"stand-in ready at {url} (Ctrl-C to stop); try: twinloop record --robot {url} ..."
        console.print_result(json, {"robot": url, "lockstep": lockstep}, text)

    address: str | int = str(socket) if socket is not None else int(port or 0)
    serve_reality(reality, twin=twin, address=address, lockstep=lockstep, on_ready=on_ready)


def _require_one_actor(policy: str | None, shadow: str | None, *others: object) -> None:
    if sum(choice is not None for choice in (policy, *others)) != 1:
        raise WrongUse(
            "choose what controls the robot",
            expected="one of --expert NAME, --excite SIGNAL, --motion FILE, --operator PSEUDONYM, --policy POLICY",
        )
    if shadow is not None and policy is None:
        raise WrongUse("--shadow needs a policy that acts", remedy="--policy POLICY --shadow POLICY")


def _load_task(
    description: Description, twin: str | None, motion: Path | None, excite: str | None
) -> tuple[twinloop.Twin, str, float]:
    """The robot's twin, the task instruction, and the time limit of an episode."""
    from twinloop.tasks import make_task

    name = twin or description.twin
    if name is None:
        raise WrongUse("the robot does not declare a twin", remedy="--twin NAME")
    loaded = find_twin(name)
    if description.twin_hash and loaded.content_hash != description.twin_hash:
        raise WrongUse(
            f"the robot's twin {name!r} differs from the one installed here", remedy="--twin FOLDER"
        )
    if motion is not None or excite is not None:
        seconds = twinloop.load_motion(motion).duration_s if motion is not None else EXCITATION_S
        return loaded, "Follow the excitation signal.", seconds
    task = make_task(loaded.task, loaded)
    return loaded, task.text, task.time_limit_s


def _make_controller(
    twin: twinloop.Twin,
    supervisor: TrialSupervisor | None,
    expert: str | None,
    operator: str | None,
    time_limit_s: float,
) -> Controller:
    if operator is not None and supervisor is not None:
        return twinloop.OperatorController(supervisor, operator)
    name = twin.task if expert in (None, "task") else str(expert)
    return twinloop.ExpertController(twin, name if ":" in name else name.split(","), time_limit_s)


def _make_policy_controller(
    policy: str, shadow: str | None, map_file: Path | None, description: Description, task: str | None
) -> Controller:
    from twinloop.policies.act import PolicyController

    opened = load_policy(policy, interface_map=map_file, description=description)
    acting = PolicyController(opened, description, task=task)
    if shadow is None:
        return acting
    from twinloop.promotion.release import ShadowController

    watching = load_policy(shadow, description=description)
    return ShadowController(acting, PolicyController(watching, description, task=task), description)


def _save_shadow(controller: Controller, out: Path) -> None:
    from twinloop.promotion.release import ShadowController, save_shadow

    assert isinstance(controller, ShadowController)
    save_shadow(controller.finish(), out.with_name(f"{out.name}.shadow.jsonl"))


def _print_recording(
    dataset: twinloop.Dataset, description: Description, episodes: int, judged: bool, json: bool
) -> None:
    recorded = [dataset.episode(number) for number in dataset.numbers[-episodes:]]
    successes = sum(episode.success is True for episode in recorded)
    failures = sum(episode.success is False for episode in recorded)
    rows = sum(len(episode) for episode in recorded)
    value: dict[str, Any] = {"episodes": episodes, "successes": successes, "failures": failures, "rows": rows}
    value |= {"out": dataset.root, "standin": description.standin}
    outcome = f", {successes} succeeded, {failures} failed" if judged else ""
    text = (
        f"recorded {console.count(episodes, 'episode')}, {console.count(rows, 'row')}{outcome} "
        f"on {'stand-in' if description.standin else 'robot'} {description.serial} -> {dataset.place}"
    )
    console.print_result(json, value, text)


def _print_realities(json: bool) -> None:
    from twinloop.robots.standin.reality import list_realities, load_reality

    descriptions = {name: load_reality(name).description for name in list_realities()}
    value = [{"name": name, "description": text} for name, text in descriptions.items()]
    rows, columns = list(descriptions.items()), ("reality", "description")
    console.print_result(json, value, lambda: console.print_table(columns, rows))


def _print_effects(json: bool) -> None:
    from twinloop.robots.standin.effects import list_effects

    effects = list_effects()
    if json:
        console.print_json(effects)
        return
    rows = []
    for effect in effects:
        span = "-" if effect["low"] is None else f"{effect['low']:g} to {effect['high']:g}"
        key = f"{effect['block']}.{effect['key']}"
        rows.append((key, effect["unit"], span, effect["default"], effect["meaning"]))
    console.print_table(("key", "unit", "range", "default", "meaning"), rows)
