"""`twinloop policy map` and `policy check`: what a foreign policy's inputs and outputs mean, and whether that is right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

import twinloop
from twinloop.cli import console
from twinloop.cli.options import Json
from twinloop.cli.places import find_twin
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.policies.conventions.check import Explanation, InterfaceCheck
    from twinloop.policies.conventions.propose import Proposal

AddressOrMap = Annotated[
    str,
    Argument(
        metavar="ADDRESS|MAP.yaml",
        help="openpi:ws://HOST:PORT, onnx:FILE, python:MODULE:CLASS ..., or an interface map.",
    ),
]
Recorded = Annotated[
    Path,
    Option(
        "--dataset",
        metavar="DATASET",
        help="Recorded episodes of the robot, best such as the policy was trained on.",
    ),
]
RobotTwin = Annotated[
    str | None,
    Option(
        "--twin",
        metavar="NAME|FOLDER",
        help="The robot's twin, for poses of the tool and the gripper's range.",
    ),
]
MapFile = Annotated[Path | None, Option("--map", help="The interface map of the policy at the address.")]
NewMap = Annotated[Path | None, Option("--map", help="With --propose: the file to write.")]
Seed = Annotated[int, Option(help="Random seed for the choice of recorded rows.")]


def propose_map(
    address: AddressOrMap,
    dataset: Recorded,
    twin: RobotTwin = None,
    propose: Annotated[
        bool, Option("--propose", help="Propose an interface map, from names and recorded actions.")
    ] = False,
    map_: NewMap = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Show what a foreign policy says of itself beside what the robot records; --propose writes an interface map.

    Every guess in the map carries its confidence. A map with guesses that nobody has confirmed is not used.
    """
    if map_ is not None and map_.exists():
        raise WrongUse(f"{map_} already exists", remedy="choose another name, or delete it")
    opened = twinloop.open_dataset(dataset)
    backend = twinloop.open_backend(_address(address))
    try:
        if not propose:
            _show(backend.metadata, opened, json)
            return
        with console.progress_bar("comparing") as progress:
            found = twinloop.propose_interface_map(
                backend, address, opened, find_twin(twin) if twin else None, seed=seed, on_progress=progress
            )
    finally:
        backend.close()
    text = twinloop.format_interface_map(found.interface_map)
    if map_ is not None:
        map_.write_text(text)
    value = {"map": text, "out": map_, "check": None if found.check is None else found.check.as_json()}
    console.print_result(json, value, lambda: _print_proposal(found, text, map_))


def check_map(
    policy: AddressOrMap,
    dataset: Recorded,
    map_: MapFile = None,
    twin: RobotTwin = None,
    rows: Annotated[int, Option(min=24, help="Recorded rows to ask the policy about.")] = 96,
    seed: Seed = 0,
    out: Annotated[Path | None, Option("--out", help="Folder for the result as a file.")] = None,
    json: Json = False,
) -> None:
    """Ask a foreign policy about recorded observations, and name the convention fault that explains its actions best.

    Exits with 1 where a fault is found, or where the actions are further from the recorded ones than standing still.
    """
    opened = twinloop.open_dataset(dataset)
    backend = twinloop.open_backend(_address(policy))
    try:
        given = _load_map(policy, map_, backend.metadata)
        place = twin or given.twin
        with console.progress_bar("asking") as progress:
            found = twinloop.check_interface(
                backend,
                given,
                opened,
                find_twin(place) if place else None,
                rows=rows,
                seed=seed,
                on_progress=progress,
            )
    finally:
        backend.close()
    if out is not None:
        found.save(out)
    console.print_result(json, found.as_json(), lambda: console.print_lines(_describe(found)))
    if found.found is not None or not found.follows:
        raise typer.Exit(1)


def _address(policy: str) -> str:
    """The address itself, or that of an interface map."""
    return twinloop.load_interface_map(policy).policy if _is_map(policy) else policy


def _is_map(policy: str) -> bool:
    return Path(policy).suffix in (".yaml", ".yml")


def _load_map(policy: str, map_: Path | None, metadata: Mapping[str, Any]) -> twinloop.InterfaceMap:
    """The map that is named, about the policy at the address if one is given; none is needed where its metadata is certain."""
    from twinloop.policies.mapping.certain import find_certain_map

    if _is_map(policy):
        if map_ is not None:
            raise WrongUse("two interface maps are named", got=f"{policy} and {map_}")
        return twinloop.load_interface_map(policy)
    if map_ is not None:
        return twinloop.load_interface_map(map_).model_copy(update={"policy": policy})
    if certain := find_certain_map(policy, metadata):
        return certain
    raise WrongUse(
        "what the policy's inputs and outputs mean is not known",
        remedy=f"--map FILE; twinloop policy map {policy} --dataset DATASET --propose writes one",
    )


def _show(metadata: Any, dataset: twinloop.Dataset, json: bool) -> None:
    from twinloop.policies.mapping.claims import read_claims

    claims, schema = read_claims(metadata), dataset.schema
    theirs = [
        (
            one.name,
            one.kind,
            " x ".join("?" if side is None else str(side) for side in one.shape),
            ", ".join(one.elements),
        )
        for one in (*claims.inputs, *((claims.action,) if claims.action else ()))
    ]
    ours = [
        *((signal.name, "vector", str(signal.size), ", ".join(signal.elements)) for signal in schema.signals),
        *((camera.key, "image", f"{camera.height} x {camera.width} x 3", "") for camera in schema.cameras),
    ]

    def print_both() -> None:
        columns = ("name", "kind", "shape", "elements")
        console.out.print(
            "The policy says:" if theirs else "The policy says nothing of its inputs and outputs."
        )
        if theirs:
            console.print_table(columns, theirs)
        console.out.print("The dataset has:")
        console.print_table(columns, ours)

    value = {
        "policy": metadata,
        "dataset": {name: {"kind": k, "shape": s, "elements": e} for name, k, s, e in ours},
    }
    console.print_result(json, value, print_both)


def _print_proposal(found: Proposal, text: str, written: Path | None) -> None:
    if written is None:
        console.out.print(text.rstrip("\n"))
    doubtful = found.interface_map.doubtful()
    compared = [f"not compared with recorded actions: {found.not_compared}"]
    console.print_lines(compared if found.check is None else _describe(found.check))
    if written is not None:
        console.out.print(f"wrote {written}")
    for place, one in doubtful.items():
        console.out.print(f"not certain ({one.confidence:g}): {place}: {one.because}")
    if doubtful:
        console.out.print(
            "check these lines, correct them and remove their confidence: until then the map is not used"
        )


def _name_faults(found: Explanation) -> str:
    return found.fault if found.with_fault is None else f"{found.with_fault} and {found.fault}"


def _describe_evidence(found: Explanation) -> str:
    if found.way is None:
        return f"takes away {found.gain.percent} of the difference, {found.error:.2f} is left"
    way = found.way
    return (
        "moves the actions little, but the recorded ones are nearer to those under the correction: "
        f"{way.value:.2f} [{way.low:.2f}, {way.high:.2f}] of the way from 0, as written, to 1, as corrected"
    )


def _describe(check: InterfaceCheck) -> list[str]:
    """What was found, in words."""
    asked = f"{check.rows} rows of {check.episodes} episodes, {check.tried} corrections"
    lines = [f"actions differ from the recorded ones by {check.error:.2f} of their spread ({asked})"]
    if check.found is None and check.follows:
        return [*lines, "no convention fault explains the difference"]
    if check.found is None:
        each = ", ".join(f"{name} {error:.2f}" for name, error in check.elements.items())
        return [
            *lines,
            f"standing still would differ by {check.standing_still:.2f}, and no one or two corrections help: {each}",
            "more conventions may be wrong, or the policy was trained for something else: correct what you know and check again",
        ]
    lines.append(f"{_name_faults(check.found)}: {_describe_evidence(check.found)}")
    lines += [f"  {change}" for change in check.found.changes]
    lines += [
        f"also possible: {one.fault} ({one.gain.percent}): {'; '.join(one.changes)}"
        for one in check.alternatives
    ]
    return lines
