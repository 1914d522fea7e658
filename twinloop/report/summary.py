"""One-line summaries of any result, for the terminal and for tables of stages."""

from __future__ import annotations

from twinloop.policies.mapping.mapped import MappedPolicy
from twinloop.policies.networks.policy import Policy
from twinloop.promotion.champion import Champion
from twinloop.report.findings import success_rate, summarize

__all__ = ["success_rate", "summarize"]


@summarize.register
def _(result: Policy) -> str:
    error = result.training_record.results.get("validation")
    trained = "" if error is None else f", validation error {error:.4g}"
    return f"policy {result.name} {result.id[:12]}{trained}"


@summarize.register
def _(result: MappedPolicy) -> str:
    return f"policy {result.name} {result.id[:12]} at {result.map.policy}"


@summarize.register
def _(result: Champion) -> str:
    return f"{result.name} is champion"
