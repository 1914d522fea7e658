"""`twinloop align`: from frames with joint readings to a twin whose camera stands where the real one does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

import twinloop
from twinloop.cli import console
from twinloop.cli.identify import find_next_folder
from twinloop.cli.options import Json, RealData, WorkspaceTwin, split_names
from twinloop.cli.places import default_out, find_workspace, load_twin, require_new
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.workspace import Workspace

Masks = Annotated[
    str,
    Option(
        metavar="auto|moving|edges|FOLDER",
        help="Where the robot is: what moves before a camera that stands (moving), edges alone (edges), or files EPISODE-ROW.png, white on the robot. auto: moving, or edges if the robot carries the camera.",
    ),
]
Clicks = Annotated[
    Path | None,
    Option(
        metavar="FILE.yaml",
        help="Points on the robot and beside it, by frame: {0-120: {robot: [[x, y]], background: [[x, y]]}}; the mask grows from them.",
    ),
]
Colour = Annotated[
    list[str] | None,
    Option(metavar="R,G,B", help="A colour of the robot, 0 to 255, as its mask; may be repeated."),
]
Bodies = Annotated[
    str | None,
    Option(
        metavar="BODY,...",
        help="Parts of the twin to look for; default: the robot, and what stands still if the robot carries the camera.",
    ),
]
TwinOut = Annotated[
    Path | None,
    Option("--out", help="The aligned twin's folder; default: the next version in the workspace's twins/."),
]


def align(
    real: RealData,
    camera: Annotated[str, Option(help="The camera, by its name in the twin and in the dataset.")],
    twin: WorkspaceTwin = None,
    masks: Masks = "auto",
    clicks: Clicks = None,
    colour: Colour = None,
    frames: Annotated[int, Option(help="Frames to fit, 5 to 20.")] = 12,
    bodies: Bodies = None,
    near: Annotated[
        bool,
        Option(
            "--near",
            help="The camera is within about 3 cm and 2 degrees of the twin's, as by a mount: no search from farther away.",
        ),
    ] = False,
    offsets: Annotated[
        bool, Option("--offsets/--no-offsets", help="Look for joints whose zero is off.")
    ] = True,
    out: TwinOut = None,
    seed: Annotated[int, Option(help="Random seed of the search.")] = 0,
    json: Json = False,
) -> None:
    """Find pose, field of view, principal point and distortion of a real camera, and joint zeros, from frames with joint readings.

    Writes a new version of the twin with an overlay of its outlines before and after. Exits with 1 if the frames do not determine the
    camera; then it says which poses to record.
    """
    workspace = find_workspace()
    base, dataset = load_twin(twin, workspace), twinloop.open_dataset(real)
    folder = out or find_next_folder(default_out(workspace, f"twins/{base.name}"))
    require_new(folder)
    config = twinloop.AlignConfig(
        masks=masks, clicks=clicks, colours=tuple(map(_read_colour, colour or ())), frames=frames,
        bodies=tuple(split_names(bodies)), near=near, joint_offsets=offsets, seed=seed,
    )  # fmt: skip
    result = twinloop.align(base, dataset, camera, config=config)
    files = _save(result, base, dataset, folder)
    if workspace is not None and out is None and result.verdict == "aligned":
        _use(workspace, result, folder)
    console.print_result(json, result.as_json() | files, lambda: _print(result, files))
    if result.verdict == "not determined":
        raise typer.Exit(1)


def _save(
    result: twinloop.Alignment, base: twinloop.Twin, dataset: twinloop.Dataset, folder: Path
) -> dict[str, Path]:
    """Write twin, overlay and report; a camera that was not determined makes no twin."""
    from twinloop.report.alignment_page import write_alignment_page

    if result.verdict == "not determined":
        return {}
    result.save(folder)
    overlay = twinloop.write_overlay(result, base, dataset, folder / "overlay.png")
    page = write_alignment_page(result, overlay, folder / "report.html", dataset)
    return {"out": folder, "overlay": overlay, "report": page}


def _use(workspace: Workspace, result: twinloop.Alignment, folder: Path) -> None:
    """Make the aligned twin the workspace's."""
    from twinloop.twin_versions import use_twin

    use_twin(
        workspace,
        str(folder.relative_to(workspace.root)),
        f"camera {result.camera} aligned: {result.reason}",
    )


def _read_colour(text: str) -> tuple[int, int, int]:
    try:
        red, green, blue = (int(part) for part in text.split(","))
    except ValueError as error:
        raise WrongUse("cannot read a colour", got=text, expected="R,G,B") from error
    if not all(0 <= part <= 255 for part in (red, green, blue)):
        raise WrongUse("a colour has parts from 0 to 255", got=text)
    return red, green, blue


def _print(result: twinloop.Alignment, files: dict[str, Path]) -> None:
    console.out.print(f"{len(result.frames)} frames fitted, {len(result.held_out)} held out")
    console.print_table(
        ("quantity", "in the twin", "value", "95 % interval", "unit", "determined"),
        [
            (
                e.name,
                f"{e.nominal:.4g}",
                f"{e.value:.4g}",
                f"{e.low:.4g} to {e.high:.4g}",
                e.unit,
                "yes" if e.determined else "no",
            )
            for e in result.estimates
        ],
    )
    console.print_lines(f"joint zero: {line}" for line in result.offsets)
    console.print_lines(f"note: {line}" for line in result.warnings)
    console.out.print(f"{result.verdict}: {result.reason}")
    if result.poses_to_record:
        console.out.print("record frames of these poses:")
        console.print_lines(
            "  " + ", ".join(f"{name} {value:.2f}" for name, value in pose.items())
            for pose in result.poses_to_record
        )
    if files:
        console.out.print(f"twin {files['out']}, overlay {files['overlay']}, report {files['report']}")
        console.out.print(
            f"next: twinloop identify --twin {files['out']}, then twinloop anchor --alignment {files['out']}"
        )
    else:
        console.out.print("the twin is unchanged")
