"""Policies in files of other tools: read once, bounded, known by the hash of their bytes; models take arrays of their own types."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twinloop.errors import PolicyGone, WrongUse

MAX_MODEL_BYTES = 2 << 30
"""The limit of the protocol buffers that ONNX files are."""


def read_model_file(path: Path, kind: str) -> bytes:
    """Read a model's file.

    Args:
        path: The file.
        kind: What errors call it.

    Returns:
        Its bytes.

    Raises:
        WrongUse: There is no such file, or it is too large.
    """
    try:
        if not path.is_file():
            raise WrongUse(f"{path} is not a file", expected=f"{kind}")
        if (size := path.stat().st_size) > MAX_MODEL_BYTES:
            raise WrongUse(
                f"{path} is too large for {kind}", got=f"{size} bytes", expected=f"{MAX_MODEL_BYTES} or fewer"
            )
        return path.read_bytes()
    except OSError as error:
        raise PolicyGone(f"{path} cannot be read ({error})") from error


def hash_bytes(content: bytes) -> str:
    """Fingerprint of a file: 128 bits of its content."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def require_inputs(given: Mapping[str, Any], wanted: list[str], where: str) -> None:
    """Refuse inputs that a model does not have, and a model without one of its inputs."""
    if missing := [name for name in wanted if name not in given]:
        raise WrongUse(
            f"{where} is given no {', '.join(missing)}",
            got=", ".join(given),
            expected=", ".join(wanted),
            remedy="name each of them under `inputs` in the map",
        )
    if strange := [name for name in given if name not in wanted]:
        raise WrongUse(f"{where} has no input {', '.join(strange)}", available=wanted)
