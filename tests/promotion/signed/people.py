"""Who uses a registry, and who forges its record."""

import time

import pytest

pytest.importorskip("sqlalchemy", reason="needs: pip install 'twinloop[learn]'")
pytest.importorskip("cryptography", reason="needs: pip install 'twinloop[learn]'")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from twinloop.promotion.chain import append_entry, make_entry, read_chain
from twinloop.promotion.keys import SigningKey
from twinloop.promotion.mirror import HEAD_TAG, MODEL
from twinloop.promotion.registry import PolicyRegistry


def become(name, tmp_path, monkeypatch):
    """Be somebody else, or the same person on another machine."""
    folder = tmp_path / name
    monkeypatch.setenv("TWINLOOP_CONFIG", str(folder))
    return folder


def with_champions(registry, policies):
    for policy in policies:
        registry.promote(policy, None, by="ann", override="better")
    return registry


def without_mlflow(registry, tmp_path):
    """The same folder, with an empty database: MLflow keeps the one that was deleted open in this process."""
    return PolicyRegistry(registry.root, f"sqlite:///{tmp_path}/{time.monotonic_ns()}.db")


def forge(registry, policy_id, key=None):
    """A promotion, recorded by somebody who can write the workspace: every hash is right."""
    entries = read_chain(registry.record.file)
    last = entries[-1].details
    version = next(e.details["version"] for e in entries if e.details.get("policy_id") == policy_id)
    details = {
        "version": version,
        "policy": "p0",
        "policy_id": policy_id,
        "stage": "full",
        "fraction": None,
        "from": last["aliases"]["champion"],
        "aliases": {**last["aliases"], "champion": version},
        "decision": "promote",
        "override": "trust me",
    }
    entry = make_entry(entries, "promote", "ann", details, "0" * 16, key)
    append_entry(registry.record.file, entry)
    return entry


def follow_in_mlflow(registry, entry):
    """What the forger also does in MLflow's database, which lies in the workspace."""
    client = registry._mirror._client
    client.set_registered_model_alias(MODEL, "champion", entry.details["aliases"]["champion"])
    client.set_registered_model_tag(MODEL, HEAD_TAG, f"{entry.number}:{entry.hash}")


def stranger():
    return SigningKey("ann", Ed25519PrivateKey.generate())
