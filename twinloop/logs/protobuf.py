"""Protobuf messages to plain values, from the descriptors a log carries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twinloop.errors import DamagedLog

MAX_DEPTH = 32

_MESSAGE = 11
"""`FieldDescriptor.TYPE_MESSAGE`."""


def protobuf_decoder(schema: Any) -> Callable[[bytes], Mapping[str, Any]]:
    """A function from payload to nested dict for an MCAP schema record."""
    from mcap_protobuf.decoder import DecoderFactory

    decode = DecoderFactory().decoder_for("protobuf", schema)
    if decode is None:
        raise DamagedLog(f"schema {schema.name[:80]!r} is not Protobuf")
    plans: dict[str, list[tuple[str, bool, bool]]] = {}
    return lambda payload: _plain(decode(payload), plans, 0)


def _plain(message: Any, plans: dict[str, list[tuple[str, bool, bool]]], depth: int) -> dict[str, Any]:
    if depth > MAX_DEPTH:
        raise DamagedLog("a Protobuf message is nested too deeply")
    name = message.DESCRIPTOR.full_name
    plan = plans.get(name)
    if plan is None:
        plan = plans[name] = [
            (field.name, bool(field.is_repeated), field.type == _MESSAGE)
            for field in message.DESCRIPTOR.fields
        ]
    values: dict[str, Any] = {}
    for key, repeated, nested in plan:
        value = getattr(message, key)
        if not nested:
            values[key] = list(value) if repeated else value
        elif not repeated:
            values[key] = _plain(value, plans, depth + 1)
    return values
