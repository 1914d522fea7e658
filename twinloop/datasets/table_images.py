"""Images inside the tables of foreign LeRobot datasets: features of type `image`, recorded without video.

Datasets of our own store frames as video; `twinloop ingest` converts such images.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from twinloop.datasets.commit import read_errors
from twinloop.datasets.layout import load_info
from twinloop.datasets.reader import Dataset
from twinloop.errors import DamagedDataset

IMAGE = "image"
_SIGNATURES = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg"}


def image_features(dataset: Dataset) -> tuple[str, ...]:
    """Return the features of a dataset that hold images inside its tables."""
    features = load_info(dataset.root)["features"]
    return tuple(
        name
        for name in dataset.skipped
        if isinstance(features.get(name), dict) and features[name].get("dtype") == IMAGE
    )


def image_encoding(dataset: Dataset, name: str) -> str:
    """Return the encoding of a feature's images, png or jpeg, from the first of them."""
    first = next(read_images(dataset, dataset.numbers[0], name), b"") if len(dataset) else b""
    encoding = next((kind for sign, kind in _SIGNATURES.items() if first.startswith(sign)), None)
    if encoding is None:
        raise DamagedDataset(f"{dataset.place}: {name} holds no PNG or JPEG images", got=repr(first[:8]))
    return encoding


def read_images(dataset: Dataset, number: int, name: str) -> Iterator[bytes]:
    """Yield the encoded images of one episode, row group by row group.

    Raises:
        DamagedDataset: An image is missing, or stored outside the table.
    """
    index = dataset.index
    place = int(np.searchsorted(index.numbers, number))
    path = dataset.root / index.files[int(index.file_of[place])]
    first, end = int(index.offset[place]), int(index.offset[place]) + int(index.length[place])
    row = 0
    with read_errors(path), pq.ParquetFile(path, memory_map=True) as file:
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if row < end and row + rows > first:
                column = file.read_row_group(group, columns=[name]).column(0)
                part = column.slice(max(first - row, 0), min(end, row + rows) - max(first, row))
                yield from (_encoded(dataset, name, image) for image in part)
            row += rows


def _encoded(dataset: Dataset, name: str, image: pa.Scalar) -> bytes:
    value = image.as_py()
    content = value.get("bytes") if isinstance(value, dict) else value
    if not isinstance(content, bytes):
        raise DamagedDataset(
            f"{dataset.place}: an image of {name} is not in the table",
            got="a path" if isinstance(value, dict) else type(value).__name__,
            expected="PNG or JPEG bytes",
        )
    return content
