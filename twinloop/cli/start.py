"""`twinloop init`, `doctor` and `status`: make a workspace, check the machine, show the next step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

import twinloop
from twinloop.cli import console
from twinloop.cli.options import Json
from twinloop.cli.places import require_workspace
from twinloop.errors import WrongUse

CellTwin = Annotated[
    str | None,
    Option(metavar="NAME|FOLDER", help="The cell's twin; `twinloop twin ls` lists built-in ones."),
]
Model = Annotated[Path | None, Option(metavar="FILE", help="Or your own robot: an MJCF or URDF file.")]
AngleUnit = Annotated[
    str | None, Option(metavar="radian|degree", help="Unit of angles in an MJCF; default: as the file says.")
]
Servos = Annotated[
    bool,
    Option(
        "--servos",
        help="Put position servos in place of torque motors and unstable servos; gains follow from inertia and weight.",
    ),
]
Driver = Annotated[
    bool,
    Option(
        "--driver",
        help="Write a driver for your robot into driver/, with its test; it runs on a loopback at once.",
    ),
]
LightMeshes = Annotated[
    bool, Option("--light-meshes", help="Simplify meshes of more than 500 faces; masses and inertias stay.")
]


AssetFolders = Annotated[
    list[Path] | None,
    Option("--asset-folder", help="Further folder that the model may take files from; repeat for several."),
]


def init(
    folder: Annotated[Path, Argument(help="The folder to create.")],
    twin: CellTwin = None,
    model: Model = None,
    angle: AngleUnit = None,
    servos: Servos = False,
    light_meshes: LightMeshes = False,
    asset_folder: AssetFolders = None,
    driver: Driver = False,
    json: Json = False,
) -> None:
    """Create a workspace: a folder for the twins, datasets, policies and reports of one robot cell.

    A model is checked: angle units, names, inertias, actuators, stability and meshes.
    """
    if driver and twin is None and model is None:
        raise WrongUse("a driver is written for the joints of a twin", remedy="--model FILE or --twin NAME")
    about_model = angle is not None or servos or light_meshes or bool(asset_folder)
    _require_one_source(twin, model, about_model)
    cell = twinloop.load_twin(twin) if twin is not None else None
    findings: Sequence[twinloop.ModelFinding] = ()
    if model is not None:
        cell, findings = _read_model(model, angle, servos, light_meshes, asset_folder or ())
    made = twinloop.init_workspace(folder, cell)
    value: dict[str, Any] = {"workspace": made.name, "path": made.root.resolve(), "twin": made.twin}
    value |= {"findings": [asdict(finding) for finding in findings]}
    lines = [f"created workspace {made.name} in {folder}"]
    if cell is not None:
        lines.append(
            f"twin {cell.name}: {len(cell.parameters)} parameters, {console.count(len(cell.cameras), 'camera')}, "
            f"task {cell.task or 'none'}; `twinloop twin show {cell.name}` lists them"
        )
        if driver:
            value["driver"] = written = _write_driver(folder, cell, made.twin)
            lines.append(_describe_driver(written[0].relative_to(folder)))
    if model is not None and cell is not None:
        value["files"] = {name: len(content) for name, content in cell.assets.items()}
        lines += [f"copied {name}, {size / 1e3:,.1f} kB" for name, size in value["files"].items()]
    if model is not None and not findings:
        lines.append("model check: nothing found")
    console.print_result(json, value, "\n".join(lines))
    if json:
        return
    if findings:
        _print_findings(findings, f"twinloop init {folder} --model {model}", angle, servos, light_meshes)
    console.out.print(f"next: cd {folder} && twinloop {'generate seed.yaml' if cell else 'status'}")


def _write_driver(folder: Path, cell: twinloop.Twin, twin: str | None) -> Sequence[Path]:
    from twinloop.robots.driver_template import write_driver

    return write_driver(folder / "driver", cell, twin)


def _describe_driver(file: Path) -> str:
    return (
        f"driver {file}, with its test; it runs on a loopback: "
        f"twinloop record --robot python:{file} --excite multisine --out data/loopback"
    )


def _require_one_source(twin: str | None, model: Path | None, about_model: bool) -> None:
    """Refuse a twin beside a model, and options about a model without one."""
    if twin is not None and model is not None:
        raise WrongUse("--twin and --model exclude each other")
    if model is None and about_model:
        raise WrongUse(
            "--angle, --servos, --light-meshes and --asset-folder are about a model", remedy="--model FILE"
        )


def _read_model(
    file: Path, angle: str | None, servos: bool, light_meshes: bool, asset_folders: Sequence[Path]
) -> tuple[twinloop.Twin, Sequence[twinloop.ModelFinding]]:
    """The twin of a model and what is wrong with it; with `servos`, of the joints that need one."""
    if angle not in (None, "radian", "degree"):
        raise WrongUse("--angle is a unit of angles", got=angle, expected="radian or degree")
    unit: Any = angle
    places: dict[str, Any] = {"angle": unit, "asset_folders": asset_folders}
    options = places | {"light_meshes": light_meshes}
    cell = twinloop.make_twin_from_model(file, **options)
    findings = twinloop.check_model(file, cell, **places)
    joints = sorted({joint for one in findings if one.option == "--servos" for joint in one.joints})
    if servos and joints:
        cell = twinloop.make_twin_from_model(file, servos=joints, **options)
        findings = twinloop.check_model(file, cell, **places)
    return cell, findings


def _print_findings(
    findings: Sequence[twinloop.ModelFinding],
    command: str,
    angle: str | None,
    servos: bool,
    light_meshes: bool,
) -> None:
    """The findings, and the command that mends those that an option can mend."""
    console.out.print(f"model check: {console.count(len(findings), 'finding')}")
    console.print_table(
        ("check", "found", "remedy"),
        [
            (one.check, one.found, one.remedy + (f"; or {one.option}" if one.option else ""))
            for one in findings
        ],
    )
    chosen = [f"--angle {angle}" if angle else "", "--servos" * servos, "--light-meshes" * light_meshes]
    options = dict.fromkeys(option for option in (*chosen, *(one.option for one in findings)) if option)
    if any(one.option for one in findings):
        console.out.print(
            f"to apply these options: rm -r {command.split()[2]} && {command} {' '.join(options)}"
        )


def doctor(
    folder: Annotated[Path, Option(help="Where data will be stored.")] = Path(),
    remove_unfinished: Annotated[
        bool,
        Option("--remove-unfinished", help="Delete what killed processes left at or below the data folder."),
    ] = False,
    json: Json = False,
) -> None:
    """Check this machine: what is installed, what is missing and how to get it. Exits with 1 if a requirement is missing."""
    from twinloop.datasets.partial_folder import find_leftovers, remove_leftovers
    from twinloop.doctor import examine

    if remove_unfinished:
        leftovers = find_leftovers(folder, below=True)
        remove_leftovers(leftovers)
        if not json:
            console.print_lines(f"removed {one.path}" for one in leftovers)
    findings = examine(folder)
    columns = ("", "component", "found", "remedy")
    console.print_list(json, findings, columns, lambda f: (f.state, f.name, f.found, f.remedy or ""))
    if any(f.needed and f.state != "ok" for f in findings):
        raise typer.Exit(1)


def status(
    folder: Annotated[Path, Argument(help="The workspace, or any folder inside it.")] = Path(),
    json: Json = False,
) -> None:
    """Show the state of the workspace and the next step worth taking."""
    from twinloop.overview import read_overview

    found = read_overview(require_workspace(folder))
    if json:
        console.print_json(asdict(found))
        return
    console.out.print(f"workspace {found.workspace}")
    if found.datasets:
        console.print_table(
            ("dataset", "episodes", "hours", "source", "success"),
            [
                (d.name, d.episodes, round(d.hours, 3), d.sources, format_rate(d.success))
                for d in found.datasets
            ],
        )
    if found.registry:
        held = ", ".join(f"{alias} {name}" for alias, name in found.registry.items() if alias != "warning")
        console.out.print(f"registry: {held}")
        if "warning" in found.registry:
            console.out.print(f"registry: {found.registry['warning']}")
    if found.loop is not None:
        console.out.print(f"loop: {', '.join(found.loop.done) or 'nothing'} done")
    console.out.print(f"next: {found.next_step}  ({found.reason})")


def format_rate(rate: float | None) -> str:
    """Format a success rate in percent; ? if it is unknown."""
    return "?" if rate is None else f"{rate:.0%}"
