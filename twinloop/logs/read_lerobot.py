"""LeRobot datasets, v2.1 and v3.0, as logs, so that a map can add units, provenance and names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from twinloop.datasets.layout import INFO
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.table_images import image_encoding, image_features, read_images
from twinloop.datasets.video import VideoFrames
from twinloop.logs.reader import READERS, Block, Channel, Images, Piece, Span, log_errors, refuse_unknown

KIND = "a LeRobot dataset"


class LeRobotReader:
    """Every episode is a part; video is referred to, never decoded; images inside the tables are read."""

    def sniff(self, path: Path) -> float:
        """Check for meta/info.json."""
        return 1.0 if (path / INFO).is_file() else 0.0

    def channels(self, path: Path) -> list[Channel]:
        """List signals and cameras of the dataset."""
        with log_errors(path, KIND):
            dataset = open_dataset(path)
            rows, found = dataset.num_frames, []
            for signal in dataset.schema.signals:
                unit = None if set(signal.units) == {"unknown"} else signal.units[0]
                found.append(Channel(signal.name, signal.shape, signal.dtype, rows, unit, signal.elements))
            for camera in dataset.schema.cameras:
                found.append(Channel(camera.key, (camera.height, camera.width, 3), "video", rows))
            for name in image_features(dataset):
                found.append(Channel(name, (0, 0, 3), image_encoding(dataset, name), rows))
            return found

    def read(self, path: Path, wanted: Sequence[str]) -> Iterator[Span]:
        """Yield one episode after another."""
        with log_errors(path, KIND):
            dataset = open_dataset(path)
            signals = {signal.name for signal in dataset.schema.signals}
            cameras = {camera.key: camera.name for camera in dataset.schema.cameras}
            refuse_unknown(f"feature of {path.name}", wanted, [*signals, *cameras, *image_features(dataset)])
            for number in dataset.numbers:
                episode = dataset.episode(number)
                pieces: dict[str, Piece] = {}
                for name in wanted:
                    if name in signals:
                        pieces[name] = Block(episode.signals[name], episode.time_s)
                    elif name not in cameras:
                        pieces[name] = Images(list(read_images(dataset, number, name)), episode.time_s)
                    else:
                        frames = episode.frames[cameras[name]]
                        assert isinstance(frames, VideoFrames)
                        pieces[name] = frames
                yield Span(pieces, str(number), episode.task)


READERS.register("lerobot")(LeRobotReader())
