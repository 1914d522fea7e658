"""`twinloop standin` and `twinloop record`: a stand-in for reality, and recordings of robots."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.episode import Outcome
    from twinloop.robots.controllers import Controller
    from twinloop.robots.protocol import Description, Robot, TrialSupervisor


def standin(
    reality: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE.yaml", help="What the stand-in is really like: a shipped name, or your file."
        ),
    ] = "",
    twin: Annotated[
        str | None, typer.Option(help="The twin whose cell to build; default: the reality's.")
    ] = None,
    socket: Annotated[Path | None, typer.Option(help="Serve at this Unix socket.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Serve at this port of 127.0.0.1; 0 picks a free one.")
    ] = None,
    lockstep: Annotated[
        bool, typer.Option("--lockstep/--realtime", help="Time passes with each command, or by the clock.")
    ] = False,
    list_shipped: Annotated[
        bool, typer.Option("--list", help="Print the shipped ones, and what each is about.")
    ] = False,
    list_effects: Annotated[
        bool, typer.Option("--list-effects", help="Print every key of a reality file with unit and range.")
    ] = False,
    json: Json = False,
) -> None:
    """Serve a stand-in for reality: the twin's cell in another engine, with effects the twin does not model."""
    if list_shipped:
        from twinloop.robots.standin.reality import list_realities, load_reality

        about = {name: load_reality(name).description for name in list_realities()}
        if json:
            console.print_json([{"name": name, "description": text} for name, text in about.items()])
        else:
            console.print_table(("reality", "what it is about"), list(about.items()))
        return
    if list_effects:
        from twinloop.robots.standin.effects import list_effects as listed

        rows = listed()
        if json:
            console.print_json(rows)
        else:
            console.print_table(
                ("key", "unit", "range", "default", "meaning"),
                [
                    (
                        f"{row['block']}.{row['key']}",
                        row["unit"],
                        "-" if row["low"] is None else f"{row['low']:g} to {row['high']:g}",
                        row["default"],
                        row["meaning"],
                    )
                    for row in rows
                ],
            )
        return
    from twinloop.robots.standin.reality import list_realities
    from twinloop.robots.standin.run import serve_reality

    if not reality:
        raise WrongUse(
            "which reality?", available=list_realities(), remedy="twinloop standin --reality mild --port 4750"
        )
    if (socket is None) == (port is None):
        raise WrongUse("where should it listen?", expected="--socket PATH or --port NUMBER, one of them")

    def ready(where: str) -> None:
        if json:
            console.print_json({"robot": where, "lockstep": lockstep})
        else:
            console.out.print(f"stand-in ready: twinloop record --robot {where} ...  (Ctrl-C ends it)")

    address: str | int = str(socket) if socket is not None else int(port or 0)
    serve_reality(reality, twin=twin, address=address, lockstep=lockstep, ready=ready)


def record(
    robot: Annotated[
        str, typer.Option(help="standin:NAME, unix:PATH, tcp:HOST:PORT, or a plug-in's scheme.")
    ],
    out: Annotated[Path, typer.Option(help="The dataset; one that is there is appended to.")],
    episodes: Annotated[int, typer.Option(help="How many episodes.")] = 10,
    expert: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A scripted expert acts; 'task' is the one for the robot's task."),
    ] = None,
    excite: Annotated[
        str | None,
        typer.Option(metavar="SIGNAL", help="chirp, multisine, prbs or waypoints: for identification."),
    ] = None,
    motion: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Play a motion, such as one that `twinloop excite` designed."),
    ] = None,
    operator: Annotated[
        str | None, typer.Option(metavar="PSEUDONYM", help="A person demonstrates; never a real name.")
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            help="A trained policy acts; its folder or name, or what it is in the registry, such as champion."
        ),
    ] = None,
    shadow: Annotated[
        Path | None,
        typer.Option(
            metavar="POLICY",
            help="With --policy: this one runs beside and does not act; see OUT.shadow.jsonl.",
        ),
    ] = None,
    camera: Annotated[
        list[str] | None, typer.Option(help="Record this camera; may be given several times.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Longest an episode may take.")] = None,
    first: Annotated[int, typer.Option(help="Number of the first episode, which sets the scene.")] = 0,
    task: Annotated[str | None, typer.Option(help="The task in words; default: the twin's.")] = None,
    twin: Annotated[str | None, typer.Option(help="The robot's twin, where the robot does not say.")] = None,
    site: Annotated[str | None, typer.Option(help="Where the robot stands.")] = None,
    consent: Annotated[
        str | None, typer.Option(help="Consent record of the person who demonstrates.")
    ] = None,
    reconnects: Annotated[int, typer.Option(help="How often to try to reach a robot that was lost.")] = 3,
    json: Json = False,
) -> None:
    """Record episodes from a robot: an expert, a signal, a person or a policy acts, and somebody says how it went."""
    from twinloop.robots import open_robot
    from twinloop.robots.protocol import TrialSupervisor, connected
    from twinloop.robots.record import Plan
    from twinloop.robots.record import record as run

    if sum(choice is not None for choice in (expert, excite, motion, operator, policy)) != 1:
        raise WrongUse(
            "who acts?",
            expected="one of --expert NAME, --excite SIGNAL, --motion FILE, --operator PSEUDONYM, --policy POLICY",
        )
    if shadow is not None and policy is None:
        raise WrongUse("a shadow runs beside a policy", remedy="--policy POLICY --shadow POLICY")
    exciting_s = 10.0 if excite else None
    if motion is not None:
        from twinloop.experts import load_motion

        exciting_s, excite = load_motion(motion).duration_s, f"motion:{motion}"
    opened = open_robot(robot)
    with connected(opened), console.progress_bar("recording") as progress:
        description = opened.description
        supervisor = opened if isinstance(opened, TrialSupervisor) else Person()
        found, words, time_limit_s = _task(description, twin)
        time_limit_s = seconds or exciting_s or time_limit_s
        if policy is not None:
            controller = _policy(policy, description)
            if shadow is not None:
                from twinloop.promotion.release import ShadowController

                controller = ShadowController(controller, _policy(shadow, description), description)
        else:
            controller = _controller(found, supervisor, expert, excite, operator, time_limit_s)
        plan = RecordingSpec(
            episodes=episodes,
            time_limit_s=time_limit_s,
            task=task or ("Follow the excitation signal." if excite else words),
            cameras=tuple(camera or ()),
            first=first,
            site=site,
            operator=operator,
            consent=consent,
            judged=excite is None,
            reconnects=reconnects,
        )
        done = run(
            opened,
            controller,
            out,
            plan,
            supervisor=supervisor,
            progress=progress,
            tell=lambda line: console.err.print(line, markup=False),
        )
    if shadow is not None:
        from twinloop.promotion.release import ShadowController, save_shadow

        assert isinstance(controller, ShadowController)
        save_shadow(controller.finish(), out.with_name(f"{out.name}.shadow.jsonl"))
    kind = "stand-in" if description.standin else "robot"
    if json:
        console.print_json(asdict(done) | {"out": str(out), "standin": description.standin})
    else:
        judged = f", {done.successes} succeeded, {done.failures} failed" if not excite else ""
        console.out.print(
            f"{kind} {description.serial}: {console.count(done.episodes, 'episode')}, "
            f"{console.count(done.rows, 'row')}{judged} -> {out}"
        )
        if done.reason:
            console.err.print(
                f"{done.reason}; {done.episodes} of {episodes} episodes are safe in {out}", markup=False
            )
    if done.reason:
        raise typer.Exit(1)


class Person:
    """Whoever sits at the terminal: asked to set the scene and to say how it went."""

    def prepare(self, number: int) -> None:
        """Wait until the scene is set."""
        typer.prompt(
            f"episode {number}: set the scene, then press Enter", default="", show_default=False, err=True
        )

    def steer(self) -> Any:
        """A keyboard is no leader arm."""
        raise WrongUse(
            "this robot has no leader arm", remedy="record its own teleoperation and ingest the log"
        )

    def judge(self, over: bool = False) -> Outcome:
        """Asked once, when the episode is over."""
        from twinloop.episode import Outcome

        if not over:
            return Outcome()
        said = typer.prompt("did it succeed? y, n, or ? for unknown", default="?", err=True).strip().lower()
        return Outcome({"y": True, "n": False}.get(said[:1]))


def _task(description: Description, twin: str | None) -> tuple[Any, str, float]:
    """The robot's twin, its task in words, and how long an episode may take."""
    from twinloop.tasks import make_task
    from twinloop.twins import load_twin

    name = twin or description.twin
    if name is None:
        raise WrongUse("the robot does not say which twin it has", remedy="--twin NAME")
    found = load_twin(name)
    if description.twin_hash and found.content_hash != description.twin_hash:
        raise WrongUse(
            f"the robot's twin {name!r} is another version than the one here", remedy="--twin FOLDER"
        )
    made = make_task(found.task, found)
    return found, made.text, made.time_limit_s


def _policy(policy: Path, description: Description) -> Controller:
    from twinloop.cli.policy import policy_path
    from twinloop.cli.registry import open_registry
    from twinloop.cli.train import TRACKING
    from twinloop.policies.act import PolicyController
    from twinloop.policies.policy import load_policy
    from twinloop.promotion.registry import NOBODY

    place = policy_path(policy)
    if str(policy) in NOBODY and not place.exists():
        registry = open_registry(tracking=os.environ.get(TRACKING))
        return PolicyController(registry.policy(str(policy)), description)
    return PolicyController(load_policy(place), description)


def _controller(
    twin: Any,
    supervisor: TrialSupervisor | Robot,
    expert: str | None,
    excite: str | None,
    operator: str | None,
    time_limit_s: float,
) -> Controller:
    from twinloop.robots.controllers import ExpertController, OperatorController
    from twinloop.robots.protocol import TrialSupervisor as Whoever

    if operator is not None:
        assert isinstance(supervisor, Whoever)
        return OperatorController(supervisor, operator)
    if excite is not None:
        return ExpertController(twin, excite, time_limit_s)
    return ExpertController(twin, twin.task if expert in (None, "task") else str(expert), time_limit_s)
