"""Conformance check for gate checks."""

from __future__ import annotations

from typing import get_args

from twinloop.promotion.checks import Check, GateCheck, Status, Subject
from twinloop.promotion.evidence import Contender, Evidence, PairedTrial
from twinloop.promotion.rules import Rules
from twinloop.twins import Twin


def make_subject(twin: Twin, simulated: int = 10, real: int = 5) -> Subject:
    """A subject for gate checks: a candidate that always succeeds, without a champion."""
    trials = [PairedTrial(number, True) for number in range(max(simulated, real))]
    words = {"name": twin.name, "version": twin.version, "hash": twin.content_hash}
    evidence = Evidence(
        Contender("candidate", "0"), None, words, tuple(trials[:simulated]), tuple(trials[:real])
    )
    return Subject(evidence=evidence, rules=Rules(), twin=twin)


def check_gate_check(name: str, check: GateCheck, twin: Twin) -> None:
    """Assert that a gate check is repeatable and gives its name and a reason, with and without trials."""
    for subject in (make_subject(twin), make_subject(twin, 0, 0), make_subject(twin, 10, 0)):
        answer = check(subject)
        assert isinstance(answer, Check), f"{name}: got {type(answer).__name__}, expected a Check"
        assert answer.name == name, f"got the name {answer.name!r}, registered as {name!r}"
        assert answer.status in get_args(Status), f"{name}: got status {answer.status!r}"
        assert answer.detail, f"{name} gives no reason"
        assert answer.accepted is None, f"{name} must not set `accepted`"
        assert check(subject) == answer, f"{name} gives another answer on the second call"
