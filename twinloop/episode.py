"""The types every other module shares: `Episode`, its `Schema` and its `Provenance`.

Real and simulated episodes have the same type. All types are immutable; `make_episode` copies, freezes and checks
arrays, so later code does not have to check them again.

Shapes: an episode has T rows. `time_s` is (T,), every signal is (T, *signal.shape), every camera is (T, height,
width, 3) uint8. Row t holds what was observed at `time_s[t]` and the action sent then; the state that followed is
row t + 1.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, Protocol, get_args, overload

import numpy as np
from numpy.typing import NDArray

from twinloop.errors import InvalidEpisode, UnknownName

Array = NDArray[Any]
Source = Literal["sim", "real", "standin", "unknown"]
Actor = Literal["expert", "policy", "operator", "excitation", "unknown"]

UNITS = frozenset(
    "1 rad deg m mm cm s ms Hz kg g N N·m V A W K °C px % bool lux "
    "rad/s rad/s² deg/s m/s m/s² N/m N·m/rad N·m·s/rad N·s/m kg·m² 1/(N·m) Ω V·s/rad unknown".split()
)
"""Units a signal may carry. "1" is a plain number; "unknown" marks foreign data without declared units."""

DTYPES = frozenset("float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 bool".split())

RESERVED = frozenset("timestamp frame_index episode_index index task_index time_s".split())
"""Column names of the on-disk layout, which a signal may not use."""

MAX_CAMERA_SIDE = 16_384
"""Most pixels along a side of an image."""
MAX_FOLDER_NAME_BYTES = 255
"""The limit of every common file system."""

_NAME = re.compile(r"[A-Za-z_][\w\-]*(\.[\w\-]+)*")
_CAMERA_NAME = re.compile(r"[A-Za-z_][\w\-]*")


@dataclass(frozen=True)
class Signal:
    """One named channel of an episode: `observation.state`, `action`, `observation.force` ...

    `shape` is per row and never empty: a scalar is (1,). `units` holds one unit for all elements or one for each.
    """

    name: str
    shape: tuple[int, ...] = (1,)
    units: tuple[str, ...] = ("1",)
    dtype: str = "float32"
    elements: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        where = f"signal {self.name!r}"
        is_camera = self.name.startswith("observation.images.")
        if not _NAME.fullmatch(self.name) or self.name in RESERVED or is_camera:
            raise InvalidEpisode(
                f"{where}: bad name",
                expected="letters, digits, '_', '-' and '.'; not a reserved column, not a camera",
                remedy=f"rename it; reserved names are {', '.join(sorted(RESERVED))} and observation.images.*",
            )
        if self.dtype not in DTYPES:
            raise UnknownName(f"data type for {where}", self.dtype, DTYPES)
        if not self.shape or any(size < 1 for size in self.shape):
            raise InvalidEpisode(
                f"{where}: bad shape", got=self.shape, expected="sizes >= 1; a scalar is (1,)"
            )
        if len(self.units) not in (1, self.size):
            raise InvalidEpisode(
                f"{where}: wrong number of units", got=len(self.units), expected=f"1 or {self.size}"
            )
        for unit in self.units:
            if unit not in UNITS:
                raise UnknownName(f"unit (for {where})", unit, UNITS)
        for element in self.elements:
            _check_text(f"an element name of {where}", element)
        if self.elements and len(self.elements) != self.size:
            raise InvalidEpisode(
                f"{where}: wrong number of element names", got=len(self.elements), expected=self.size
            )

    @property
    def size(self) -> int:
        """Numbers per row."""
        return int(np.prod(self.shape))


@dataclass(frozen=True)
class Camera:
    """One camera: RGB, 8 bits a channel, one frame per row."""

    name: str
    height: int
    width: int

    def __post_init__(self) -> None:
        if not _CAMERA_NAME.fullmatch(self.name):
            raise InvalidEpisode(f"camera {self.name!r}: bad name", expected="letters, digits, '_', '-'")
        if len(self.key.encode(errors="replace")) > MAX_FOLDER_NAME_BYTES:
            raise InvalidEpisode(
                f"the name of camera {self.name[:20]!r}... is too long for a folder name",
                got=len(self.name),
                expected=f"at most {MAX_FOLDER_NAME_BYTES - len('observation.images.')} bytes",
            )
        if not (1 <= self.height <= MAX_CAMERA_SIDE and 1 <= self.width <= MAX_CAMERA_SIDE):
            raise InvalidEpisode(
                f"camera {self.name!r}: bad size",
                got=(self.height, self.width),
                expected=f"1 x 1 to {MAX_CAMERA_SIDE} x {MAX_CAMERA_SIDE}",
            )

    @property
    def key(self) -> str:
        """The camera's feature name on disk."""
        return f"observation.images.{self.name}"


@dataclass(frozen=True)
class Schema:
    """The signals, cameras and nominal rate that all episodes of a dataset have."""

    signals: tuple[Signal, ...]
    rate_hz: float
    cameras: tuple[Camera, ...] = ()
    robot_type: str = "unknown"

    def __post_init__(self) -> None:
        if not self.signals:
            raise InvalidEpisode("a schema needs at least one signal")
        names = [s.name for s in self.signals] + [c.key for c in self.cameras]
        if duplicates := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidEpisode("a schema has duplicate names", got=", ".join(duplicates))
        _check_text("robot_type", self.robot_type)
        if not (np.isfinite(self.rate_hz) and self.rate_hz > 0):
            raise InvalidEpisode("the nominal rate must be positive", got=self.rate_hz)

    def signal(self, name: str) -> Signal:
        """The signal called `name`."""
        for signal in self.signals:
            if signal.name == name:
                return signal
        raise UnknownName("signal", name, [s.name for s in self.signals])

    def camera(self, name: str) -> Camera:
        """The camera called `name`."""
        for camera in self.cameras:
            if camera.name == name:
                return camera
        raise UnknownName("camera", name, [c.name for c in self.cameras])

    def difference(self, other: Schema) -> str | None:
        """Describe the first difference between `other` and this schema; None if they are equal."""
        mine: dict[str, Any] = {s.name: s for s in self.signals} | {c.key: c for c in self.cameras}
        theirs: dict[str, Any] = {s.name: s for s in other.signals} | {c.key: c for c in other.cameras}
        if missing := sorted(mine.keys() - theirs.keys()):
            return f"{', '.join(missing)} missing"
        if extra := sorted(theirs.keys() - mine.keys()):
            return f"{', '.join(extra)} not expected"
        for name, declared in mine.items():
            for part in fields(declared):
                want, got = getattr(declared, part.name), getattr(theirs[name], part.name)
                if want != got:
                    return f"{part.name} of {name}: got {got}, expected {want}"
        if self.rate_hz != other.rate_hz:
            return f"rate: got {other.rate_hz:g} Hz, expected {self.rate_hz:g} Hz"
        if self.robot_type != other.robot_type:
            return f"robot_type: got {other.robot_type!r}, expected {self.robot_type!r}"
        return None


@dataclass(frozen=True)
class Event:
    """A timed event: `Event(1.24, "contact", "finger_left cube")`."""

    time_s: float
    kind: str
    detail: str = ""


@dataclass(frozen=True)
class Provenance:
    """Where an episode came from; for a simulated one, enough to regenerate it bit for bit.

    `source` is "standin" for a robot simulated in another engine in place of a real one: it is recorded like a real
    robot and never called real. `draw` holds the exact value of every randomized parameter. `parents` are the ids of
    the episodes this one was derived from. `consent` is the id of a consent record; it never names the person.
    """

    source: Source = "unknown"
    engine: str | None = None
    engine_version: str | None = None
    twin: str | None = None
    twin_version: str | None = None
    twin_hash: str | None = None
    randomization: str | None = None
    draw: Mapping[str, float | str] = field(default_factory=dict)
    seed: int | None = None
    actor: Actor = "unknown"
    actor_id: str | None = None
    robot_serial: str | None = None
    site: str | None = None
    recorded_at: datetime | None = None
    consent: str | None = None
    parents: tuple[str, ...] = ()
    software: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.source not in get_args(Source):
            raise UnknownName("source", self.source, get_args(Source))
        if self.actor not in get_args(Actor):
            raise UnknownName("actor", self.actor, get_args(Actor))
        if self.seed is not None and (type(self.seed) is not int or not -(2**63) <= self.seed < 2**63):
            raise InvalidEpisode("bad seed", got=repr(self.seed), expected="an int that fits 64 bits")
        for name in _TEXT_FIELDS:
            if (text := getattr(self, name)) is not None:
                _check_text(name, text)
        for parent in self.parents:
            _check_text("a parent", parent)
        for name, text in self.software.items():
            _check_text("a name in software", name)
            _check_text(f"software {name!r}", text)
        for name, value in self.draw.items():
            _check_text("a name in draw", name)
            if isinstance(value, str):
                _check_text(f"draw of {name!r}", value)
            if not isinstance(value, float | str) or (isinstance(value, float) and not np.isfinite(value)):
                raise InvalidEpisode(
                    f"draw of {name!r}", got=repr(value), expected="a finite float or a string"
                )
        if self.recorded_at is not None and (
            not isinstance(self.recorded_at, datetime) or self.recorded_at.tzinfo != UTC
        ):
            raise InvalidEpisode("recorded_at must be in UTC", got=self.recorded_at)

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        return values | {
            "draw": dict(self.draw),
            "software": dict(self.software),
            "parents": list(self.parents),
            "recorded_at": self.recorded_at.isoformat() if self.recorded_at else None,
        }


_TEXT_FIELDS = (
    "engine engine_version twin twin_version twin_hash randomization actor_id robot_serial site consent"
).split()


def _check_text(what: str, value: object) -> None:
    """Refuse text that cannot be stored; one bad string would fail the whole commit."""
    if not isinstance(value, str):
        raise InvalidEpisode(f"{what} is not text", got=repr(value), expected="a string")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidEpisode(f"{what} is not valid Unicode", got=ascii(value)) from error


class Frames(Protocol):
    """Camera frames of one episode, shape (T, height, width, 3) uint8: an array, or a video decoded on demand."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(T, height, width, 3)."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...

    @overload
    def __getitem__(self, index: int) -> Array: ...
    @overload
    def __getitem__(self, index: slice) -> Array: ...


@dataclass(frozen=True)
class Outcome:
    """How an episode ended; None means unknown."""

    success: bool | None = None
    failure: str | None = None

    def __post_init__(self) -> None:
        if self.success is not None and not isinstance(self.success, bool):
            raise InvalidEpisode("bad success", got=repr(self.success), expected="True, False or None")
        if self.failure is not None:
            _check_text("failure", self.failure)
        if self.success and self.failure:
            raise InvalidEpisode("a successful episode has no failure label", got=repr(self.failure))


@dataclass(frozen=True, eq=False)
class Episode:
    """One trajectory. Build it with `make_episode`; change a copy with `dataclasses.replace`."""

    id: str
    schema: Schema
    time_s: Array
    signals: Mapping[str, Array]
    frames: Mapping[str, Frames]
    events: tuple[Event, ...]
    outcome: Outcome
    task: str
    provenance: Provenance

    def __len__(self) -> int:
        return len(self.time_s)

    @property
    def success(self) -> bool | None:
        """Whether the task succeeded; None if unknown."""
        return self.outcome.success

    @property
    def duration_s(self) -> float:
        """Time from the first to the last row."""
        return float(self.time_s[-1] - self.time_s[0])

    def __getitem__(self, name: str) -> Array:
        """The rows of one signal, shape (T, *signal.shape)."""
        self.schema.signal(name)
        return self.signals[name]

    def with_provenance(self, **changes: Any) -> Episode:
        """Return a copy with changed provenance and the content id that follows from it."""
        provenance = replace(self.provenance, **changes)
        new_id = content_id(self.schema, self.time_s, self.signals, self.events, self.task, provenance)
        return replace(self, provenance=provenance, id=new_id)


def make_episode(
    schema: Schema,
    time_s: Sequence[float] | Array,
    signals: Mapping[str, Any],
    *,
    frames: Mapping[str, Frames] | None = None,
    events: Sequence[Event] = (),
    success: bool | None = None,
    failure: str | None = None,
    task: str = "",
    provenance: Provenance | None = None,
) -> Episode:
    """Make one episode: copy, freeze and check its signals.

    Args:
        schema: Signals, cameras and nominal rate that the episode declares.
        time_s: Time stamp of each row in seconds, strictly increasing, shape (rows,).
        signals: Array of each declared signal by name, shape (rows, *signal.shape), in the signal's units.
        frames: Images of each declared camera by name: an array (rows, height, width, 3) of uint8, or an iterable of
            (height, width, 3) in order. They are not copied.
        events: What happened at which moment, times in seconds.
        success: Whether the task was solved; None if unknown.
        failure: Reason of the failure, one word or a few.
        task: What the robot was asked to do, in words.
        provenance: Where the episode comes from; by default an unknown source.

    Returns:
        The episode, read-only.

    Raises:
        InvalidEpisode: A signal or camera is missing or undeclared, has the wrong shape or holds a NaN, or time does not
            increase. The message names the signal, the row and the remedy.
    """
    try:
        times = _frozen(np.asarray(time_s, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InvalidEpisode(f"time_s is not an array of numbers ({error})") from error
    _check_times(times)
    checked = _checked_signals(schema, signals, len(times))
    frames = dict(frames or {})
    _check_frames(schema, frames, len(times))
    ordered = tuple(events)
    _check_text("task", task)
    for event in ordered:
        _check_text("the kind of an event", event.kind)
        _check_text(f"the detail of event {event.kind!r}", event.detail)
        if not isinstance(event.time_s, int | float) or not np.isfinite(event.time_s):
            raise InvalidEpisode(f"event {event.kind!r} has no finite time", got=event.time_s)
    provenance = provenance or Provenance()
    return Episode(
        id=content_id(schema, times, checked, ordered, task, provenance),
        schema=schema,
        time_s=times,
        signals=checked,
        frames=frames,
        events=ordered,
        outcome=Outcome(bool(success) if isinstance(success, np.bool_) else success, failure),
        task=task,
        provenance=provenance,
    )


def content_id(
    schema: Schema,
    time_s: Array,
    signals: Mapping[str, Array],
    events: Sequence[Event],
    task: str,
    provenance: Provenance,
) -> str:
    """Return the 128-bit content hash that identifies an episode.

    Frames and outcome are not hashed: frames may be streamed, and a corrected label must not change the id.
    """
    digest = hashlib.blake2b(digest_size=16)
    content = _schema_json(schema) | {
        "events": [asdict(e) for e in events],
        "task": task,
        "provenance": provenance.as_json(),
    }
    digest.update(json.dumps(content, sort_keys=True).encode())
    digest.update(np.ascontiguousarray(time_s).data)
    for signal in schema.signals:
        digest.update(np.ascontiguousarray(signals[signal.name]).data)
    return digest.hexdigest()


@lru_cache(maxsize=8)
def _schema_json(schema: Schema) -> dict[str, Any]:
    return {
        "signals": [asdict(s) for s in schema.signals],
        "cameras": [asdict(c) for c in schema.cameras],
        "rate_hz": schema.rate_hz,
    }


def _frozen(array: Array) -> Array:
    if array.flags.writeable or array.base is not None:
        array = array.copy()
    array.flags.writeable = False
    return array


def _check_times(times: Array) -> None:
    if times.ndim != 1 or len(times) == 0:
        raise InvalidEpisode("an episode needs at least one row", got=f"time_s of shape {times.shape}")
    if not np.isfinite(times).all():
        row = int(np.flatnonzero(~np.isfinite(times))[0])
        raise InvalidEpisode(f"time_s is not finite at row {row}", got=times[row])
    backwards = np.flatnonzero(np.diff(times) <= 0)
    if len(backwards):
        row = int(backwards[0]) + 1
        raise InvalidEpisode(
            f"time does not move forward at row {row}",
            got=f"{times[row - 1]:.6f} s then {times[row]:.6f} s",
            expected="strictly increasing time stamps in seconds",
            remedy="sort the rows, drop repeated samples, or split the episode where the clock was reset",
        )


def _checked_signals(schema: Schema, signals: Mapping[str, Any], rows: int) -> dict[str, Array]:
    declared = {s.name for s in schema.signals}
    if unknown := sorted(signals.keys() - declared):
        raise UnknownName("declared signal", unknown[0], declared)
    if missing := sorted(declared - signals.keys()):
        raise InvalidEpisode(f"signal {missing[0]!r} is declared but absent", available=sorted(signals))
    return {signal.name: _checked_signal(signal, signals[signal.name], rows) for signal in schema.signals}


def _checked_signal(signal: Signal, values: Any, rows: int) -> Array:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidEpisode(f"signal {signal.name!r} is not an array ({error})") from error
    if array.shape == (rows,) and signal.shape == (1,):
        array = array[:, None]
    if array.shape != (rows, *signal.shape):
        raise InvalidEpisode(
            f"signal {signal.name!r} has the wrong shape", got=array.shape, expected=(rows, *signal.shape)
        )
    if not np.can_cast(array.dtype, signal.dtype, casting="same_kind"):
        raise InvalidEpisode(
            f"signal {signal.name!r} has the wrong type", got=array.dtype, expected=signal.dtype
        )
    with np.errstate(over="ignore"):
        converted = array.astype(signal.dtype, casting="same_kind", copy=False)
    if converted.dtype.kind == "f" and not np.isfinite(converted).all():
        row, *element = (int(i) for i in np.argwhere(~np.isfinite(converted))[0])
        raise InvalidEpisode(
            f"signal {signal.name!r} is not finite at row {row}, element {element}",
            got=array[(row, *element)],
            remedy="drop the row, or fill the gap and say so in an event",
        )
    if converted.dtype.kind in "iu" and not np.array_equal(converted, array):
        raise InvalidEpisode(f"signal {signal.name!r} overflows", got=array.dtype, expected=signal.dtype)
    return _frozen(converted)


def _check_frames(schema: Schema, frames: Mapping[str, Frames], rows: int) -> None:
    declared = {c.name: c for c in schema.cameras}
    if unknown := sorted(frames.keys() - declared.keys()):
        raise UnknownName("declared camera", unknown[0], declared)
    for name, camera in declared.items():
        if name not in frames:
            raise InvalidEpisode(f"camera {name!r} is declared but has no frames", available=sorted(frames))
        expected = (rows, camera.height, camera.width, 3)
        if tuple(frames[name].shape) != expected:
            raise InvalidEpisode(
                f"frames of camera {name!r} have the wrong shape",
                got=tuple(frames[name].shape),
                expected=expected,
            )
        dtype = getattr(frames[name], "dtype", np.dtype(np.uint8))
        if dtype != np.uint8:
            raise InvalidEpisode(
                f"frames of camera {name!r} have the wrong type", got=dtype, expected="uint8, RGB"
            )
