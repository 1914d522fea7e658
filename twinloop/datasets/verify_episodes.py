"""Verify the videos, provenance and labels of episodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from twinloop.datasets import layout, sidecar
from twinloop.datasets.index import EpisodeIndex
from twinloop.datasets.labels import load_labels
from twinloop.datasets.manifest import FileEntry
from twinloop.datasets.verification import Ledger, column_of, numbers_in, strip_root
from twinloop.datasets.video import decode as decode_frames
from twinloop.datasets.video import video_extent
from twinloop.episode import Array, Camera
from twinloop.errors import DamagedDataset, TwinloopError, first_line


def check_videos(ledger: Ledger, camera: Camera, rate_hz: float, index: EpisodeIndex) -> None:
    """Check that every video of one camera exists, is long enough and has the right image size."""
    video = index.video[camera.name]
    for file, name in enumerate(video.files):
        places = np.flatnonzero(video.file_of == file)
        if name not in ledger.broken:
            _check_video(ledger, name, camera, rate_hz, places, index)
        ledger.step()


def _check_video(
    ledger: Ledger, name: str, camera: Camera, rate_hz: float, places: Array, index: EpisodeIndex
) -> None:
    path = ledger.root / name
    video = index.video[camera.name]
    numbers = index.numbers[places]
    ends = video.first_frame[places] + index.length[places]
    if not path.is_file():
        ledger.error(name, "missing", numbers)
        return
    ledger.sizes[name] = path.stat().st_size
    try:
        extent = video_extent(path, rate_hz)
        if ledger.decode:
            deque(decode_frames(path, 0, extent.length, rate_hz), maxlen=0)
    except DamagedDataset as error:
        ledger.error(name, strip_root(error, ledger.root), numbers)
        return
    if (extent.height, extent.width) != (camera.height, camera.width):
        what = f"has {extent.height} x {extent.width} pixels, expected {camera.height} x {camera.width}"
        ledger.error(name, what, numbers)
    if len(short := numbers[ends > extent.length]):
        ledger.error(name, f"has {extent.length} frames, expected {int(ends.max())}", short)
    if extent.packets < extent.length:
        missing = extent.length - extent.packets
        ledger.warning(
            name, f"{missing} frames were dropped during recording; each is replaced by the next one"
        )


def check_provenance(ledger: Ledger, index: EpisodeIndex, listed: Mapping[str, FileEntry]) -> None:
    """Check that every episode has a readable row of provenance."""
    described: set[int] = set()
    for name in [name for name in listed if name.startswith(f"{layout.SIDECAR}/episodes/")]:
        if name in ledger.broken:
            continue
        try:
            rows = sidecar.read_table(ledger.root / name).to_pylist()
        except (OSError, pa.ArrowException, KeyError) as error:
            what = f"cannot be read ({first_line(error)})"
            ledger.error(name, what, numbers_in(ledger.root / name.replace(f"{layout.SIDECAR}/", "meta/", 1)))
            continue
        for row in rows:
            described.add(row["episode_index"])
            try:
                sidecar.make_provenance(row)
                sidecar.make_outcome(row)
                sidecar.make_events(row)
            except (TwinloopError, TypeError, ValueError) as error:
                what = f"the provenance is damaged ({first_line(error)})"
                ledger.error(name, what, [row["episode_index"]])
    reported = {number for finding in ledger.findings for number in finding.episodes}
    indexed = {int(n) for n in index.numbers}
    if missing := indexed - described - reported:
        ledger.error(f"{layout.SIDECAR}/episodes", "episodes have no provenance row", missing)
    if extra := described - indexed - reported:
        ledger.error("meta/episodes", "episodes have a provenance row but no entry", extra)


def check_labels(ledger: Ledger, listed: Mapping[str, FileEntry]) -> None:
    """Check that labels can be read and belong to episodes of the dataset."""
    try:
        labels = load_labels(ledger.root)
    except DamagedDataset as error:
        ledger.error(layout.LABELS, strip_root(error, ledger.root))
        return
    if not labels:
        return
    known: set[str] = set()
    for name in listed:
        if name.startswith(f"{layout.SIDECAR}/episodes/"):
            known |= set(column_of(ledger.root / name, "episode_id"))
    unknown = {label.episode_id for label in labels} - known
    if unknown and not ledger.broken:
        what = f"{len(unknown)} labelled episodes are not in this dataset: {', '.join(sorted(unknown)[:3])}"
        ledger.warning(layout.LABELS, what, remedy="nothing to do: these labels are ignored")
