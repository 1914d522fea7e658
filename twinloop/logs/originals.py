"""Original streams, stored with the dataset as recorded, so that resampling loses nothing.

`twinloop.datasets.ingests` describes the files; copies of the dataset include them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from twinloop.datasets.columns import column_type, from_arrow, to_arrow
from twinloop.datasets.commit import disk_errors, read_errors
from twinloop.datasets.ingests import MAP, ORIGINALS, list_ingests_in_manifest
from twinloop.datasets.layout import INGESTS
from twinloop.datasets.reader import Dataset
from twinloop.episode import DTYPES, Signal
from twinloop.logs.clocks import Stream


class Originals:
    """Writes streams before resampling, one file per signal and part; a part is complete or absent."""

    def __init__(self, root: Path, dataset_id: str, part: int = 0) -> None:
        self._folder = root / INGESTS / dataset_id / ORIGINALS
        self._part = part
        self._writers: dict[str, pq.ParquetWriter] = {}

    def add(self, episode_id: str, streams: Mapping[str, Stream]) -> None:
        """Add the streams of one episode."""
        for name, stream in streams.items():
            table = pa.table(
                {
                    "episode_id": pa.array([episode_id] * len(stream.time_s), pa.string()),
                    "time_s": stream.time_s,
                    "value": to_arrow(stream.values),
                }
            )
            with disk_errors(self._folder):
                if name not in self._writers:
                    (self._folder / name).mkdir(parents=True, exist_ok=True)
                    self._writers[name] = pq.ParquetWriter(
                        self._folder / name / f"{self._part:04d}.parquet", table.schema, compression="zstd"
                    )
                self._writers[name].write_table(table)

    def finish_part(self) -> None:
        """Close the files of this part and start the next one."""
        with disk_errors(self._folder):
            for writer in self._writers.values():
                writer.close()
        self._writers.clear()
        self._part += 1

    def delete_later_parts(self) -> None:
        """Delete parts that a killed run wrote after its last checkpoint."""
        for path in sorted(self._folder.glob("*/*.parquet")):
            if int(path.stem) >= self._part:
                path.unlink()


def save_ingest_record(root: Path, dataset_id: str, map_text: str, report: Mapping[str, Any]) -> None:
    """Save the map and the report with the dataset and list them in the manifest."""
    folder = root / INGESTS / dataset_id
    with disk_errors(root):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MAP).write_text(map_text)
        (folder / "report.json").write_text(json.dumps(report, indent=1))
    list_ingests_in_manifest(root)


def load_originals(dataset: Dataset, episode: int) -> dict[str, Stream]:
    """Load the streams of one episode as they were recorded, before resampling.

    Args:
        dataset: An ingested dataset.
        episode: Number of the episode.

    Returns:
        Time stamps in seconds and samples of each resampled signal (of all signals, if the map says so), by name.

    Raises:
        DamagedDataset: A stored stream cannot be read.
    """
    episode_id = dataset.episode(episode).id
    streams: dict[str, Stream] = {}
    for path in sorted((dataset.root / INGESTS).glob(f"*/{ORIGINALS}/*/*.parquet")):
        signal = dataset.schema.signal(path.parent.name)
        with read_errors(path):
            table = pq.read_table(path, filters=[("episode_id", "=", episode_id)], partitioning=None)
            if not len(table):
                continue
            kind = Signal(signal.name, signal.shape, dtype=_stored_type(table, signal.shape))
            streams[signal.name] = Stream(
                table.column("time_s").to_numpy(), from_arrow(table.column("value"), kind)
            )
    return streams


def _stored_type(table: pa.Table, shape: tuple[int, ...]) -> str:
    kind = table.schema.field("value").type
    return next((dtype for dtype in sorted(DTYPES) if column_type(shape, dtype) == kind), "float64")
