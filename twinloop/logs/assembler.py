"""Assemble an `Episode` from a raw one: convert its streams, align them on rows, add provenance."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

import numpy as np

from twinloop.datasets.video import VideoFrames
from twinloop.episode import Array, Camera, Episode, Event, Provenance, Schema, Signal, make_episode
from twinloop.errors import LogError, MapError, WrongUse
from twinloop.logs.cameras import PlannedFrames, open_video_file
from twinloop.logs.clocks import (
    Stream,
    drop_out_of_order,
    exact_samples,
    find_shared_rows,
    measure_regularity,
    nearest_samples,
    resample,
    to_seconds,
)
from twinloop.logs.converter import Converter, constant_value, rotate_vectors
from twinloop.logs.device_clocks import device_clocks
from twinloop.logs.group_channels import GroupChannels
from twinloop.logs.log_map import CameraMap, Clock, SignalMap
from twinloop.logs.raw_episode import RawEpisode
from twinloop.logs.reader import Block
from twinloop.logs.stream_report import StreamReport
from twinloop.logs.units import stored_unit
from twinloop.twins.twin import Twin
from twinloop.version import __version__

RATE_TOLERANCE = 0.1
"""Largest relative difference between the rate of an episode and that of the map."""


@dataclass(frozen=True)
class Assembled:
    """An episode ready to be written, a report on each stream, and the original streams."""

    episode: Episode
    streams: tuple[StreamReport, ...]
    originals: Mapping[str, Stream]
    frames: Mapping[str, PlannedFrames]


@dataclass(frozen=True)
class _Loaded:
    stream: Stream
    out_of_order: int
    missing: int


class Assembler:
    """Assembles the episodes of one log (and group)."""

    def __init__(self, selected: GroupChannels, twin: Twin | None, accepted: Sequence[str]) -> None:
        self._map = selected.map
        self._log = selected.log
        self._channels = {name: selected.channels[full] for name, full in selected.full_names.items()}
        self._channels |= {
            name: formula.describe(name, self._channels)
            for name, formula in self._map.derived.items()
            if any(name in signal.source for signal in self._map.signals.values())
        }
        self._constants = selected.constants()
        self._twin = twin
        self._accepted = accepted
        self._converters = {
            name: Converter(name, signal, tuple(self._channels[source] for source in signal.source))
            for name, signal in self._map.signals.items()
        }

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The columns that each signal is read from, as far as the log tells them apart."""
        return {name: converter.columns for name, converter in self._converters.items() if converter.columns}

    def __call__(self, raw: RawEpisode, schema: Schema | None) -> Assembled:
        """Assemble one episode; its schema must equal `schema` if recorded."""
        loaded = {name: self._load(raw, name, signal) for name, signal in self._map.signals.items()}
        images = {name: self._images(raw, name, camera) for name, camera in self._map.cameras.items()}
        rows_s = self._rows(raw, loaded, images)
        self._check_rate(raw, rows_s)
        signals: dict[str, Array] = {}
        streams, originals = [], {}
        for name, signal in self._map.signals.items():
            signals[name], method = self._align(raw, name, signal, loaded[name].stream, rows_s)
            streams.append(self._report(name, signal, loaded[name], rows_s, method))
            if self._map.originals == "all" or (self._map.originals == "resampled" and method != "exact"):
                originals[name] = loaded[name].stream
        for name, signal in self._map.signals.items():
            if signal.rotate_by is not None:
                signals[name] = self._rotate(name, signals[name], signals[signal.rotate_by])
        for name, constant in self._map.constants.items():
            value = constant_value(name, constant, self._constants)
            signals[name] = np.repeat(value[None], len(rows_s), axis=0)
        signals |= device_clocks(self._map, lambda name: self._raw(raw, name), rows_s)
        frames = {
            name: replace(image, index=self._camera_rows(raw, name, image, rows_s))
            for name, image in images.items()
        }
        schema = schema or self._schema(signals, frames)
        return Assembled(
            self._episode(raw, rows_s, signals, frames, schema), tuple(streams), originals, frames
        )

    def _load(self, raw: RawEpisode, name: str, signal: SignalMap) -> _Loaded:
        parts = [self._raw(raw, source) for source in signal.source]
        if len({len(part.values) for part in parts}) > 1:
            counts = ", ".join(
                f"{source} {len(part.values)}" for source, part in zip(signal.source, parts, strict=True)
            )
            raise LogError(
                f"{raw.name}: the channels of {name} have different numbers of samples",
                got=counts,
                remedy="map them to separate signals",
            )
        clock = self._map.clock_of(signal.clock)
        values = self._converters[name]([part.values for part in parts])
        time_s = self._times(raw, name, clock, len(values), parts[0].time_s)
        values, time_s, missing = _handle_missing(values, time_s, signal, f"{raw.name}: {name}")
        if not len(values):
            raise LogError(f"{raw.name}: {name} has no samples")
        stream, lost = drop_out_of_order(Stream(time_s, values), clock, f"{raw.name}: {name}")
        stream = replace(stream, values=self._converters[name].unwrap(stream.values))
        return _Loaded(stream, lost, missing)

    def _raw(self, raw: RawEpisode, source: str) -> Block:
        if source in self._map.derived:
            return self._map.derived[source](source, lambda term: self._raw(raw, term))
        name = self._channels[source].name
        if name not in raw.channels:
            raise LogError(f"{raw.name}: channel {name!r} has no samples in this episode")
        return raw.channels[name]

    def _times(self, raw: RawEpisode, name: str, clock: Clock, count: int, own: Array | None) -> Array:
        if clock.rate_hz is not None:
            return np.arange(count) / clock.rate_hz
        if clock.channel is not None:
            stamps = to_seconds(self._raw(raw, clock.channel).values, clock)
            if len(stamps) > count and clock.longer == "cut_end":
                stamps = stamps[:count]
            if len(stamps) != count:
                raise LogError(
                    f"{raw.name}: {name} has {count} samples but its clock {clock.channel!r} has {len(stamps)}",
                    remedy="name another clock, or `clock: {longer: cut_end}` if the last stamps have no sample",
                )
            return stamps
        if own is None:
            raise MapError(
                f"{raw.name} has no time stamps, and the map names no clock for {name}",
                remedy="clock: CHANNEL, or clock: {rate_hz: ...} if the rows are evenly spaced",
            )
        return own

    def _images(self, raw: RawEpisode, name: str, camera: CameraMap) -> PlannedFrames:
        if camera.file is not None:
            return open_video_file(self._log.path, camera.file, self._map.rate_hz)
        assert camera.source is not None
        channel = self._channels[camera.source]
        found = raw.images.get(channel.name)
        if found is None:
            raise LogError(f"{raw.name}: camera {name!r} has no images in this episode")
        if isinstance(found, VideoFrames):
            return PlannedFrames.from_video(found)
        clock = self._map.clock_of(camera.clock)
        if not len(found):
            raise LogError(f"{raw.name}: camera {name!r} has no keyframe in this episode")
        if clock.channel is None and clock.rate_hz is None:
            stamped = None if np.isnan(found.time_s).any() else found.time_s
            times = self._times(raw, f"camera {name}", clock, len(found), stamped)
        else:
            count = found.undecodable + len(found)
            times = self._times(raw, f"camera {name}", clock, count, None)[found.undecodable :]
        if np.any(np.diff(times) <= 0):
            raise LogError(f"{raw.name}: the time stamps of camera {name!r} do not increase")
        return PlannedFrames.from_spool(found, times, channel)

    def _rows(
        self, raw: RawEpisode, loaded: Mapping[str, _Loaded], images: Mapping[str, PlannedFrames]
    ) -> Array:
        spans = {}
        for name, one in loaded.items():
            held = self._map.signals[name].edges == "hold"
            spans[name] = (-np.inf, np.inf) if held else (one.stream.time_s[0], one.stream.time_s[-1])
        half = 0.5 / self._map.rate_hz
        for name, image in images.items():
            if image.time_s is not None:
                spans[f"camera {name}"] = (image.time_s[0] - half, image.time_s[-1] + half)
        base: Array | None = None
        if self._map.rows.rate_hz is None:
            like = self._map.row_stream
            if like in loaded:
                base = loaded[like].stream.time_s
            else:
                base = images[like.removeprefix("camera ")].time_s
                if base is None:
                    raise MapError(f"rows.like: {like} has no time stamps")
        try:
            return find_shared_rows(base, self._map.rows.rate_hz, spans)
        except LogError as error:
            raise LogError(f"{raw.name}: {error.what}", remedy=error.remedy) from error

    def _check_rate(self, raw: RawEpisode, rows_s: Array) -> None:
        rate_hz = measure_regularity(rows_s).rate_hz
        if self._map.mixed_rates or len(rows_s) < 3:
            return
        if abs(rate_hz / self._map.rate_hz - 1) > RATE_TOLERANCE:
            raise LogError(
                f"{raw.name} runs at {rate_hz:.4g} Hz",
                expected=f"{self._map.rate_hz:g} Hz, as in the map",
                remedy="correct rate_hz, resample with rows: {rate_hz: ...}, check the clock's unit, "
                "or set mixed_rates: true",
            )

    def _align(
        self, raw: RawEpisode, name: str, signal: SignalMap, stream: Stream, rows_s: Array
    ) -> tuple[Array, str]:
        places = exact_samples(stream, rows_s)
        if places is not None:
            return stream.values[places], "exact"
        if signal.method is None:
            raise MapError(
                f"{raw.name}: {name} is not sampled at the times of the rows",
                got=f"stream from {stream.time_s[0]:.6f} s, rows from {rows_s[0]:.6f} s",
                remedy=f"choose a resampling method: signals.{name}.method: linear, previous, nearest or slerp",
            )
        if (signal.method == "slerp") != bool(signal.quaternion) and signal.method in ("slerp", "linear"):
            raise MapError(
                f"signals.{name}.method: {signal.method} does not apply",
                expected="slerp for quaternions, and only for them",
            )
        return resample(stream, rows_s, signal.method), signal.method

    def _rotate(self, name: str, vectors: Array, quaternions: Array) -> Array:
        if vectors.shape[1:] != (3,):
            raise MapError(
                f"signals.{name}.rotate_by: only vectors of 3 elements can be rotated", got=vectors.shape[1:]
            )
        return rotate_vectors(vectors.astype(np.float64), quaternions.astype(np.float64)).astype(
            vectors.dtype
        )

    def _camera_rows(self, raw: RawEpisode, name: str, image: PlannedFrames, rows_s: Array) -> Array:
        """Choose the image of each row."""
        if image.time_s is None:
            if len(image.source) != len(rows_s):
                raise LogError(
                    f"{raw.name}: the video of camera {name!r} and the episode have different lengths",
                    got=f"{len(image.source)} frames",
                    expected=f"{len(rows_s)} rows",
                )
            return np.arange(len(rows_s))
        if self._map.cameras[name].method == "nearest":
            return nearest_samples(image.time_s, rows_s)
        return np.clip(np.searchsorted(image.time_s, rows_s, side="right") - 1, 0, None)

    def _schema(self, signals: Mapping[str, Array], frames: Mapping[str, PlannedFrames]) -> Schema:
        declared = [self._converters[name].describe(signals[name]) for name in self._map.signals]
        for name, constant in self._map.constants.items():
            units = constant.to or tuple(stored_unit(unit) for unit in constant.unit)
            declared.append(Signal(name, signals[name].shape[1:], tuple(units), "float64"))
        declared += [Signal(name, (1,), ("s",), "float64") for name in signals if name.startswith("clock.")]
        cameras = tuple(Camera(name, frame.height, frame.width) for name, frame in frames.items())
        return Schema(tuple(declared), self._map.rate_hz, cameras, self._map.robot_type)

    def _episode(
        self,
        raw: RawEpisode,
        rows_s: Array,
        signals: Mapping[str, Array],
        frames: Mapping[str, PlannedFrames],
        schema: Schema,
    ) -> Episode:
        zero = float(rows_s[0]) if self._map.time_zero == "first_row" else 0.0
        events = [Event(float(rows_s[0]) - zero, "ingested_from", raw.name)]
        if zero:
            events.append(Event(0.0, "clock_origin", f"{zero!r} s"))
        try:
            return make_episode(
                schema,
                rows_s - zero,
                signals,
                frames=dict(frames),
                events=events,
                success=self._map.success,
                task=self._text(self._map.task) or raw.task,
                provenance=self._provenance(float(rows_s[0])),
            )
        except (LogError, WrongUse):
            raise
        except ValueError as error:
            raise LogError(f"{raw.name}: {error}") from error

    def _text(self, template: str) -> str:
        def fill(match: re.Match[str]) -> str:
            name = match[1].replace("{group}", str(self._constants["group"]))
            if name not in self._constants:
                raise MapError(
                    f"task: {{{name}}} is not a constant of the log", available=sorted(self._constants)
                )
            value = np.asarray(self._constants[name]).reshape(-1)[0]
            return f"{value:g}" if isinstance(value, np.floating) else str(value)

        return re.sub(r"\{([^{}]+)\}", fill, template)

    def _provenance(self, start_s: float) -> Provenance:
        recorded = self._map.provenance
        recorded_at: datetime | None = None
        if recorded.recorded_at == "log":
            try:
                recorded_at = datetime.fromtimestamp(start_s, UTC)
            except (ValueError, OverflowError, OSError) as error:
                raise LogError("the log's clock does not give a date", got=f"{start_s:g} s") from error
        elif (at := recorded.recorded_at) is not None:
            recorded_at = at.replace(tzinfo=at.tzinfo or UTC).astimezone(UTC)
        accepted = {"accepted_guesses": "; ".join(self._accepted)[:500]} if self._accepted else {}
        return Provenance(
            twin=self._twin.name if self._twin else None,
            twin_version=self._twin.version if self._twin else None,
            twin_hash=self._twin.content_hash if self._twin else None,
            actor_id=recorded.operator,
            recorded_at=recorded_at,
            software={"twinloop": __version__, "log_format": self._log.format} | accepted,
            **recorded.model_dump(include={"source", "actor", "robot_serial", "site", "consent"}),
        )

    def _report(
        self, name: str, signal: SignalMap, loaded: _Loaded, rows_s: Array, method: str
    ) -> StreamReport:
        time_s = loaded.stream.time_s
        how = measure_regularity(time_s)
        inside = int(((time_s >= rows_s[0]) & (time_s <= rows_s[-1])).sum())
        return StreamReport(
            name=name,
            source=", ".join(signal.source),
            method=method,
            conversion=self._converters[name].summary,
            episodes=1,
            offset_s=float(time_s[0] - rows_s[0]),
            out_of_order=loaded.out_of_order,
            missing=loaded.missing,
            unused=how.samples - inside,
            **asdict(how),
        )


def _handle_missing(values: Array, time_s: Array, signal: SignalMap, what: str) -> tuple[Array, Array, int]:
    """Refuse, drop or hold samples with NaN or infinity, as the map says; also returns their number."""
    if values.dtype.kind != "f":
        return values, time_s, 0
    bad = np.asarray(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
    count = int(bad.sum())
    if not count:
        return values, time_s, 0
    if signal.missing == "refuse":
        row = int(np.flatnonzero(bad)[0])
        raise LogError(
            f"{what} is not finite at sample {row}",
            got=f"{count} samples with NaN or infinity",
            remedy="choose in the map: missing: drop, or missing: hold",
        )
    if signal.missing == "drop":
        return values[~bad], time_s[~bad], count
    last_good = np.maximum.accumulate(np.where(bad, -1, np.arange(len(bad))))
    known = last_good >= 0
    return values[last_good[known]], time_s[known], count
