"""Cut episodes to the part that was labelled to be kept, into a new dataset; the original stays as it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from twinloop.datasets import layout
from twinloop.datasets.artefacts import register_artefact
from twinloop.datasets.commit import write_atomically
from twinloop.datasets.jsonl import format_jsonl
from twinloop.datasets.labelling import KEEP, PHASES, current_labels, parse_range
from twinloop.datasets.labels import load_labels
from twinloop.datasets.merge import OnProgress, copy_records
from twinloop.datasets.partial_folder import partial_folder
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.video import VideoFrames
from twinloop.datasets.writer import make_dataset
from twinloop.episode import Episode, Event, Frames, content_id
from twinloop.errors import WrongUse


def find_trims(dataset: Dataset) -> dict[str, tuple[float, float]]:
    """The part to keep of each episode that was labelled with one, s since its first row, by episode id."""
    labels = current_labels(load_labels(dataset.root))
    kept = {one: values.get(KEEP) for one, values in labels.items()}
    return {one: parse_range(text) for one, text in kept.items() if isinstance(text, str) and text}


def trim(dataset: str | Path | Dataset, out: str | Path, *, on_progress: OnProgress | None = None) -> Dataset:
    """Write a dataset in which labelled episodes are cut to the part that is kept; the others are copied whole.

    A cut episode is a new one whose parent is the whole one: its times start at 0 and events outside are left out. The outcome
    and labels of the whole stay, without its ranges of time. Camera frames are encoded again.

    Args:
        dataset: The dataset with labels `keep`.
        out: The new dataset.
        on_progress: Called with (episodes done, episodes in all).

    Returns:
        The new dataset.

    Raises:
        WrongUse: No episode is labelled, or one would keep fewer than two rows.
        DatasetError: `out` exists.
    """
    source = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    trims = find_trims(source)
    if not trims:
        raise WrongUse(
            f"no episode of {source.root} is labelled with a part to keep",
            remedy=f"twinloop data label {source.root} EPISODE --keep START:END --by NAME",
        )
    register_artefact(out, "dataset", [source])
    history = ("trimmed", (f"{source.id}@{source.content_hash}",), f"{len(trims)} episodes cut")
    copies: dict[str, str] = {}
    with partial_folder(Path(out)) as root:
        with make_dataset(root, source.schema, commit_every_s=math.inf, history=history) as writer:
            for done, episode in enumerate(source, start=1):
                part = cut_episode(episode, *trims[episode.id]) if episode.id in trims else episode
                writer.add(part)
                copies[episode.id] = part.id
                if on_progress:
                    on_progress(done, len(source))
        copy_records([source.root], root, {old: old for old, new in copies.items() if old == new})
        _carry_labels(source.root, root, copies)
    return open_dataset(out)


def _carry_labels(source: Path, root: Path, copies: Mapping[str, str]) -> None:
    """Labels of every episode, under the id that it has now; a cut one loses its ranges of time."""
    labels = [
        replace(label, episode_id=copies[label.episode_id])
        for label in load_labels(source)
        if label.episode_id in copies
        and (copies[label.episode_id] == label.episode_id or label.field not in (KEEP, PHASES))
    ]
    if labels:
        write_atomically(root / layout.LABELS, format_jsonl(labels))


def _cut_frames(frames: Frames, first: int, stop: int) -> Frames:
    if isinstance(frames, VideoFrames):
        return replace(frames, first=frames.first + first, count=stop - first)
    return frames[first:stop]


def cut_episode(episode: Episode, start_s: float, end_s: float) -> Episode:
    """The part of an episode between two times since its first row.

    Args:
        episode: The episode.
        start_s: First moment that is kept, s.
        end_s: Last moment that is kept, s.

    Returns:
        The part as an episode of its own.

    Raises:
        WrongUse: Fewer than two rows lie between these times.
    """
    since = episode.time_s - episode.time_s[0]
    first = int(np.searchsorted(since, start_s - 1e-9))
    stop = int(np.searchsorted(since, end_s + 1e-9, side="right"))
    if stop - first < 2:
        raise WrongUse(
            "too little of an episode would be kept", got=f"{stop - first} rows", expected="2 or more"
        )
    times = episode.time_s[first:stop] - episode.time_s[first]
    shift = float(episode.time_s[first])
    last = float(episode.time_s[stop - 1])
    events = tuple(
        Event(event.time_s - shift, event.kind, event.detail)
        for event in episode.events
        if shift <= event.time_s <= last
    )
    signals = {name: values[first:stop] for name, values in episode.signals.items()}
    provenance = replace(episode.provenance, parents=(episode.id,))
    return replace(
        episode,
        id=content_id(episode.schema, times, signals, events, episode.task, provenance),
        time_s=times,
        signals=signals,
        frames={name: _cut_frames(frames, first, stop) for name, frames in episode.frames.items()},
        events=events,
        provenance=provenance,
    )
