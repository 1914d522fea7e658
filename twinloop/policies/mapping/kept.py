"""A foreign policy kept in a folder: its map, its fingerprint, our robot's schema and twin, and its file if it is one.

A policy behind a server is kept by address; when the folder is opened, whoever answers there must be the policy that was kept.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from twinloop.datasets.commit import write_atomically
from twinloop.episode import Schema
from twinloop.errors import LearnError, NewerFormat, PolicyChanged
from twinloop.policies.backends.protocol import open_backend
from twinloop.policies.mapping.fingerprint import Fingerprint, require_same
from twinloop.policies.mapping.interface_map import load_interface_map
from twinloop.policies.mapping.mapped import MappedPolicy
from twinloop.twins import load_twin, save_twin
from twinloop.version import __version__
from twinloop.yaml_models import format_model

FORMAT = 1
METADATA, MAP, TWIN = "policy.json", "interface.yaml", "twin"
FOREIGN = "foreign"
"""The key of `policy.json` that only foreign policies have."""


def save_mapped(policy: MappedPolicy, folder: str | Path) -> Path:
    """Write a foreign policy; `policy.json` comes last, so that a folder that has it is whole.

    Args:
        policy: The policy.
        folder: Where to; what is there of the same policy is replaced.

    Returns:
        The folder.
    """
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    address = policy.map.policy
    if (file := find_file(address)) is not None:
        write_atomically(root / file.name, file.read_bytes())
        address = address.replace(str(file), file.name, 1)
    kept = policy.map.model_copy(update={"policy": address, "name": policy.name})
    if policy.twin is not None and not (root / TWIN).exists():
        save_twin(policy.twin, root / TWIN)
    write_atomically(root / MAP, format_model(kept).encode())
    content: dict[str, Any] = {
        "format": FORMAT,
        "id": policy.id,
        "name": policy.name,
        "twinloop": __version__,
        FOREIGN: {
            "backend": policy.fingerprint.backend,
            "answers": policy.fingerprint.answers.tolist(),
            "apart": policy.fingerprint.apart,
        },
        "map": hashlib.sha256((root / MAP).read_bytes()).hexdigest(),
        "schema": asdict(policy.schema),
        "latency_steps": policy.execution.latency_steps,
        "datasets": [],
        "twin": {"name": policy.twin_name, "hash": policy.twin.content_hash if policy.twin else None},
    }
    write_atomically(root / METADATA, (json.dumps(content, indent=1) + "\n").encode())
    return root


def is_kept(folder: str | Path) -> bool:
    """Whether a folder holds a foreign policy."""
    try:
        return FOREIGN in json.loads((Path(folder) / METADATA).read_text())
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def load_mapped(folder: str | Path) -> MappedPolicy:
    """Open a foreign policy that was kept.

    Args:
        folder: What `save_mapped` wrote.

    Returns:
        The policy, connected.

    Raises:
        LearnError: The folder cannot be read, or was changed since it was written.
        PolicyGone: The policy cannot be reached; `PolicyChanged`: another one answers.
    """
    root = Path(folder)
    try:
        content = json.loads((root / METADATA).read_text())
        if content["format"] > FORMAT:
            raise NewerFormat(
                f"{root} was written by a newer Twinloop", remedy="pip install --upgrade twinloop"
            )
        if content["map"] != hashlib.sha256((root / MAP).read_bytes()).hexdigest():
            raise LearnError(f"{root / MAP} was changed since it was written", remedy="keep the policy again")
        known = content[FOREIGN]
        before = Fingerprint(known["backend"], np.array(known["answers"], np.float64), float(known["apart"]))
        schema = TypeAdapter(Schema).validate_python(content["schema"])
        known_id, latency_steps = str(content["id"]), int(content["latency_steps"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise LearnError(f"{root} holds no policy that can be read ({error})") from error
    twin = load_twin(root / TWIN) if (root / TWIN).exists() else None
    interface_map = load_interface_map(root / MAP)
    backend = open_backend(interface_map.policy)
    if backend.fingerprint != before.backend:
        raise PolicyChanged(
            f"{interface_map.policy} is not the policy that {root} was written of",
            got=backend.fingerprint,
            expected=before.backend,
            remedy="start the same policy again",
        )
    policy = MappedPolicy(backend, interface_map, schema, twin)
    require_same(before, policy.fingerprint, policy.name)
    return policy.as_known(before, known_id, latency_steps)


def find_file(address: str) -> Path | None:
    """The file of an address that names one that exists."""
    _, _, rest = address.partition(":")
    for candidate in (rest, rest.rpartition(":")[0]):
        if candidate and Path(candidate).is_file():
            return Path(candidate)
    return None
