"""Where a command finds and puts things: the workspace, its twin, policies by name, and new folders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import twinloop
from twinloop.errors import UnknownName, WorkspaceError, WrongUse

if TYPE_CHECKING:
    from twinloop.robots.protocol import Description
    from twinloop.workspace import Workspace


def require_workspace(start: Path = Path()) -> Workspace:
    """Return the workspace that a folder is in."""
    from twinloop.workspace import find_workspace

    return find_workspace(start)


def find_workspace(start: Path = Path()) -> Workspace | None:
    """Return the workspace that a folder is in, if any."""
    try:
        return require_workspace(start)
    except WorkspaceError:
        return None


def find_twin(named: str) -> twinloop.Twin:
    """Load a twin by its folder, by its name in the workspace that this is, or by its built-in name."""
    workspace = None if "/" in named or Path(named, "twin.yaml").is_file() else find_workspace()
    own = workspace.root / "twins" / named if workspace else None
    if own is not None and (own / "twin.yaml").is_file():
        return twinloop.load_twin(own)
    try:
        return twinloop.load_twin(named)
    except UnknownName as error:
        kept = sorted(path.parent.name for path in own.parent.glob("*/twin.yaml")) if own is not None else []
        from twinloop.twins.library import TWINS

        raise UnknownName("twin", named, (*TWINS.names(), *kept)) from error


def load_twin(named: str | None, workspace: Workspace | None) -> twinloop.Twin:
    """Load the named twin, or else the workspace's current one."""
    if named is not None:
        return find_twin(named)
    if workspace is None or workspace.twin is None:
        raise WrongUse(
            "no twin is named", remedy="--twin NAME|FOLDER, or run the command in a workspace with a twin"
        )
    return twinloop.load_twin(workspace.root / workspace.twin)


def load_policy(
    named: str,
    compensate_ms: float | None = None,
    *,
    interface_map: Path | None = None,
    twin: str | None = None,
    description: Description | None = None,
) -> twinloop.PolicyLike:
    """Open a policy wherever it is: every command resolves what a user calls a policy here.

    Args:
        named: An address, the file of an interface map, a folder, a name in the workspace, or an alias, version, name or id in
            the registry; the first of these that exists.
        compensate_ms: Latency of the hardware that its execution compensates; default: as it was saved.
        interface_map: The map of a policy at an address.
        twin: Name or folder of the robot's twin, for a foreign policy; default: the map's, else the robot's.
        description: The robot that a foreign policy is for; default: the twin's.
    """
    from twinloop.policies.open import is_address, is_map
    from twinloop.policies.protocol import with_latency

    if is_address(named) or is_map(named):
        policy = _open_foreign(named, interface_map, twin, description)
    elif interface_map is not None:
        raise WrongUse("--map is for a policy at an address", got=named, expected="SCHEME:ADDRESS")
    else:
        policy = _open_kept(named)
    return policy if compensate_ms is None else with_latency(policy, 1e-3 * compensate_ms)


def _open_kept(named: str) -> twinloop.PolicyLike:
    """Open a policy's folder, or what the workspace or its registry has under this name."""
    from twinloop.cli.registry import load_registered

    folder = find_policy(Path(named))
    if not folder.exists() and len(Path(named).parts) == 1 and (registered := load_registered(named)):
        return registered
    return twinloop.open_policy(folder)


def _open_foreign(
    named: str, interface_map: Path | None, twin: str | None, description: Description | None
) -> twinloop.PolicyLike:
    file = Path(named) if interface_map is None and Path(named).is_file() else interface_map
    loaded = twinloop.load_interface_map(file) if file is not None else None
    place = twin or (loaded.twin if loaded else None) or (description.twin if description else None)
    schema = description.schema(tuple(c.name for c in description.cameras)) if description else None
    cell = find_twin(place) if place is not None else None
    address = loaded.policy if loaded is not None and interface_map is None else named
    return twinloop.open_policy(address, loaded, schema=schema, twin=cell)


def load_own_policy(named: str) -> twinloop.Policy:
    """Load a policy that Twinloop trained, wherever it is kept."""
    found = load_policy(named)
    if not isinstance(found, twinloop.Policy):
        raise WrongUse(f"{named} is not a policy that Twinloop trained", got=type(found).__name__)
    return found


def find_policy(path: Path) -> Path:
    """Return a policy's folder, or the one of that name in the workspace."""
    workspace = None if path.exists() or len(path.parts) != 1 else find_workspace()
    return workspace.root / "policies" / path if workspace else path


def load_policy_twin(policy: twinloop.PolicyLike, named: str | None) -> twinloop.Twin:
    """Load the named twin, or else the one that the policy was trained in or mapped for."""
    from twinloop.policies.protocol import twin_of

    name = named or twin_of(policy)
    if name is None:
        raise WrongUse("the policy does not state its twin", remedy="--twin NAME|FOLDER")
    return find_twin(name)


def choose_place(robot: str | None, env: str | None) -> str | None:
    """Return the address of the robot, or of the environment in the place of one."""
    if env is None:
        return robot
    if robot is not None:
        raise WrongUse("--robot and --env exclude each other")
    if not env.startswith("gym:"):
        raise WrongUse("unknown kind of environment", got=env, expected="gym:ENV_ID")
    return env


def default_out(workspace: Workspace | None, inside: str, expected: str = "FOLDER") -> Path:
    """Return the place in the workspace that a command writes to without --out."""
    if workspace is None:
        raise WrongUse(
            "no --out, and this is not a workspace",
            remedy=f"--out {expected}, or run the command in a workspace",
        )
    return workspace.root / inside


def next_version(path: Path, resume: bool = False) -> Path:
    """Return PATH-v1, or the next version that does not exist; with `resume`, the last one that does."""
    number = 1
    while path.with_name(f"{path.name}-v{number}").exists():
        number += 1
    return path.with_name(f"{path.name}-v{max(1, number - resume)}")


def require_new(path: Path) -> None:
    """Refuse a folder that exists."""
    if path.exists():
        raise WrongUse(f"{path} exists already", remedy="remove it, or choose another --out")
