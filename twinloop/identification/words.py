"""What an identification says of each parameter, in sentences."""

from __future__ import annotations

from twinloop.identification.result import Estimate, Identification

MOST_NAMES = 4
"""Parameters that a sentence lists; the page of an identification lists all."""


def explain_estimate(identification: Identification, name: str) -> str:
    """Say in a sentence what the data tell about one parameter.

    Args:
        identification: The identification.
        name: The parameter.

    Returns:
        Whether it is identified, its value and interval, and what would identify it.

    Raises:
        UnknownName: It was not asked for.
    """
    estimate = identification[name]
    unit = "" if estimate.unit == "1" else f" {estimate.unit}"
    interval = f"95 % interval {estimate.low:.3g} to {estimate.high:.3g}{unit}"
    partners = _partners(identification, name)
    if estimate.status == "not identifiable":
        why = f"only together with {partners}" if partners else "the recordings hardly depend on it"
        kept = identification.twin.parameter(name).nominal
        return f"Not identifiable: {why} ({interval}). The twin has {kept:.4g}{unit}.{_remedy(identification, name)}"
    certain = "Identified" if estimate.status == "identifiable" else "Weakly identified"
    changed = _change(estimate)
    words = f"{certain}: {estimate.value:.4g}{unit}, {interval}; {changed}."
    if partners:
        words += f" Not separately from {partners}.{_remedy(identification, name)}"
    if estimate.at_edge:
        words += " It ends at the limit of its range: doubt the model, or widen its bounds."
    return words


def _change(estimate: Estimate) -> str:
    if estimate.low <= estimate.nominal <= estimate.high:
        return f"the nominal value {estimate.nominal:.4g} is inside"
    return f"the nominal value was {estimate.nominal:.4g}"


def _partners(identification: Identification, name: str) -> str:
    others = (
        other
        for confusion in identification.confusions
        if name in confusion.names
        for other in confusion.names
    )
    names = list(dict.fromkeys(other for other in others if other != name))
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _remedy(identification: Identification, name: str) -> str:
    remedies = (one.remedy for one in identification.confusions if name in one.names)
    first = next(remedies, "")
    return f" To tell: {first}." if first else ""
