"""What resampling would lose: the streams as recorded, beside the data set, so that every alignment can be undone.

    meta/twinloop/ingest/map.yaml                 the map, as given
    meta/twinloop/ingest/report.json              what was done to each stream, what was left out
    meta/twinloop/ingest/originals/<signal>.parquet   episode_index, time_s (the log's clock), value (converted)

The files are in the manifest, so `twinloop data verify` checks them like the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from twinloop.dataset.columns import column_type, from_arrow, to_arrow
from twinloop.dataset.commit import disk_errors, write_atomically
from twinloop.dataset.layout import MANIFEST, SIDE
from twinloop.dataset.manifest import file_entry, load_manifest, with_files
from twinloop.dataset.reader import Dataset
from twinloop.episode import Signal
from twinloop.errors import DamagedDataset, DatasetError
from twinloop.logs.assemble import StreamReport
from twinloop.logs.clocks import Stream
from twinloop.logs.log_map import LogMap

FOLDER = f"{SIDE}/ingest"


class Originals:
    """Writes streams as they were before resampling, one file per signal."""

    def __init__(self, root: Path) -> None:
        self._folder = root / FOLDER / "originals"
        self._writers: dict[str, pq.ParquetWriter] = {}

    def add(self, episode: int, streams: Mapping[str, Stream]) -> None:
        """The streams of one episode."""
        for name, stream in streams.items():
            table = pa.table(
                {
                    "episode_index": np.full(len(stream.time_s), episode, np.int64),
                    "time_s": stream.time_s,
                    "value": to_arrow(stream.values),
                }
            )
            with disk_errors(self._folder):
                if name not in self._writers:
                    self._folder.mkdir(parents=True, exist_ok=True)
                    self._writers[name] = pq.ParquetWriter(
                        self._folder / f"{name}.parquet", table.schema, compression="zstd"
                    )
                self._writers[name].write_table(table)

    def close(self) -> None:
        """Finish the files."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()


def keep_record(
    root: Path,
    log_map: LogMap,
    map_text: str,
    streams: Sequence[StreamReport],
    cameras: Mapping[str, str],
    skipped: Mapping[str, str],
) -> None:
    """Put the map and the report beside the data and enter all of it into the manifest."""
    folder = root / FOLDER
    with disk_errors(root):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "map.yaml").write_text(map_text or _as_yaml(log_map))
        report = {
            "streams": [asdict(stream) for stream in streams],
            "cameras": dict(cameras),
            "skipped": dict(skipped),
        }
        (folder / "report.json").write_text(json.dumps(report, indent=1))
        manifest = load_manifest(root)
        if manifest is None:
            raise DatasetError(f"{root} has no manifest")
        added = {
            path.relative_to(root).as_posix(): file_entry(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        write_atomically(root / MANIFEST, with_files(manifest, added).to_bytes())


def load_originals(dataset: Dataset, episode: int) -> dict[str, Stream]:
    """The streams of one episode as recorded, for the signals that were resampled (or all, if the map said so)."""
    streams: dict[str, Stream] = {}
    for path in sorted((dataset.root / FOLDER / "originals").glob("*.parquet")):
        signal = dataset.schema.signal(path.stem)
        try:
            table = pq.read_table(path, filters=[("episode_index", "=", episode)], partitioning=None)
            kind = Signal(signal.name, signal.shape, dtype=_stored_type(table, signal.shape))
            streams[path.stem] = Stream(
                table.column("time_s").to_numpy(), from_arrow(table.column("value"), kind)
            )
        except (OSError, KeyError, ValueError, pa.ArrowException) as error:
            raise DamagedDataset(f"{path} cannot be read ({error})") from error
    return streams


def load_report(dataset: Dataset) -> dict[str, Any] | None:
    """What `ingest` reported when the data set was made; None for data sets that were not ingested."""
    path = dataset.root / FOLDER / "report.json"
    try:
        return dict(json.loads(path.read_text())) if path.exists() else None
    except (OSError, ValueError, TypeError) as error:
        raise DamagedDataset(f"{path} cannot be read ({error})") from error


def _stored_type(table: pa.Table, shape: tuple[int, ...]) -> str:
    kind = table.schema.field("value").type
    for dtype in (
        "float64",
        "float32",
        "int64",
        "int32",
        "int16",
        "int8",
        "uint32",
        "uint16",
        "uint8",
        "bool",
    ):
        if column_type(shape, dtype) == kind:
            return dtype
    return "float64"


def _as_yaml(log_map: LogMap) -> str:
    import yaml

    content = log_map.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
