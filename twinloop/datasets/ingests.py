"""Records of `twinloop ingest` inside a dataset, and copying them to other datasets.

    meta/twinloop/ingest/<dataset id>/map.yaml      the log map
    meta/twinloop/ingest/<dataset id>/report.json   what was done to each stream, and what was skipped
    meta/twinloop/ingest/<dataset id>/originals/<signal>/<n>.parquet
                                                     episode_id, time_s (the log's clock), value (converted)

The id is that of the ingested dataset, so a merged dataset can hold several records. The files are listed in the
manifest, so `twinloop data verify` checks them.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from twinloop.datasets.commit import disk_errors, read_errors, write_atomically
from twinloop.datasets.layout import INGESTS, MANIFEST
from twinloop.datasets.manifest import file_entry, load_manifest, with_files
from twinloop.errors import DamagedDataset, DatasetError, first_line
from twinloop.yaml_files import read_yaml

MAP = "map.yaml"
ORIGINALS = "originals"


def copy_ingests(sources: Sequence[Path], root: Path, episode_ids: Collection[str]) -> None:
    """Copy maps, reports and the originals of these episodes (only) to the dataset at `root`."""
    wanted = pa.array(sorted(episode_ids), pa.string())
    for source in sources:
        for folder in sorted(path for path in (source / INGESTS).glob("*") if path.is_dir()):
            _copy_ingest(folder, root / INGESTS / folder.name, wanted)
    if (root / INGESTS).is_dir():
        list_ingests_in_manifest(root)


def load_constants(root: Path) -> tuple[str, ...]:
    """Return the signals that the log maps of a dataset declare as constants."""
    names: set[str] = set()
    for path in (root / INGESTS).glob(f"*/{MAP}"):
        try:
            content = read_yaml(path)
        except (OSError, yaml.YAMLError) as error:
            raise DamagedDataset(
                f"{path} cannot be read ({first_line(error)})", remedy="run `twinloop data verify`"
            ) from error
        constants = content.get("constants") if isinstance(content, dict) else None
        names |= set(constants) if isinstance(constants, dict) else set()
    return tuple(sorted(names))


def list_ingests_in_manifest(root: Path) -> None:
    """Add the files of all ingest records to the manifest."""
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


def _copy_ingest(folder: Path, target: Path, wanted: pa.Array) -> None:
    """Copy one ingest record; existing files of the same record are kept and added to."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        place = target / path.relative_to(folder)
        with disk_errors(target):
            place.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".parquet":
            if not place.exists():
                with disk_errors(target):
                    shutil.copyfile(path, place)
            continue
        with read_errors(path):
            table = pq.read_table(path, partitioning=None)
            table = table.filter(pc.is_in(table.column("episode_id"), wanted))
        if len(table):
            with disk_errors(target):
                pq.write_table(table, _unused_path(place), compression="zstd")


def _unused_path(path: Path) -> Path:
    """Return `path`, or the first `<stem>-<n>` that does not exist."""
    numbered = (path.with_stem(f"{path.stem}-{number}") for number in itertools.count(1))
    return next(candidate for candidate in itertools.chain([path], numbered) if not candidate.exists())
