"""Checks of an episode's recorded outcome and events."""

from __future__ import annotations

from collections.abc import Iterator

from twinloop.quality.finding import Finding
from twinloop.quality.registry import CHECKS
from twinloop.quality.view import View

FINAL_FRACTION = 0.25
"""Events in this last fraction of the episode indicate its outcome."""


@CHECKS.register("success_contradiction")
def success_contradiction(view: View) -> Iterator[Finding]:
    """Find a success flag that the task's own test or the recorded events contradict."""
    recorded = view.episode.success
    if recorded is None:
        return
    judged, evidence = _judge_outcome(view)
    if judged is not None and judged != recorded:
        yield view.finding(
            "success_contradiction",
            "success",
            "blocking",
            (float(recorded), "bool", float(judged)),
            f"recorded as {'success' if recorded else 'failure'}, but {evidence}",
            "inspect the episode (twinloop data show) and label it (twinloop data label)",
            (int(len(view.time_s) * (1 - FINAL_FRACTION)), len(view.time_s) - 1),
        )


@CHECKS.register("artefact")
def artefact(view: View) -> Iterator[Finding]:
    """Find events by which the recorder or the simulator reported a problem."""
    settings = view.settings
    for kinds, severity in ((settings.artefact_events, "warning"), (settings.divergence_events, "blocking")):
        events = [event for event in view.episode.events if event.kind in kinds]
        for kind in dict.fromkeys(event.kind for event in events):
            same = [event for event in events if event.kind == kind]
            detail = f": {same[0].detail}" if same[0].detail else ""
            row = int((view.time_s <= same[0].time_s).sum()) - 1
            yield view.finding(
                "artefact",
                kind,
                "blocking" if severity == "blocking" else "warning",
                (len(same), "events", 0),
                f"{len(same)} times, first at {same[0].time_s:.3g} s{detail}",
                "exclude the episode, or regenerate it with a smaller time step",
                (max(row, 0), max(row, 0)),
            )


def _judge_outcome(view: View) -> tuple[bool | None, str]:
    """Judge the outcome by the task's own test, or else by the last relevant event."""
    settings = view.settings
    if settings.success_of is not None and (verdict := settings.success_of(view.episode)) is not None:
        result = "success" if verdict else "failure"
        return bool(verdict), f"the task's own test of the final state gives {result}"
    since_s = view.time_s[0] + (1 - FINAL_FRACTION) * view.episode.duration_s
    relevant = [
        event
        for event in view.episode.events
        if event.time_s >= since_s and event.kind in settings.success_events + settings.failure_events
    ]
    if not relevant:
        return None, ""
    last = max(relevant, key=lambda event: event.time_s)
    return last.kind in settings.success_events, f"its last event is {last.kind!r} at {last.time_s:.3g} s"
