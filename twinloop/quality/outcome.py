"""Checks of what was recorded about an episode: its outcome and its events."""

from __future__ import annotations

from collections.abc import Iterator

from twinloop.quality.finding import Finding
from twinloop.quality.registry import CHECKS, finding
from twinloop.quality.view import View

LAST_SHARE = 0.25
"""An event speaks for the final state when it is in this last part of the episode."""


@CHECKS.register("success_contradiction")
def success_contradiction(view: View) -> Iterator[Finding]:
    """A success flag that the task's own judgement or the recorded events contradict."""
    said = view.episode.success
    if said is None:
        return
    judged, witness = _judged(view)
    if judged is not None and judged != said:
        yield finding(
            view,
            "success_contradiction",
            "success",
            "blocking",
            float(said),
            "bool",
            float(judged),
            f"recorded as {'success' if said else 'failure'}, but {witness}",
            "look at the episode (twinloop data show) and label it (twinloop data label)",
            (int(len(view.time_s) * (1 - LAST_SHARE)), len(view.time_s) - 1),
        )


@CHECKS.register("artefact")
def artefact(view: View) -> Iterator[Finding]:
    """Events by which the recorder or the simulator said that something went wrong."""
    settings = view.settings
    for kinds, severity in ((settings.artefact_events, "warning"), (settings.divergence_events, "blocking")):
        events = [event for event in view.episode.events if event.kind in kinds]
        for kind in dict.fromkeys(event.kind for event in events):
            same = [event for event in events if event.kind == kind]
            detail = f": {same[0].detail}" if same[0].detail else ""
            row = int((view.time_s <= same[0].time_s).sum()) - 1
            yield finding(
                view,
                "artefact",
                kind,
                "blocking" if severity == "blocking" else "warning",
                len(same),
                "events",
                0,
                f"{len(same)} times, first at {same[0].time_s:.3g} s{detail}",
                "leave the episode out, or regenerate it with a smaller time step",
                (max(row, 0), max(row, 0)),
            )


def _judged(view: View) -> tuple[bool | None, str]:
    """What the task's predicate, or else the last telling event, says about the end."""
    settings = view.settings
    if settings.success_of is not None and (verdict := settings.success_of(view.episode)) is not None:
        return bool(
            verdict
        ), f"the task's own test of the final state says {'success' if verdict else 'failure'}"
    since_s = view.time_s[0] + (1 - LAST_SHARE) * view.episode.duration_s
    telling = [
        event
        for event in view.episode.events
        if event.time_s >= since_s and event.kind in settings.success_events + settings.failure_events
    ]
    if not telling:
        return None, ""
    last = max(telling, key=lambda event: event.time_s)
    return last.kind in settings.success_events, f"its last event is {last.kind!r} at {last.time_s:.3g} s"
