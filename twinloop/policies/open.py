"""Open a policy wherever it is: a folder of ours, an address with a map, or the map itself."""

from __future__ import annotations

from pathlib import Path

from twinloop.episode import Schema
from twinloop.errors import WrongUse
from twinloop.generation.signals import make_schema
from twinloop.policies.backends.protocol import BACKENDS, Backend, open_backend
from twinloop.policies.mapping.certain import find_certain_map
from twinloop.policies.mapping.interface_map import InterfaceMap, load_interface_map
from twinloop.policies.mapping.kept import is_kept, load_mapped
from twinloop.policies.mapping.mapped import MappedPolicy
from twinloop.policies.protocol import PolicyLike
from twinloop.tasks import make_cell
from twinloop.twins import Twin, load_twin

MAP_SUFFIXES = (".yaml", ".yml")


def open_policy(
    where: str | Path,
    interface_map: InterfaceMap | str | Path | None = None,
    *,
    schema: Schema | None = None,
    twin: Twin | None = None,
) -> PolicyLike:
    """Open a policy.

    Args:
        where: A folder that `train` or the registry wrote, an address such as "openpi:ws://127.0.0.1:8000", or the file of an interface map.
        interface_map: The map of the policy at an address, or its file; a policy behind `twinloop serve` needs none.
        schema: Signals, cameras and rate of the robot; default: those of the twin.
        twin: The robot's twin; default: the one that the map names.

    Returns:
        The policy.

    Raises:
        MapError: The map cannot be used.
        PolicyGone: The policy cannot be reached.
        WrongUse: There is no policy there, or it is not known for which robot it is.
    """
    if isinstance(interface_map, str | Path):
        interface_map = load_interface_map(interface_map)
    if is_map(where):
        interface_map = load_interface_map(where)
    elif is_address(where):
        if interface_map is None:
            return _connect_certain(str(where), schema, twin)
        interface_map = interface_map.model_copy(update={"policy": str(where)})
    elif interface_map is None:
        if is_kept(where):
            return load_mapped(where)
        from twinloop.policies.networks.policy import load_policy

        return load_policy(where)
    else:
        raise WrongUse("a policy's folder needs no interface map", got=where)
    return connect_policy(interface_map, schema=schema, twin=twin)


def _connect_certain(address: str, schema: Schema | None, twin: Twin | None) -> MappedPolicy:
    """Open a policy whose own words leave nothing open."""
    backend = open_backend(address)
    if (interface_map := find_certain_map(address, backend.metadata)) is None:
        backend.close()
        raise WrongUse(
            f"it is not known what the inputs and outputs of {address} mean",
            expected="an interface map",
            remedy=f"--map FILE; twinloop policy map {address} --propose writes one",
        )
    return connect_policy(interface_map, schema=schema, twin=twin, backend=backend)


def connect_policy(
    interface_map: InterfaceMap,
    *,
    schema: Schema | None = None,
    twin: Twin | None = None,
    backend: Backend | None = None,
) -> MappedPolicy:
    """Open the policy that a map is about; `schema` and `twin` as in `open_policy`, `backend` if it is open already."""
    if twin is None and interface_map.twin is not None:
        twin = load_twin(interface_map.twin)
    if schema is None:
        if twin is None:
            raise WrongUse(
                "it is not known for which robot the policy is",
                remedy="name its twin in the map, twin: NAME|FOLDER, or on the command line, --twin",
            )
        schema = make_schema(make_cell(twin), tuple(camera.name for camera in twin.cameras))
    return MappedPolicy(backend or open_backend(interface_map.policy), interface_map, schema, twin)


def is_address(where: str | Path) -> bool:
    """Whether this is the address of a policy: nothing on disk, and it begins with a known scheme."""
    scheme, colon, _ = str(where).partition(":")
    return bool(colon) and not Path(where).exists() and scheme in BACKENDS


def is_map(where: str | Path) -> bool:
    """Whether this is the file of an interface map."""
    return Path(where).suffix in MAP_SUFFIXES and Path(where).is_file()


def save_policy(policy: PolicyLike, folder: str | Path) -> Path:
    """Write a policy into a folder that `open_policy` opens.

    Args:
        policy: One of ours, or a foreign one.
        folder: Where to.

    Returns:
        The folder.

    Raises:
        WrongUse: The policy is an object of the caller's own, which cannot be kept.
    """
    save = getattr(policy, "save", None)
    if save is None:
        raise WrongUse(
            f"policy {policy.name} cannot be kept in a folder",
            got=type(policy).__name__,
            expected="a trained policy, or one opened by its address",
            remedy="give it as python:FILE.py:CLASS with an interface map",
        )
    return Path(save(folder))
