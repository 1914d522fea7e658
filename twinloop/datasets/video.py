"""Video files: encode many episodes into one file, decode any of its frames, join clips.

Frame k of a file has the time stamp k / rate seconds, which is how LeRobot finds it too.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, overload

import numpy as np

from twinloop.episode import Array, Camera
from twinloop.errors import DamagedDataset, DiskError, InvalidEpisode, WrongUse


@dataclass(frozen=True)
class VideoSettings:
    """How frames are encoded.

    The defaults decode everywhere, favour true pixel values over visual appearance (`tune`), and place a keyframe every
    `keyframe_every` frames, so that random access is cheap.
    """

    codec: str = "libx264"
    crf: int = 22
    preset: str = "superfast"
    tune: str | None = "psnr"
    keyframe_every: int = 4

    def as_info(self, camera: Camera, rate_hz: float) -> dict[str, Any]:
        """Return the `info` that LeRobot stores for a video feature."""
        return {
            "video.height": camera.height,
            "video.width": camera.width,
            "video.codec": "h264" if self.codec == "libx264" else self.codec,
            "video.pix_fmt": _pixel_format(camera),
            "video.is_depth_map": False,
            "video.fps": int(rate_hz) if float(rate_hz).is_integer() else rate_hz,
            "video.channels": 3,
            "has_audio": False,
        }


class VideoEncoder:
    """One video file, written frame by frame."""

    def __init__(self, path: Path, camera: Camera, rate_hz: float, settings: VideoSettings) -> None:
        import av
        from av.video.reformatter import VideoReformatter

        self.frames = 0
        self.bytes = 0
        self._path = path
        self._camera = camera
        self._closed = self._failed = False
        self._pixel_format = _pixel_format(camera)
        self._container = av.open(str(path), "w", format="mp4")
        try:
            self._stream = self._container.add_stream(settings.codec, rate=_rate(rate_hz))
        except (av.FFmpegError, ValueError) as error:
            self._container.close()
            raise WrongUse(f"frames cannot be encoded with {settings.codec!r} ({error})") from error
        self._stream.width, self._stream.height = camera.width, camera.height
        self._stream.pix_fmt = self._pixel_format
        self._stream.options = {
            "crf": str(settings.crf),
            "preset": settings.preset,
            "g": str(settings.keyframe_every),
            "bf": "0",
            "forced-idr": "1",
        }
        if settings.tune:
            self._stream.options |= {"tune": settings.tune}
        self._stream.codec_context.thread_count = 1
        self._video_frame = av.VideoFrame
        self._reformatter = VideoReformatter()
        self._key = av.video.frame.PictureType.I

    def check_frame(self, frame: Any) -> Array:
        """Return the frame as an array; raises `InvalidEpisode` unless it is (height, width, 3) uint8."""
        expected = (self._camera.height, self._camera.width, 3)
        try:
            array = np.asarray(frame)
            got = f"{array.shape} {array.dtype}"
            if array.shape == expected and array.dtype == np.uint8:
                return array
        except ValueError as error:
            got = str(error)
        raise InvalidEpisode(
            f"camera {self._camera.name!r} has an invalid frame", got=got, expected=f"{expected} uint8"
        )

    def add(self, frame: Array, *, keyframe: bool = False) -> None:
        """Append one checked frame; at a keyframe the file can later be cut without re-encoding."""
        image = self._video_frame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")
        image = self._reformatter.reformat(image, format=self._pixel_format, threads=1)
        image.pts = self.frames
        image.time_base = 1 / self._stream.codec_context.framerate
        if keyframe:
            image.pict_type = self._key
        with self._disk_errors():
            for packet in self._stream.encode(image):
                self.bytes += packet.size
                self._container.mux(packet)
        self.frames += 1

    def close(self) -> None:
        """Finish the file; closing twice has no effect."""
        if self._closed:
            return
        self._closed = True
        with self._disk_errors():
            try:
                if self.frames and not self._failed:  # FFmpeg crashes when it goes on after a failure
                    self._container.mux(self._stream.encode(None))
            finally:
                self._container.close()

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        import av

        try:
            yield
        except av.FFmpegError as error:
            self._failed = True
            raise DiskError(
                f"{self._path} cannot be written ({error.strerror})",
                remedy="check free space, then try again",
            ) from error


@dataclass(frozen=True)
class VideoFrames:
    """The frames of one episode inside a video file, decoded on access."""

    path: Path
    first: int
    count: int
    height: int
    width: int
    rate_hz: float

    @property
    def shape(self) -> tuple[int, ...]:
        """(T, height, width, 3)."""
        return (self.count, self.height, self.width, 3)

    @property
    def dtype(self) -> np.dtype[np.uint8]:
        """Always uint8."""
        return np.dtype(np.uint8)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Array]:
        return self._decode(0, self.count)

    @overload
    def __getitem__(self, index: int) -> Array: ...
    @overload
    def __getitem__(self, index: slice) -> Array: ...
    def __getitem__(self, index: int | slice) -> Array:
        if isinstance(index, slice):
            rows = range(self.count)[index]
            if not rows:
                return np.empty((0, *self.shape[1:]), np.uint8)
            low, high = min(rows), max(rows)
            block = np.stack(list(self._decode(low, high - low + 1)))
            return block[[row - low for row in rows]]
        row = range(self.count)[index]
        return next(self._decode(row, 1))

    def _decode(self, row: int, count: int) -> Iterator[Array]:
        for image in decode(self.path, self.first + row, count, self.rate_hz):
            if image.shape != self.shape[1:]:
                raise DamagedDataset(
                    f"{self.path} has frames of the wrong size", got=image.shape, expected=self.shape[1:]
                )
            yield image

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self[:] if dtype is None else self[:].astype(dtype)


class FetchedFrames(VideoFrames):
    """Frames of a video in object storage, which `fetch` brings here when one of them is decoded."""

    def __init__(self, fetch: Callable[[], Path], *args: Any) -> None:
        super().__init__(*args)
        object.__setattr__(self, "_fetch", fetch)

    def _decode(self, row: int, count: int) -> Iterator[Array]:
        self._fetch()  # type: ignore[attr-defined]
        return super()._decode(row, count)


def decode(path: Path, first: int, count: int, rate_hz: float) -> Iterator[Array]:
    """Yield frames `first` ... `first + count - 1` of a file, (height, width, 3) uint8."""
    wanted = first
    try:
        with _opened(path) as video:
            for position, image in video.images_from(first, rate_hz):
                while position >= wanted and wanted < first + count:
                    # A frame that the recorder dropped is replaced by the next one.
                    yield video.as_array(image)
                    wanted += 1
                if wanted == first + count:
                    return
    except _unreadable() as error:
        raise DamagedDataset(
            f"{path} cannot be decoded ({error})", remedy="run `twinloop data verify`"
        ) from error
    raise DamagedDataset(
        f"{path} ends too early",
        got=f"{wanted} frames",
        expected=f"at least {first + count}",
        remedy="run `twinloop data verify`",
    )


class _OpenVideo:
    """An open video file with random access."""

    def __init__(self, path: Path) -> None:
        import av
        from av.video.reformatter import VideoReformatter

        self.container = av.open(str(path))
        self._stream = self.container.streams.video[0]
        self._stream.codec_context.thread_count = 1
        self._reformatter = VideoReformatter()

    def images_from(self, first: int, rate_hz: float) -> Iterator[tuple[int, Any]]:
        """Yield (number, image), starting at the last keyframe that is not after `first`."""
        per_tick = float(self._stream.time_base) * rate_hz
        start = first + 0.25
        while True:
            self.container.seek(int(start / per_tick), stream=self._stream, backward=True)
            images = ((round(p.pts * per_tick), p) for p in self.container.decode(self._stream))
            leading = next(images, None)
            if leading is None or leading[0] <= first or start == 0.0:
                break
            # If frames are stored out of order, the keyframe found may come after `first`.
            start = max(start - rate_hz, 0.0)
        if leading is not None:
            yield leading
            yield from images

    def as_array(self, image: Any) -> Array:
        """Convert to (height, width, 3) uint8, single-threaded: threads would not survive a fork."""
        array: Array = self._reformatter.reformat(image, format="rgb24", threads=1).to_ndarray()
        return array


OPEN_VIDEOS = 8
"""Video files kept open between reads: opening one takes longer than decoding a few frames."""

_idle: OrderedDict[tuple[object, ...], _OpenVideo] = OrderedDict()


@contextmanager
def _opened(path: Path) -> Iterator[_OpenVideo]:
    """Yield an open video that no other reader, thread or forked process uses at the same time."""
    status = path.stat()
    key = (os.getpid(), path, status.st_ino, status.st_size, status.st_mtime_ns)
    video = _idle.pop(key, None) or _OpenVideo(path)
    failed = False
    try:
        yield video
    except Exception:
        failed = True
        raise
    finally:
        if failed:
            video.container.close()
        else:
            _idle[key] = video
            if len(_idle) > OPEN_VIDEOS:
                _idle.popitem(last=False)


@dataclass(frozen=True)
class VideoExtent:
    """Size of a video: `length` is the number of rows it spans, `packets` the number of frames it contains."""

    packets: int
    length: int
    height: int
    width: int


def video_extent(path: Path, rate_hz: float) -> VideoExtent:
    """Measure a video from its packets, without decoding."""
    import av

    try:
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            packets, last = 0, -1
            for packet in container.demux(stream):
                if packet.size and packet.pts is not None:
                    packets += 1
                    last = max(last, round(float(packet.pts * stream.time_base) * rate_hz))
            return VideoExtent(packets, last + 1, stream.height, stream.width)
    except _unreadable() as error:
        raise DamagedDataset(f"{path} cannot be read as video ({error})") from error


def join_videos(clips: Sequence[tuple[Path, int, int]], out: Path, rate_hz: float) -> None:
    """Copy the packets of clips `(file, first frame, frames)` into one file, without decoding.

    Each clip must start at a keyframe.
    """
    try:
        _join_clips(clips, out, rate_hz)
    except _unreadable() as error:
        names = ", ".join(dict.fromkeys(str(path) for path, _, _ in clips))
        raise DamagedDataset(
            f"frames of {names} cannot be copied ({error})", remedy="run `twinloop data verify`"
        ) from error


def _join_clips(clips: Sequence[tuple[Path, int, int]], out: Path, rate_hz: float) -> None:
    import av

    with av.open(str(out), "w", format="mp4") as target:
        stream: Any = None
        written = 0
        for path, first, count in clips:
            with av.open(str(path)) as source:
                origin = source.streams.video[0]
                if stream is None:
                    stream = target.add_stream_from_template(origin)
                    stream.time_base = origin.time_base
                taken = 0
                if first > 0:
                    source.seek(int((first - 0.5) / rate_hz / origin.time_base), stream=origin, backward=True)
                for packet in source.demux(origin):
                    if packet.size == 0 or packet.pts is None:
                        continue
                    position = round(float(packet.pts * origin.time_base) * rate_hz)
                    if not first <= position < first + count:
                        continue
                    if taken == 0 and not packet.is_keyframe:
                        raise DamagedDataset(
                            f"{path}: frame {first} is not a keyframe, so it cannot be cut there"
                        )
                    shown = round((written + position - first) / rate_hz / stream.time_base)
                    packet.pts = packet.dts = shown
                    packet.stream = stream
                    target.mux(packet)
                    taken += 1
                if taken != count:
                    raise DamagedDataset(f"{path} ends too early", got=f"{taken} frames", expected=count)
            written += count


def _unreadable() -> tuple[type[Exception], ...]:
    """Return the exceptions that reading a broken video raises; a stream of unknown codec lacks attributes."""
    import av

    return (av.FFmpegError, OSError, IndexError, ValueError, TypeError, AttributeError)


def _rate(rate_hz: float) -> Fraction:
    """Return a rate exact enough that frame k is at k / rate even at the end of a long file."""
    if rate_hz >= 1:
        return Fraction(rate_hz).limit_denominator(1000)
    return 1 / (1 / Fraction(rate_hz)).limit_denominator(1000)


def _pixel_format(camera: Camera) -> str:
    """Return 4:2:0, or 4:4:4 for odd sizes, which 4:2:0 cannot represent."""
    return "yuv420p" if camera.width % 2 == 0 and camera.height % 2 == 0 else "yuv444p"
