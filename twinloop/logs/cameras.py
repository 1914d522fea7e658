"""Camera frames of a log: copied without re-encoding where the codec and the row times allow it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, overload

import numpy as np

from twinloop.datasets.pending_commit import StoredFrames
from twinloop.datasets.stats import Stats, sample_frame_stats
from twinloop.datasets.video import VideoEncoder, VideoFrames, VideoSettings, join_videos, video_extent
from twinloop.datasets.writer import DatasetWriter
from twinloop.episode import Array, Camera, Episode
from twinloop.errors import DamagedDataset, DamagedLog, DatasetError, LogError, first_line
from twinloop.logs.reader import Channel, log_errors, refuse_escape, refuse_large_piece
from twinloop.logs.spool import Spooled
from twinloop.ros_messages import RAW_IMAGES

STREAMS = {"h264": "h264", "h265": "hevc"}
"""Codecs whose concatenated images are a stream that FFmpeg reads, and its name for the stream."""

SINGLE = {"jpeg": "mjpeg", "png": "png"}
"""Codecs of single images, and FFmpeg's name for them."""

_TIME_BASE = Fraction(1, 90_000)


@dataclass(frozen=True)
class PlannedFrames:
    """The frames of one camera for the rows of one episode: `index[row]` is the image of that row."""

    source: Spooled | VideoFrames
    encoding: str
    height: int
    width: int
    time_s: Array | None
    index: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def from_video(cls, video: VideoFrames) -> PlannedFrames:
        """Return frames of a video file, one per row."""
        return cls(video, "video", video.height, video.width, None)

    @classmethod
    def from_spool(cls, spooled: Spooled, time_s: Array, channel: Channel) -> PlannedFrames:
        """Return images of a log; the first one is decoded to get the size."""
        height, width = channel.shape[:2]
        planned = cls(spooled, channel.dtype, height, width, time_s)
        if channel.dtype not in RAW_IMAGES and channel.dtype not in SINGLE and channel.dtype not in STREAMS:
            if channel.dtype != "uint8":
                raise LogError(f"images of type {channel.dtype!r} cannot be read")
            return replace(planned, encoding="rgb8")
        if channel.dtype in RAW_IMAGES and min(channel.shape[:2]) > 0:
            return planned
        first = next(planned.images(), None)
        if first is None:
            raise DamagedLog(f"channel {channel.name!r} has no image that can be decoded")
        return replace(planned, height=first.shape[0], width=first.shape[1])

    @property
    def undecodable(self) -> int:
        """Images at the start that cannot be decoded."""
        return self.source.undecodable if isinstance(self.source, Spooled) else 0

    @property
    def shape(self) -> tuple[int, ...]:
        """(T, height, width, 3)."""
        return (len(self.index), self.height, self.width, 3)

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
    def is_consecutive(self) -> bool:
        """Whether the rows use consecutive images, each once."""
        return bool(len(self.index)) and bool(np.all(np.diff(self.index) == 1))

    def images(self) -> Iterator[Array]:
        """Yield every image of the source, decoded, in order."""
        if isinstance(self.source, VideoFrames):
            yield from self.source
            return
        with log_errors(self.source.path, self.encoding, *_ffmpeg_errors()):
            if self.encoding in STREAMS:
                yield from _decode_stream(self.source, STREAMS[self.encoding])
            elif self.encoding in SINGLE:
                yield from _decode_singles(self.source, SINGLE[self.encoding])
            else:
                depth, colours = RAW_IMAGES[self.encoding]
                for packet in self.source.packets():
                    image = np.frombuffer(packet, np.uint8).reshape(self.height, -1, depth)
                    yield np.ascontiguousarray(image[:, : self.width, colours])


def open_video_file(log: Path, template: str, rate_hz: float) -> PlannedFrames:
    """Open a video file in the log's folder, one frame per row."""
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
    video = VideoFrames(path, 0, extent.length, extent.height, extent.width, rate_hz)
    return PlannedFrames.from_video(video)


def video_settings(planned: Mapping[str, PlannedFrames]) -> VideoSettings:
    """Return the video settings of the dataset: the codec that is copied, if any."""
    import av

    for frames in planned.values():
        if isinstance(frames.source, VideoFrames):
            path = frames.source.path
            with log_errors(path, "video", *_ffmpeg_errors()), av.open(str(path)) as container:
                codec = container.streams.video[0].codec_context.codec
                return VideoSettings(codec=str(codec.canonical_name))
        if frames.encoding in STREAMS:
            return VideoSettings(codec=STREAMS[frames.encoding])
    return VideoSettings()


def store_frames(
    writer: DatasetWriter, episode: Episode, planned: Mapping[str, PlannedFrames], methods: dict[str, str]
) -> None:
    """Write the episode with its frames; `methods` collects how each camera was stored."""
    reasons = {name: _reencoding_reason(frames, writer.schema.rate_hz) for name, frames in planned.items()}
    try:
        if all(frames.encoding in SINGLE or frames.encoding in RAW_IMAGES for frames in planned.values()):
            for name, reason in reasons.items():
                _add_method(methods, name, f"re-encoded: {reason}")
            writer.add(episode)
            return
        stored = {}
        for camera in writer.schema.cameras:
            frames = planned[camera.name]
            stored[camera.key], method = _store(writer, camera, frames, reasons[camera.name])
            _add_method(methods, camera.name, method)
        writer.add_copied_episode(episode, stored, (writer.dataset_id, writer.episodes))
    finally:
        discard_frames(planned)


def discard_frames(planned: Mapping[str, PlannedFrames]) -> None:
    """Delete the spooled images."""
    for frames in planned.values():
        if isinstance(frames.source, Spooled):
            frames.source.path.unlink(missing_ok=True)


def _add_method(methods: dict[str, str], name: str, method: str) -> None:
    known = methods[name].split(" | ") if name in methods else []
    methods[name] = " | ".join(dict.fromkeys([*known, method]))


def _reencoding_reason(frames: PlannedFrames, rate_hz: float) -> str | None:
    """Return why the images must be re-encoded; None if they can be copied."""
    if not frames.is_consecutive:
        return "rows and images are not one to one"
    if isinstance(frames.source, VideoFrames):
        return None if frames.source.rate_hz == rate_hz else "the video has another rate than the rows"
    if frames.encoding not in STREAMS:
        return f"{frames.encoding} images are not a video"
    return None


def _store(
    writer: DatasetWriter, camera: Camera, frames: PlannedFrames, reason: str | None
) -> tuple[StoredFrames, str]:
    rate_hz = writer.schema.rate_hz
    written: list[tuple[Stats, str]] = []

    def write(target: Path) -> None:
        why = reason or _copy_packets(frames, target, rate_hz)
        if why:
            _encode(frames, target, camera, rate_hz)
        # Reading a few frames also checks that the file can be decoded.
        stored = VideoFrames(target, 0, len(frames), camera.height, camera.width, rate_hz)
        method = f"re-encoded: {why}" if why else "copied without re-encoding"
        written.append((sample_frame_stats(stored), method))

    number = writer.add_video_file(camera, write)
    stats, method = written[0]
    return StoredFrames(number, 0, stats), method


def _copy_packets(frames: PlannedFrames, target: Path, rate_hz: float) -> str | None:
    """Copy the packets to a video file; if that is impossible, returns the reason and leaves no file."""
    first, count, source = int(frames.index[0]), len(frames), frames.source
    whole = isinstance(source, VideoFrames) and video_extent(source.path, rate_hz).length == count
    reason = None
    try:
        if isinstance(source, Spooled):
            reason = _remux(source, STREAMS[frames.encoding], first, count, target, rate_hz)
        elif whole and source.first == first == 0:
            shutil.copyfile(source.path, target)
        else:
            join_videos([(source.path, source.first + first, count)], target, rate_hz)
    except _ffmpeg_errors() as error:
        reason = first_line(error).rstrip(".")
        if isinstance(source, Spooled):
            reason = f"the stream cannot be copied ({first_line(error)})"
    if reason is not None:
        target.unlink(missing_ok=True)
    return reason


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
                    return f"the first image ({first}) is not a keyframe"
                packet.stream = stream
                packet.time_base = _TIME_BASE
                packet.pts = packet.dts = round(taken / rate_hz / _TIME_BASE)
                packet.duration = round(1 / rate_hz / _TIME_BASE)
                out.mux(packet)
                taken += 1
    if taken < count or (taken > count and first + count == len(spooled)):
        return "messages and images are not one to one"
    return None


def _encode(frames: PlannedFrames, target: Path, camera: Camera, rate_hz: float) -> None:
    encoder = VideoEncoder(target, camera, rate_hz, VideoSettings())
    try:
        for row, frame in enumerate(frames):
            encoder.add(encoder.check_frame(frame), keyframe=row == 0)
    finally:
        encoder.close()
    if encoder.frames != len(frames):
        raise LogError(
            f"camera {camera.name!r} has fewer images than the log declares",
            got=encoder.frames,
            expected=len(frames),
        )


def _decode_stream(spooled: Spooled, codec: str) -> Iterator[Array]:
    import av

    with av.open(str(spooled.path), format=codec) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        refuse_large_piece(spooled.path, "an image", stream.width * stream.height * 3)
        for image in container.decode(stream):
            yield image.to_ndarray(format="rgb24")


def _decode_singles(spooled: Spooled, codec: str) -> Iterator[Array]:
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
