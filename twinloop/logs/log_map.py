"""The log map: what the channels of a log mean. YAML on disk, frozen values here, errors that name the key.

A map holds everything that a log lacks: which channel is which signal, its unit, order, sign, frame and clock, where
episodes begin, who recorded it and under which consent. Nothing is guessed at ingest.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from twinloop.episode import Actor, Source
from twinloop.logs.derived import Formula, parse_formula
from twinloop.logs.map_values import Factors, MapPart, Names, Numbers, Units
from twinloop.logs.units import LOG_UNITS
from twinloop.yaml_models import load_model, nearest_name, parse_model

Method = Literal["linear", "previous", "nearest", "slerp"]


class Clock(MapPart):
    """Where the time stamps of a stream come from.

    `channel` names the channel (in `unit`; `column` if it has several); without it the log's own time is used.
    `rate_hz` is for logs without time stamps, whose rows are assumed to be evenly spaced. `out_of_order: drop` drops
    and counts samples whose time does not increase; the default refuses the log. A clock longer than its stream is an
    error unless `longer: cut_end` declares that the last time stamps have no sample.
    """

    channel: str | None = None
    column: int | None = None
    unit: Literal["s", "ms", "us", "ns"] = "s"
    rate_hz: float | None = Field(default=None, gt=0)
    out_of_order: Literal["refuse", "drop"] = "refuse"
    longer: Literal["refuse", "cut_end"] = "refuse"

    @model_validator(mode="after")
    def _one_kind(self) -> Clock:
        if self.channel is not None and self.rate_hz is not None:
            raise ValueError("give either channel or rate_hz, not both")
        return self


def _as_clock(value: Any) -> Any:
    return {"channel": value} if isinstance(value, str) else value


AnyClock = Annotated[Clock, BeforeValidator(_as_clock)]


def _as_formula(value: Any) -> Any:
    return parse_formula(value) if isinstance(value, str) else value


AnyFormula = Annotated[Formula, BeforeValidator(_as_formula), PlainSerializer(str)]


class SignalMap(MapPart):
    """One signal of the dataset: stored = sign * (scale * raw, converted from `unit` to `to`) + offset.

    `from` is one channel, or several that are concatenated; `columns` selects and orders their elements by number or
    name. `offset` is in the stored unit. A quaternion is stored w first, whatever its order in the log. `frame` is the
    frame of a vector; with `rotate_by` (a quaternion signal of this map, body to world) a body-frame vector is stored
    in the world frame. `unwrap` makes an angle continuous that is logged within one turn. A unit may be `unknown`, with the reason in `unknown_because`.
    """

    source: Names = Field(alias="from", min_length=1)
    unit: Units
    unknown_because: str = ""
    to: Units | None = None
    columns: tuple[int | str, ...] | None = None
    elements: tuple[str, ...] = ()
    sign: Factors = (1.0,)
    scale: Factors = (1.0,)
    offset: Numbers = (0.0,)
    dtype: str | None = None
    clock: AnyClock | None = None
    method: Method | None = None
    edges: Literal["cut", "hold"] = "cut"
    missing: Literal["refuse", "drop", "hold"] = "refuse"
    quaternion: Literal["wxyz", "xyzw"] | None = None
    frame: str | None = None
    rotate_by: str | None = None
    unwrap: bool = False


class ConstantMap(MapPart):
    """A signal with a constant value: from the map (`value`) or from a constant of the log (`from`)."""

    value: Numbers | None = None
    source: str | None = Field(default=None, alias="from")
    unit: Units = ("1",)
    unknown_because: str = ""
    to: Units | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> ConstantMap:
        if (self.value is None) == (self.source is None):
            raise ValueError("give either value or from")
        return self


class CameraMap(MapPart):
    """A camera: a channel of images (`from`), or a video file next to the log (`file`, {stem} is the log's name)."""

    source: str | None = Field(default=None, alias="from")
    file: str | None = None
    clock: AnyClock | None = None
    method: Literal["previous", "nearest"] = "nearest"

    @model_validator(mode="after")
    def _one_kind(self) -> CameraMap:
        if (self.source is None) == (self.file is None):
            raise ValueError("give either from or file")
        return self


class EpisodeMap(MapPart):
    """Where episodes begin and end.

    by: file (one log, one episode), parts (as the log declares, for LeRobot and robomimic), groups (channels named
    {group}/..., one episode per group that fits `groups`), offsets (an array of first rows), boundary (a channel
    that changes value), gaps (a pause of the row clock longer than `gap_s`).
    """

    by: Literal["file", "parts", "groups", "offsets", "boundary", "gaps"] = "file"
    groups: Names = ("*",)
    channel: str | None = None
    gap_s: float | None = Field(default=None, gt=0)
    leave_out: tuple[float | str, ...] = ()
    shortest_rows: int = Field(default=1, ge=1)
    longest_s: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _complete(self) -> EpisodeMap:
        if self.by in ("offsets", "boundary") and self.channel is None:
            raise ValueError(f"by: {self.by} needs channel")
        if self.longest_s is not None and self.by not in ("file", "groups", "gaps"):
            raise ValueError(f"longest_s goes with by: file, groups or gaps, not {self.by}")
        if self.by == "gaps" and self.gap_s is None:
            raise ValueError("by: gaps needs gap_s")
        return self


class Rows(MapPart):
    """The times of an episode's rows: the samples of one signal or camera (`like`), or evenly spaced (`rate_hz`)."""

    like: str | None = None
    rate_hz: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _one_kind(self) -> Rows:
        if self.like is not None and self.rate_hz is not None:
            raise ValueError("give either like or rate_hz")
        return self


class ProvenanceMap(MapPart):
    """Who recorded it, where, with which consent; `origin` and `licence` are those of the recording."""

    source: Source
    actor: Actor = "unknown"
    operator: str | None = None
    robot_serial: str | None = None
    site: str | None = None
    consent: str | None = None
    recorded_at: datetime | Literal["log"] | None = None
    origin: str | None = None
    licence: str | None = None


class LogMap(MapPart):
    """Everything needed to convert one kind of log to episodes.

    `derived` names channels computed from others: sums and differences, such as `a - b`.
    `clocks` names additional clocks, channels with a device's own time stamp of each row, stored as `clock.NAME`.
    """

    provenance: ProvenanceMap
    rate_hz: float = Field(gt=0)
    signals: dict[str, SignalMap] = Field(min_length=1)
    format: str | None = None
    files: Names | None = None
    robot_type: str = "unknown"
    task: str = ""
    success: bool | None = None
    episodes: EpisodeMap = EpisodeMap()
    clock: AnyClock | None = None
    clocks: dict[str, AnyClock] = Field(default_factory=dict)
    derived: dict[str, AnyFormula] = Field(default_factory=dict)
    rows: Rows = Rows()
    mixed_rates: bool = False
    time_zero: Literal["first_row", "log"] = "first_row"
    constants: dict[str, ConstantMap] = Field(default_factory=dict)
    cameras: dict[str, CameraMap] = Field(default_factory=dict)
    originals: Literal["resampled", "all", "none"] = "resampled"

    @model_validator(mode="after")
    def _names_exist(self) -> LogMap:
        streams = [*self.signals, *(f"camera {name}" for name in self.cameras)]
        if self.rows.like is not None and self.rows.like not in streams:
            raise ValueError(f"rows.like: {nearest_name(self.rows.like, streams)}")
        quaternions = [name for name, signal in self.signals.items() if signal.quaternion]
        for name, signal in self.signals.items():
            if signal.rotate_by is not None and signal.rotate_by not in quaternions:
                raise ValueError(f"signals.{name}.rotate_by: {nearest_name(signal.rotate_by, quaternions)}")
        for name, clock in self.clocks.items():
            if clock.channel is None:
                raise ValueError(f"clocks.{name} needs channel, the one with the time stamps")
        for name, formula in self.derived.items():
            if nested := [term for term in formula.channels if term in self.derived]:
                raise ValueError(f"derived.{name}: {nested[0]} is derived itself; write its channels out")
        if both := self.signals.keys() & self.constants.keys():
            raise ValueError(f"{min(both)} is a signal and a constant")
        return self

    @property
    def row_stream(self) -> str:
        """The signal or "camera NAME" whose samples are the rows, if they are not evenly spaced."""
        return self.rows.like or next(iter(self.signals))

    def channels_of(self, source: str) -> tuple[str, ...]:
        """Return the channels of the log behind a source: itself, or those it is derived from."""
        return self.derived[source].channels if source in self.derived else (source,)

    def clock_of(self, own: Clock | None) -> Clock:
        """Return the clock of one stream: its own, else the map's, else the log's."""
        return own or self.clock or Clock()


def load_map(source: str | Path) -> LogMap:
    """Load a map of log channels from a YAML file.

    Args:
        source: The file.

    Returns:
        The map: which channel becomes which signal, in which unit, on which clock.

    Raises:
        MapError: The file cannot be read, or a key or unit is unknown; the message names the nearest right one.
    """
    return load_model(LogMap, source, remedy="twinloop ingest SOURCE --propose writes one", hints=_MISSING)


def parse_map(text: str, name: str = "map") -> LogMap:
    """Parse a map from YAML text; an error names the key and the nearest valid one."""
    return parse_model(LogMap, text, name, hints=_MISSING)


_MISSING = {
    "unit": f"every signal needs its unit in the log: {', '.join(sorted(LOG_UNITS))}",
    "rate_hz": "the nominal rate of the rows, in Hz",
    "from": "the channel, or list of channels, of the signal",
    "source": "provenance.source is real, sim or unknown",
    "provenance": "at least provenance: {source: real}",
    "signals": "name at least one signal, for example observation.state",
}
