"""The registry of checks, built-in or not.

A check is a function of a `View` of one episode that yields `Finding`s; their code is its registered name. Another
package adds one with an entry point in the group `twinloop.quality_checks`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from twinloop.plugins import Registry
from twinloop.quality.finding import Finding, Severity
from twinloop.quality.view import View


class Check(Protocol):
    """A pure function of one episode."""

    def __call__(self, view: View, /) -> Iterable[Finding]:
        """Yield the findings."""


CHECKS: Registry[Check] = Registry("quality check", "quality_checks")


def grade(value: float, blocking_from: float) -> Severity:
    """Return "blocking" from a value on, "warning" below it."""
    return "blocking" if value >= blocking_from else "warning"
