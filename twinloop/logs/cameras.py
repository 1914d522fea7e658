"""Images of a log to frames of an episode: passed through without re-encoding where codec and frame grid allow."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, overload

import numpy as np

from twinloop.datasets.group import StoredFrames
from twinloop.datasets.manifest import FileEntry
from twinloop.datasets.stats import FrameSampler, Stats
from twinloop.datasets.video import VideoEncoder, VideoFrames, VideoSettings, decode, join, video_extent
from twinloop.datasets.writer import DatasetWriter
from twinloop.episode import Array, Camera, Episode
from twinloop.errors import DamagedDataset, DamagedLog, DatasetError, LogError
from twinloop.logs.reader import Channel, VideoSpan, reading, refuse_escape, refuse_large_piece
from twinloop.logs.spool import Spooled

STREAMS = {"h264": "h264", "h265": "hevc"}
"""Codecs whose images, one after the other, are a stream that FFmpeg reads, and its name for that stream."""

SINGLE = {"jpeg": "mjpeg", "png": "png"}
"""Codecs of single images, and FFmpeg's name for them."""

PLAIN = {"rgb8": "rgb24", "bgr8": "bgr24", "mono8": "gray", "rgba8": "rgba", "bgra8": "bgra"}
"""Images that are not encoded, and PyAV's name for the format."""

_TIME_BASE = Fraction(1, 90_000)


@dataclass(frozen=True)
class PlannedFrames:
    """The frames of one camera for the rows of one episode: `index[row]` is the image that row shows."""

    source: Spooled | VideoSpan
    encoding: str
    height: int
    width: int
    time_s: Array | None
    index: Array

    @classmethod
    def from_span(cls, span: VideoSpan) -> PlannedFrames:
        """Frames of a video file, one per row."""
        return cls(span, "video", span.height, span.width, None, np.zeros(0, np.int64))

    @classmethod
    def from_spool(cls, spooled: Spooled, time_s: Array, channel: Channel) -> PlannedFrames:
        """Images of a log; the first one is decoded for its size."""
        height, width = channel.shape[:2]
        planned = cls(spooled, channel.dtype, height, width, time_s, np.zeros(0, np.int64))
        if channel.dtype not in PLAIN and channel.dtype not in SINGLE and channel.dtype not in STREAMS:
            if channel.dtype != "uint8":
                raise LogError(f"images of type {channel.dtype!r} cannot be read")
            return replace(planned, encoding="rgb8")
        if channel.dtype in PLAIN and min(channel.shape[:2]) > 0:
            return planned
        first = next(planned.images(), None)
        if first is None:
            raise DamagedLog(f"channel {channel.name!r} has no image that can be decoded")
        return replace(planned, height=first.shape[0], width=first.shape[1])

    @property
    def left_out(self) -> int:
        """Images at the start that nobody could decode."""
        return 0 if isinstance(self.source, VideoSpan) else self.source.left_out

    @property
    def available(self) -> int:
        """Images there are, used or not."""
        return self.source.count if isinstance(self.source, VideoSpan) else len(self.source)

    @property
    def shape(self) -> tuple[int, ...]:
        """(T, height, width, 3)."""
        return (len(self.index), self.height, self.width, 3)

    @property
    def dtype(self) -> np.dtype[np.uint8]:
        """Always uint8."""
        return np.dtype(np.uint8)

    def __len__(self) -> int:
        return len(self.index)

    def __iter__(self) -> Iterator[Array]:
        row = 0
        for number, image in enumerate(self.images()):
            while row < len(self.index) and self.index[row] == number:
                yield image
                row += 1
            if row == len(self.index):
                return

    @overload
    def __getitem__(self, index: int) -> Array: ...
    @overload
    def __getitem__(self, index: slice) -> Array: ...
    def __getitem__(self, index: int | slice) -> Array:
        rows = range(len(self.index))[index]
        wanted = [rows] if isinstance(rows, int) else list(rows)
        found = {row: image for row, image in enumerate(self) if row in set(wanted)}
        stacked = np.stack([found[row] for row in wanted])
        return np.asarray(stacked[0] if isinstance(rows, int) else stacked)

    @property
    def is_unbroken(self) -> bool:
        """Whether the rows show consecutive images, each once."""
        return bool(len(self.index)) and bool(np.all(np.diff(self.index) == 1))

    def images(self) -> Iterator[Array]:
        """Every image of the source, decoded, in order."""
        if isinstance(self.source, VideoSpan):
            span = self.source
            yield from decode(span.path, span.first, span.count, span.rate_hz)
            return
        with reading(self.source.path, self.encoding, *_ffmpeg_errors()):
            if self.encoding in STREAMS:
                yield from _decoded_stream(self.source, STREAMS[self.encoding])
            elif self.encoding in SINGLE:
                yield from _decoded_singles(self.source, SINGLE[self.encoding])
            else:
                yield from self._plain()

    def _plain(self) -> Iterator[Array]:
        assert isinstance(self.source, Spooled)
        layout = PLAIN[self.encoding]
        depth = {"gray": 1, "rgba": 4, "bgra": 4}.get(layout, 3)
        for packet in self.source.packets():
            image = np.frombuffer(packet, np.uint8).reshape(self.height, -1, depth)[:, : self.width]
            if layout == "gray":
                yield np.repeat(image, 3, axis=2)
            else:
                yield np.ascontiguousarray(
                    image[:, :, 2::-1] if layout.startswith("bgr") else image[:, :, :3]
                )


def plan_frames(frames: PlannedFrames, index: Array) -> PlannedFrames:
    """The same images, with the choice of one for each row."""
    return replace(frames, index=np.asarray(index, np.int64))


def video_beside(log: Path, template: str, rate_hz: float) -> PlannedFrames:
    """A video file that lies beside a log, one frame per row."""
    name = template.replace("{stem}", log.stem)
    refuse_escape(log, name)
    path = log.parent / name
    if not path.is_file():
        raise LogError(
            f"{log.name}: its video {name} does not exist", remedy="correct `file` of the camera in the map"
        )
    try:
        extent = video_extent(path, rate_hz)
    except DamagedDataset as error:
        raise DamagedLog(error.what) from error
    return PlannedFrames.from_span(VideoSpan(path, 0, extent.length, rate_hz, extent.height, extent.width))


def settings_for(planned: Mapping[str, PlannedFrames]) -> VideoSettings:
    """What the dataset says about its videos: the codec that is passed through, where there is one."""
    for frames in planned.values():
        if isinstance(frames.source, VideoSpan):
            with reading(frames.source.path, "video", *_ffmpeg_errors()):
                return VideoSettings(codec=_codec(frames.source.path))
        if frames.encoding in STREAMS:
            return VideoSettings(codec=STREAMS[frames.encoding])
    return VideoSettings()


def _codec(path: Path) -> str:
    import av

    with av.open(str(path)) as container:
        return str(container.streams.video[0].codec_context.codec.canonical_name)


def store_frames(
    writer: DatasetWriter, episode: Episode, planned: Mapping[str, PlannedFrames], ways: dict[str, str]
) -> int:
    """Write the episode with its frames; `ways` gets for each camera how its frames got in. Returns its index."""
    passing = {name: _can_pass(frames, writer.schema.rate_hz) for name, frames in planned.items()}
    try:
        if all(frames.encoding in SINGLE or frames.encoding in PLAIN for frames in planned.values()):
            for name, reason in passing.items():
                _say(ways, name, f"re-encoded: {reason}")
            return writer.add(episode)
        stored = {}
        for camera in writer.schema.cameras:
            frames = planned[camera.name]
            stored[camera.key], way = _store(writer, camera, frames, passing[camera.name])
            _say(ways, camera.name, way)
        return writer.add_copy(episode, stored, (writer.dataset_id, writer.episodes))
    finally:
        discard_frames(planned)


def discard_frames(planned: Mapping[str, PlannedFrames]) -> None:
    """Delete the images that wait on disk."""
    for frames in planned.values():
        if isinstance(frames.source, Spooled):
            frames.source.discard()


def _say(ways: dict[str, str], name: str, way: str) -> None:
    known = ways.get(name)
    if known is None:
        ways[name] = way
    elif way not in known.split(" | "):
        ways[name] = f"{known} | {way}"


def _can_pass(frames: PlannedFrames, rate_hz: float) -> str | None:
    """Why the images must be encoded again, or None if they need not be."""
    if not frames.is_unbroken:
        return "rows and images are not one to one"
    if isinstance(frames.source, VideoSpan):
        return None if frames.source.rate_hz == rate_hz else "the video has another rate than the rows"
    if frames.encoding not in STREAMS:
        return f"{frames.encoding} images are not a video"
    return None


def _store(
    writer: DatasetWriter, camera: Camera, frames: PlannedFrames, reason: str | None
) -> tuple[StoredFrames, str]:
    rate_hz = writer.schema.rate_hz
    placed: list[Path] = []
    way = "passed through without re-encoding"

    def place(target: Path) -> FileEntry | None:
        nonlocal way
        placed.append(target)
        why = reason
        if why is None:
            why = _pass(frames, target, rate_hz)
        if why is not None:
            way = f"re-encoded: {why}"
            _encode(frames, target, camera, rate_hz)
        return None

    number = writer.link_video(camera, place)
    stats = _sampled(placed[0], len(frames), camera, rate_hz)
    return StoredFrames(number, 0, stats), way


def _pass(frames: PlannedFrames, target: Path, rate_hz: float) -> str | None:
    """Copy the packets to a video file; or say why that is not possible, leaving no file."""
    first, count = int(frames.index[0]), len(frames)
    if isinstance(frames.source, VideoSpan):
        span = frames.source
        extent = video_extent(span.path, rate_hz)
        if span.first == 0 and first == 0 and extent.length == count:
            shutil.copyfile(span.path, target)
            return None
        try:
            join([(span.path, span.first + first, count)], target, rate_hz)
        except _ffmpeg_errors() as error:
            target.unlink(missing_ok=True)
            return str(error).splitlines()[0].rstrip(".")
        return None
    try:
        return _remux(frames.source, STREAMS[frames.encoding], first, count, target, rate_hz)
    except _ffmpeg_errors() as error:
        target.unlink(missing_ok=True)
        return f"the stream cannot be copied ({str(error).splitlines()[0]})"


def _remux(spooled: Spooled, codec: str, first: int, count: int, target: Path, rate_hz: float) -> str | None:
    import av

    with av.open(str(spooled.path), format=codec) as source:
        origin = source.streams.video[0]
        if origin.codec_context.has_b_frames:
            return "the stream has frames out of order (B-frames)"
        with av.open(str(target), "w", format="mp4") as out:
            stream = out.add_stream_from_template(origin)
            stream.time_base = _TIME_BASE
            taken = 0
            for number, packet in enumerate(p for p in source.demux(origin) if p.size):
                if number < first:
                    continue
                if taken == count:
                    taken += number - first - count + 1
                    break
                if taken == 0 and not packet.is_keyframe:
                    return _abandon(target, f"the first image ({first}) is not a keyframe")
                packet.stream = stream
                packet.time_base = _TIME_BASE
                packet.pts = packet.dts = round(taken / rate_hz / _TIME_BASE)
                packet.duration = round(1 / rate_hz / _TIME_BASE)
                out.mux(packet)
                taken += 1
    if taken < count or (taken > count and first + count == len(spooled)):
        return _abandon(target, "messages and images are not one to one")
    return None


def _abandon(target: Path, reason: str) -> str:
    target.unlink(missing_ok=True)
    return reason


def _encode(frames: PlannedFrames, target: Path, camera: Camera, rate_hz: float) -> None:
    encoder = VideoEncoder(target, camera, rate_hz, VideoSettings())
    try:
        for row, frame in enumerate(frames):
            encoder.add(encoder.checked(frame), cut=row == 0)
    finally:
        encoder.close()
    if encoder.frames != len(frames):
        raise LogError(
            f"camera {camera.name!r} has fewer images than the log says",
            got=encoder.frames,
            expected=len(frames),
        )


def _sampled(path: Path, count: int, camera: Camera, rate_hz: float) -> Stats:
    """Image statistics from a few frames, which also proves that the file can be decoded."""
    stored = VideoFrames(path, 0, count, camera.height, camera.width, rate_hz)
    rows = np.unique(np.linspace(0, count - 1, 8).round().astype(int))
    sampler = FrameSampler(len(rows), camera.height, camera.width)
    for row in rows:
        sampler.add(stored[int(row)])
    return sampler.stats()


def _decoded_stream(spooled: Spooled, codec: str) -> Iterator[Array]:
    import av

    with av.open(str(spooled.path), format=codec) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        refuse_large_piece(spooled.path, "an image", stream.width * stream.height * 3)
        for image in container.decode(stream):
            yield image.to_ndarray(format="rgb24")


def _decoded_singles(spooled: Spooled, codec: str) -> Iterator[Array]:
    import av

    for packet in spooled.packets():
        context: Any = av.CodecContext.create(codec, "r")
        images = context.decode(av.Packet(packet)) + context.decode(None)
        if not images:
            raise DamagedLog("an image cannot be decoded", got=f"{len(packet)} bytes of {codec}")
        refuse_large_piece(spooled.path, "an image", images[0].width * images[0].height * 3)
        yield images[0].to_ndarray(format="rgb24")


def _ffmpeg_errors() -> tuple[type[Exception], ...]:
    import av

    return (av.FFmpegError, DatasetError, ValueError, IndexError)
