"""`twinloop twin ...`: list, show and compare twins."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

import twinloop
from twinloop.cli import console
from twinloop.cli.options import Json, WorkspaceFolder, split_episode
from twinloop.cli.places import find_twin, find_workspace, load_twin, require_workspace
from twinloop.errors import UnknownName, WrongUse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from twinloop.workspace import Workspace

Candidate = Annotated[Path, Argument(metavar="FOLDER", help="What `twinloop identify` wrote.")]
By = Annotated[str, Option(metavar="NAME", help="Who decides; stored in the history.")]
Reason = Annotated[str, Option(help="Reason; stored in the history.")]

app = typer.Typer(
    help="List, show and compare twins: robot cells with named parameters.", no_args_is_help=True
)


@app.command("ls")
def list_(json: Json = False) -> None:
    """List the built-in twins and those of plug-ins."""
    from twinloop.twins import list_twins

    twins = list_twins()
    if json:
        shown = ("name", "version", "robot", "task", "content_hash", "description")
        counts = [{"parameters": len(t.parameters), "cameras": [c.name for c in t.cameras]} for t in twins]
        console.print_json([_select(t, shown) | count for t, count in zip(twins, counts, strict=True)])
        return
    console.print_table(
        ("twin", "parameters", "cameras", "description"),
        [
            (t.name, len(t.parameters), ", ".join(c.name for c in t.cameras) or "none", t.description)
            for t in twins
        ],
    )


@app.command()
def show(
    twin: Annotated[
        str | None,
        Argument(
            metavar="NAME|FOLDER",
            help="A twin; default: the workspace's. `twinloop twin ls` lists built-in ones.",
        ),
    ] = None,
    dimension: Annotated[str | None, Option(help="Only parameters of this gap dimension.")] = None,
    joint: Annotated[str | None, Option(help="Only parameters of this joint, each with its bounds.")] = None,
    json: Json = False,
) -> None:
    """Show a twin: its rates and cameras, and every parameter with nominal value, bounds, unit and dimension.

    A parameter that several joints have is one row, <joint>_..., with the values in the order of the joints.
    """
    from twinloop.twins import DIMENSIONS
    from twinloop.twins.joint_parameters import group_by_joint, list_joints

    if dimension is not None and dimension not in DIMENSIONS:
        raise UnknownName("gap dimension", dimension, DIMENSIONS)
    found = _load_shown(twin)
    joints = list_joints(found)
    if joint is not None and joint not in joints:
        raise UnknownName(f"joint of twin {found.name}", joint, joints)
    parameters = [p for p in found.parameters if dimension in (None, p.dimension)]
    groups = group_by_joint(found, parameters)
    if joint is not None:
        groups = [{joint: group[joint]} for group in groups if joint in group]
        parameters = [one for group in groups for one in group.values()]
    if json:
        console.print_json(_as_json(found, parameters))
        return
    _print_twin(found, joints)
    for name in DIMENSIONS:
        _print_dimension(name, [g for g in groups if next(iter(g.values())).dimension == name], joints)


def _load_shown(twin: str | None) -> twinloop.Twin:
    """The twin that is named, or the workspace's."""
    workspace = find_workspace() if twin is None else None
    if twin is None and (workspace is None or workspace.twin is None):
        raise WrongUse("no twin is named", remedy="name one; `twinloop twin ls` lists the built-in ones")
    return load_twin(twin, workspace)


def _print_dimension(
    name: str, groups: Sequence[Mapping[str, twinloop.Parameter]], joints: Sequence[str]
) -> None:
    """The parameters of one gap dimension, a row for those that several joints have."""
    if groups:
        console.out.print(f"\n{name}", style="bold")
        columns = ("parameter", "nominal", "bounds", "description")
        console.print_table(columns, sorted(_row(group, joints) for group in groups))


def _print_twin(twin: twinloop.Twin, joints: Sequence[str]) -> None:
    """Print what a twin is, without its parameters."""
    console.out.print(
        f"{twin.name}, version {twin.version}, hash {twin.content_hash}\n{twin.description}\n"
        f"robot {twin.robot or 'unnamed'}, task {twin.task or 'none'}, control {twin.control_hz:g} Hz, "
        f"physics {twin.physics_dt_s * 1000:g} ms"
    )
    console.print_lines(f"camera {camera.name}: {camera.height}x{camera.width}" for camera in twin.cameras)
    if joints:
        console.out.print(f"joints {', '.join(joints)}")


def _row(group: Mapping[str, twinloop.Parameter], joints: Sequence[str]) -> tuple[str, str, str, str]:
    """One parameter, or the same one of several joints: their values in the joints' order, - where one has none."""
    first = next(iter(group.values()))
    if len(group) == 1:
        return first.name, _value(first.nominal), _bounds(first), _described(first)
    from twinloop.twins.joint_parameters import describe_group, name_group

    values = [_value(group[joint].nominal) if joint in group else "-" for joint in joints]
    shown = values[0] if len(set(values)) == 1 else " ".join(values)
    low, high = (pick(p.bounds[end] for p in group.values()) for end, pick in ((0, min), (1, max)))
    unit = "" if first.unit in ("", "1") else f", {first.unit}"
    return name_group(group), shown, f"{low:g} to {high:g}", f"{describe_group(group)}{unit}"


def _as_json(twin: twinloop.Twin, parameters: Sequence[twinloop.Parameter]) -> dict[str, Any]:
    rows = [
        _select(p, ("name", "nominal", "choices", "unit", "dimension", "stage", "description"))
        | {"bounds": None if p.choices else p.bounds}
        for p in parameters
    ]
    shown = _select(twin, ("name", "version", "content_hash", "parent", "control_hz", "physics_dt_s"))
    cameras = [asdict(camera) for camera in twin.cameras]
    return shown | {"cameras": cameras, "roles": dict(twin.roles), "parameters": rows}


def _select(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


@app.command()
def export(
    out: Annotated[Path, Argument(metavar="DIR", help="The folder to write.")],
    to: Annotated[
        str,
        Option(
            help="lerobot-env: a package for lerobot-eval; vla-eval: a config for vla-eval run; isaaclab, maniskill, mjlab, "
            "playground: code that draws the randomization there; mjcf, urdf, usd: one model with the twin's values."
        ),
    ],
    twin: Annotated[
        str | None,
        Option(metavar="NAME|FOLDER", help="The twin; default: the config's, or the workspace's."),
    ] = None,
    config: Annotated[
        Path | None,
        Option(
            help="What varies in the twin, as `twinloop anchor` writes it; default: the training scenes, and for code the "
            "default randomization."
        ),
    ] = None,
    cameras: Annotated[str, Option(metavar="NAME,...", help="Cameras that policies see.")] = "",
    json: Json = False,
) -> None:
    """Write a twin for other people's evaluators, as a model for other programs, or its randomization as code for simulators.

    What the other program cannot express is listed, and written into the head of the code.
    """
    from twinloop.randomization import load_config_twin, load_generate_config

    found = (
        load_config_twin(load_generate_config(config))
        if twin is None and config
        else load_twin(twin, find_workspace())
    )
    names = [name for name in cameras.split(",") if name]
    written = twinloop.export_twin(found, to, out, randomization=config, cameras=names)
    lines = [f"left out: {one.name}: {one.reason}" for one in written.left_out]
    lines.append(f"wrote {found.name} for {to} to {out}")
    value = {
        "twin": found.name,
        "to": to,
        "out": out,
        "left_out": [asdict(one) for one in written.left_out],
    }
    console.print_result(json, value, "\n".join(lines))


@app.command()
def draw(
    twin: Annotated[
        str | None, Argument(metavar="FOLDER", help="A twin of the workspace; default: the current one.")
    ] = None,
    source: Annotated[
        str,
        Option(
            "--from",
            metavar="SOURCE",
            help="nominal, posterior, default, training, or a config of the workspace; 'list' lists them.",
        ),
    ] = "default",
    number: Annotated[int, Option(help="Which sample or draw.")] = 0,
    seed: Annotated[int, Option(help="Random seed for the draws.")] = 0,
    json: Json = False,
) -> None:
    """Print one set of values of a twin's parameters: a sample of its posterior, or a draw of a randomization."""
    from twinloop.twin_values import find_value_sources, read_values

    workspace = require_workspace()
    if twin is None and workspace.twin is None:
        raise WrongUse("no twin is named", remedy="twinloop twin draw FOLDER")
    place = workspace.twin if twin is None else _place(workspace, Path(twin))
    assert place is not None
    if source == "list":
        found = find_value_sources(workspace, place)
        columns = ("source", "kind", "sets", "about")
        console.print_list(json, found, columns, lambda s: (s.name, s.kind, s.count, s.about), "no sources")
        return
    values = read_values(workspace, place, source, number, seed)
    if json:
        console.print_json({"twin": place, "from": source, "number": number, "values": values})
        return
    cell = twinloop.load_twin(workspace.root / place)
    rows = [
        (name, cell.parameter(name).format(value), cell.parameter(name).format(cell.parameter(name).nominal))
        for name, value in values.items()
    ]
    console.print_table(("parameter", "value", "nominal"), rows)


@app.command()
def explain(
    twin: Annotated[Path, Argument(metavar="FOLDER", help="What `twinloop identify` wrote.")],
    json: Json = False,
) -> None:
    """Say in sentences what an identification tells about each parameter."""
    from twinloop.identification.words import explain_estimate

    found = twinloop.load_identification(twin)
    said = {name: explain_estimate(found, name) for name in found.names}
    console.print_result(json, said, lambda: console.print_lines(f"{n}: {text}" for n, text in said.items()))


@app.command()
def scene(
    out: Annotated[Path, Option("--out", metavar="FILE.json", help="The file to write.")],
    twin: Annotated[
        str | None,
        Argument(metavar="NAME|FOLDER", help="A twin; default: the episode's, or the workspace's."),
    ] = None,
    episode: Annotated[
        str | None,
        Option(
            metavar="DATASET#NUMBER",
            help="Also write how the bodies moved in this episode, and in the twin's replay of it.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Write a twin's shapes, materials, lights and cameras as JSON, for viewers that draw by themselves."""
    from twinloop.generation.motion import compare_motion, find_episode_twin, write_scene

    workspace = find_workspace()
    if episode is None:
        cell, motion = load_twin(twin, workspace), None
    else:
        folder, number = split_episode(episode)
        dataset = twinloop.open_dataset(folder)
        found = dataset.episode(number)
        own = found.provenance.source == "sim" and twin is None
        cell = find_episode_twin(dataset, found) if own else load_twin(twin, workspace)
        motion = compare_motion(found, cell)
    written = write_scene(out, cell, motion)
    value = {"out": out, "twin": cell.name, "version": cell.version, "shapes": len(written.shapes)}
    if motion is not None and motion.replayed is None:
        console.print_lines([f"no replay: {motion.reason}"] if not json else [])
    console.print_result(json, value, f"wrote {cell.name}, version {cell.version}, to {out}")


@app.command()
def versions(workspace: WorkspaceFolder = Path(), json: Json = False) -> None:
    """List the twin versions of a workspace: when each became current, candidates that wait, and rejected ones."""
    from twinloop.twin_versions import list_twin_versions, twin_history

    found = require_workspace(workspace)
    uses, known = twin_history(found), list_twin_versions(found)
    if json:
        rejected = [one.twin for one in known if one.state == "rejected"]
        every = [asdict(one) for one in known]
        console.print_json(
            {"history": [asdict(use) for use in uses], "rejected": rejected, "versions": every}
        )
        return
    console.print_table(
        ("since", "twin", "version", "by", "reason"),
        [(use.at, use.twin, use.version, use.by or "-", use.reason) for use in uses],
    )
    for one in known:
        by = f" by {one.by}" if one.by else ""
        if one.state in ("candidate", "rejected"):
            console.out.print(f"{one.state}{by}: {one.twin}, version {one.version}: {one.reason}")


@app.command()
def accept(
    candidate: Candidate,
    by: By,
    reason: Reason,
    override: Annotated[
        bool, Option("--override", help="Accept a candidate that held-out replay rejected.")
    ] = False,
    json: Json = False,
) -> None:
    """Make an identified candidate the current twin: `twinloop identify --candidate` leaves that to a person."""
    from twinloop.twin_versions import accept_twin

    workspace = require_workspace()
    use = accept_twin(workspace, _place(workspace, candidate), reason, by, override=override)
    console.print_result(json, asdict(use), f"current: {use.twin}, version {use.version}")


@app.command()
def reject(candidate: Candidate, by: By, reason: Reason, json: Json = False) -> None:
    """Decide against an identified candidate; if it is current, the twin before it becomes current again."""
    from twinloop.twin_versions import reject_twin

    workspace = require_workspace()
    made = reject_twin(workspace, _place(workspace, candidate), reason, by)
    console.print_result(json, asdict(made), f"rejected: {made.twin}, version {made.version}")


@app.command()
def compare(
    first: Annotated[str, Argument(metavar="NAME|FOLDER", help="A twin.")],
    second: Annotated[str, Argument(metavar="NAME|FOLDER", help="Another version of it.")],
    json: Json = False,
) -> None:
    """Show the parameters whose nominal values differ between two versions of a twin."""
    from twinloop.twins import compare_twins

    rows = compare_twins(find_twin(first), find_twin(second))
    columns, none = (
        ("parameter", "first", "second", "unit", "dimension"),
        "the twins have the same nominal values",
    )
    console.print_list(
        json, rows, columns, lambda r: (r.name, _value(r.first), _value(r.second), r.unit, r.dimension), none
    )


@app.command()
def rollback(
    reason: Annotated[str, Option(help="Reason; stored in the history.")],
    by: Annotated[str, Option(metavar="NAME", help="Who decides; stored in the history.")] = "",
    workspace: WorkspaceFolder = Path(),
    json: Json = False,
) -> None:
    """Make the previous twin current again."""
    from twinloop.twin_versions import roll_back_twin

    use = roll_back_twin(require_workspace(workspace), reason, by)
    console.print_result(json, asdict(use), f"current again: {use.twin}, version {use.version}")


def _place(workspace: Workspace, folder: Path) -> str:
    """A folder as it is seen from the workspace."""
    found, root = folder.resolve(), workspace.root.resolve()
    if not found.is_relative_to(root):
        raise WrongUse(
            "the candidate lies outside the workspace", got=str(folder), expected=f"a folder in {root}"
        )
    return str(found.relative_to(root))


def _value(value: float | str | None) -> str:
    if value is None:
        return "absent"
    return value if isinstance(value, str) else f"{value:g}"


def _described(parameter: Any) -> str:
    """Description and unit."""
    unit = "" if parameter.unit in ("", "1") else f", {parameter.unit}"
    return f"{parameter.description}{unit}"


def _bounds(parameter: Any) -> str:
    if parameter.choices:
        return " | ".join(parameter.choices)
    low, high = parameter.bounds
    return f"{low:g} to {high:g}"
