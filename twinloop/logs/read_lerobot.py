"""LeRobot datasets, v2.1 and v3.0, as logs, so that a map can add units, provenance and names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from twinloop.datasets.layout import INFO
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.video import VideoFrames
from twinloop.errors import UnknownName
from twinloop.logs.reader import READERS, Block, Channel, Piece, Span, VideoSpan, log_errors

KIND = "a LeRobot dataset"


class LeRobotReader:
    """Every episode is a part; video is referred to, never decoded."""

    def sniff(self, path: Path) -> float:
        """Check for meta/info.json."""
        return 1.0 if (path / INFO).is_file() else 0.0

    def channels(self, path: Path) -> list[Channel]:
        """List signals and cameras of the dataset."""
        with log_errors(path, KIND):
            dataset = open_dataset(path)
            rows = dataset.num_frames
            found = [
                Channel(
                    s.name,
                    s.shape,
                    s.dtype,
                    rows,
                    None if set(s.units) == {"unknown"} else s.units[0],
                    s.elements,
                )
                for s in dataset.schema.signals
            ]
            found += [Channel(c.key, (c.height, c.width, 3), "video", rows) for c in dataset.schema.cameras]
            return found

    def read(self, path: Path, wanted: Sequence[str]) -> Iterator[Span]:
        """Yield one episode after another."""
        with log_errors(path, KIND):
            dataset = open_dataset(path)
            signals = {signal.name for signal in dataset.schema.signals}
            cameras = {camera.key: camera.name for camera in dataset.schema.cameras}
            for name in wanted:
                if name not in signals and name not in cameras:
                    raise UnknownName(f"feature of {path.name}", name, [*signals, *cameras])
            for number in dataset.numbers:
                episode = dataset.episode(number)
                pieces: dict[str, Piece] = {
                    name: Block(episode.signals[name], episode.time_s) for name in wanted if name in signals
                }
                for name in wanted:
                    if name in cameras:
                        frames = episode.frames[cameras[name]]
                        assert isinstance(frames, VideoFrames)
                        pieces[name] = VideoSpan(
                            frames.path,
                            frames.first,
                            frames.count,
                            frames.rate_hz,
                            frames.height,
                            frames.width,
                        )
                yield Span(pieces, str(number))


READERS.register("lerobot")(LeRobotReader())
