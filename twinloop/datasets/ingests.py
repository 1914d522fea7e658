"""What `twinloop ingest` keeps beside a dataset, and taking it along into copies.

    meta/twinloop/ingest/<dataset id>/map.yaml      the map, as given
    meta/twinloop/ingest/<dataset id>/report.json   what was done to each stream, what was left out
    meta/twinloop/ingest/<dataset id>/originals/<signal>/<n>.parquet
                                                     episode_id, time_s (the log's clock), value (converted)

The id is that of the dataset that was ingested, so several of them can be in one copy. The files are in the manifest,
so `twinloop data verify` checks them like the rest.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from twinloop.datasets.commit import disk_errors, write_atomically
from twinloop.datasets.layout import INGESTS, MANIFEST
from twinloop.datasets.manifest import file_entry, load_manifest, with_files
from twinloop.errors import DamagedDataset, DatasetError

ORIGINALS = "originals"


def carry_ingests(sources: Sequence[Path], root: Path, episode_ids: Collection[str]) -> None:
    """Copy maps, reports and the originals of these episodes to the dataset at `root`; of other episodes nothing."""
    wanted = pa.array(sorted(episode_ids), pa.string())
    for source in sources:
        for folder in sorted(path for path in (source / INGESTS).glob("*") if path.is_dir()):
            _carry(folder, root / INGESTS / folder.name, wanted)
    if (root / INGESTS).is_dir():
        enter_ingests(root)


def enter_ingests(root: Path) -> None:
    """Enter everything that was kept into the manifest."""
    with disk_errors(root):
        manifest = load_manifest(root)
        if manifest is None:
            raise DatasetError(f"{root} has no manifest")
        added = {
            path.relative_to(root).as_posix(): file_entry(path)
            for path in sorted((root / INGESTS).rglob("*"))
            if path.is_file()
        }
        write_atomically(root / MANIFEST, with_files(manifest, added).to_bytes())


def _carry(folder: Path, target: Path, wanted: pa.Array) -> None:
    """One ingest's record; parts of it that came another way already are added to, never replaced."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        place = target / path.relative_to(folder)
        with disk_errors(target):
            place.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".parquet":
            if not place.exists():
                with disk_errors(target):
                    shutil.copyfile(path, place)
            continue
        try:
            table = pq.read_table(path, partitioning=None)
            table = table.filter(pc.is_in(table.column("episode_id"), wanted))
        except (OSError, KeyError, pa.ArrowException) as error:
            raise DamagedDataset(f"{path} cannot be read ({error})") from error
        if len(table):
            with disk_errors(target):
                pq.write_table(table, _free(place), compression="zstd")


def _free(place: Path) -> Path:
    """The path, or one beside it where another part of the same ingest has taken it."""
    number = 0
    while (beside := place if number == 0 else place.with_stem(f"{place.stem}-{number}")).exists():
        number += 1
    return beside
