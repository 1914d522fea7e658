"""Convert raw samples to a signal: select elements, convert units, apply signs and offsets, reorder quaternions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.episode import DTYPES, Array, Signal
from twinloop.errors import LogError, MapError, UnknownName
from twinloop.logs.log_map import ConstantMap, SignalMap
from twinloop.logs.reader import Channel
from twinloop.logs.units import conversion, family_of, stored_unit

QUATERNION_TOLERANCE = 0.05
"""Largest deviation of a quaternion's norm from 1."""


@dataclass(frozen=True)
class Converter:
    """Converts the channels of one signal, for every episode of a log."""

    name: str
    signal: SignalMap
    channels: tuple[Channel, ...]

    def __call__(self, raw: Sequence[Array]) -> Array:
        """Convert to (n, *shape) in the stored unit and order."""
        values = self._select(raw)
        if self.signal.quaternion:
            return _w_first(values, self.signal.quaternion, self.name)
        if self._is_identity():
            return values
        factor, shift = np.array([conversion(u, to) for u, to in self._unit_pairs()]).T
        size = int(np.prod(values.shape[1:]))
        sign, scale, offset = (
            _broadcast(numbers, size, f"signals.{self.name}.{key}")
            for key, numbers in (
                ("sign", self.signal.sign),
                ("scale", self.signal.scale),
                ("offset", self.signal.offset),
            )
        )
        flat = values.reshape(len(values), -1).astype(np.float64)
        converted = sign * (scale * flat * factor + shift) + offset
        kind = np.float32 if values.dtype == np.float32 else np.float64
        return np.asarray(converted.astype(kind).reshape(values.shape))

    def unwrap(self, values: Array) -> Array:
        """Make converted angles continuous in time, if the map says so: (n, *shape)."""
        if not self.signal.unwrap:
            return values
        flat = values.reshape(len(values), -1).copy()
        units = [to for _, to in self._unit_pairs()]
        units = units * flat.shape[1] if len(units) == 1 else units
        angles = [i for i, unit in enumerate(units) if family_of(unit) == "angle"]
        if not angles or self.signal.quaternion:
            raise MapError(
                f"signals.{self.name}.unwrap: it has no angle",
                got=", ".join(dict.fromkeys(units)),
                expected="a unit of angles, such as rad or deg",
            )
        for i in angles:
            flat[:, i] = np.unwrap(flat[:, i], period=2 * np.pi * conversion("rad", units[i])[0])
        return flat.reshape(values.shape)

    def describe(self, example: Array) -> Signal:
        """Declare the signal from one converted example."""
        size = int(np.prod(example.shape[1:]))
        dtype = self.signal.dtype or example.dtype.name
        if dtype not in DTYPES:
            raise UnknownName(f"data type (signals.{self.name}.dtype)", dtype, DTYPES)
        units = self.signal.to or tuple(stored_unit(unit) for unit in self.signal.unit)
        elements = self.signal.elements or self._element_names(size)
        return Signal(self.name, tuple(example.shape[1:]), tuple(units), dtype, elements)

    @property
    def columns(self) -> tuple[str, ...]:
        """What is selected: names of columns, or their numbers and the table's width if it names none."""
        labels: list[str] = []
        for channel in self.channels:
            width = int(np.prod(channel.shape))
            if len(channel.elements) == width:
                labels += channel.elements
            elif channel.number_of is not None:
                labels.append(f"{channel.name} of {channel.number_of}")
            else:
                labels += [f"column {i} of {width}" for i in range(width)]
        picks = self.signal.columns
        if picks is None:
            return tuple(labels)
        return tuple(
            labels[c] if isinstance(c, int) and -len(labels) <= c < len(labels) else str(c) for c in picks
        )

    @property
    def summary(self) -> str:
        """The conversion in words, for the report."""
        parts = [f"{unit} to {to}" for unit, to in dict.fromkeys(self._unit_pairs()) if unit != to]
        if self.signal.quaternion == "xyzw":
            parts.append("quaternion xyzw to wxyz")
        for key in ("sign", "scale", "offset"):
            if len(set(getattr(self.signal, key)) - ({0.0} if key == "offset" else {1.0})):
                parts.append(f"{key} {', '.join(f'{n:g}' for n in getattr(self.signal, key))}")
        if self.signal.unwrap:
            parts.append("unwrapped")
        if self.signal.rotate_by:
            parts.append(f"body to world by {self.signal.rotate_by}")
        return "; ".join(parts)

    def _is_identity(self) -> bool:
        same = all(unit == to for unit, to in self._unit_pairs())
        return same and {*self.signal.sign, *self.signal.scale} == {1.0} and {*self.signal.offset} == {0.0}

    def _unit_pairs(self) -> list[tuple[str, str]]:
        to = self.signal.to or tuple(stored_unit(unit) for unit in self.signal.unit)
        if len(to) not in (1, len(self.signal.unit)):
            raise MapError(
                f"signals.{self.name}: {len(self.signal.unit)} units in the log but {len(to)} to store"
            )
        return list(zip(self.signal.unit, to * (len(self.signal.unit) // len(to)), strict=True))

    def _select(self, raw: Sequence[Array]) -> Array:
        for channel, values in zip(self.channels, raw, strict=True):
            if values.dtype.kind not in "biuf":
                raise LogError(f"channel {channel.name!r} holds text and cannot be used for {self.name}")
        if len(raw) == 1 and self.signal.columns is None:
            return raw[0]
        flat = np.concatenate([values.reshape(len(values), -1) for values in raw], axis=1)
        if self.signal.columns is None:
            return flat
        names = self._raw_names(flat.shape[1])
        picks = []
        for column in self.signal.columns:
            if isinstance(column, str):
                if column not in names:
                    raise UnknownName(f"element of {', '.join(self.signal.source)}", column, names)
                picks.append(names.index(column))
            elif -flat.shape[1] <= column < flat.shape[1]:
                picks.append(column)
            else:
                raise MapError(
                    f"signals.{self.name}.columns: there is no column {column}",
                    got=f"{flat.shape[1]} columns in {', '.join(self.signal.source)}",
                )
        return np.ascontiguousarray(flat[:, picks])

    def _raw_names(self, size: int) -> list[str]:
        names: list[str] = []
        for channel in self.channels:
            own = list(channel.elements)
            count = int(np.prod(channel.shape))
            if len(own) != count:
                last = channel.name.rsplit("/", 1)[-1]
                own = [last] if count == 1 else [f"{last}_{i}" for i in range(count)]
            names += own
        return names if len(names) == size else [str(i) for i in range(size)]

    def _element_names(self, size: int) -> tuple[str, ...]:
        if self.signal.quaternion:
            return ("w", "x", "y", "z")
        known = len(self.channels) > 1 or any(channel.elements for channel in self.channels)
        if not known:
            return ()
        total = sum(int(np.prod(channel.shape)) for channel in self.channels)
        names = self._raw_names(total)
        if self.signal.columns is not None:
            names = [names[c] if isinstance(c, int) else c for c in self.signal.columns]
        return tuple(names) if len(names) == size and len(set(names)) == size else ()


def rotate_vectors(vectors: Array, quaternions: Array) -> Array:
    """Rotate vectors (n, 3) by quaternions (n, 4), w first."""
    w, axis = quaternions[:, :1], quaternions[:, 1:]
    cross = np.cross(axis, vectors) * 2
    return np.asarray(vectors + w * cross + np.cross(axis, cross))


def constant_value(name: str, constant: ConstantMap, log: Mapping[str, Array]) -> Array:
    """Return the row of a constant signal, converted, float64."""
    raw = np.asarray(constant.value if constant.source is None else log[constant.source].reshape(-1))
    if raw.dtype.kind not in "biuf":
        raise LogError(f"constants.{name}: {constant.source!r} is text, not a number")
    to = constant.to or tuple(stored_unit(unit) for unit in constant.unit)
    pairs = [conversion(a, b) for a, b in zip(constant.unit, to, strict=len(to) == len(constant.unit))]
    factor, shift = np.array(pairs).T
    return np.asarray(raw.astype(np.float64) * factor + shift)


def _broadcast(numbers: Sequence[float], size: int, key: str) -> Array:
    if len(numbers) not in (1, size):
        raise MapError(f"{key} has {len(numbers)} numbers", expected=f"1 or {size}")
    return np.asarray(numbers)


def _w_first(values: Array, order: str, name: str) -> Array:
    flat = values.reshape(len(values), -1)
    if flat.shape[1] != 4:
        raise LogError(f"{name} is declared as a quaternion but has {flat.shape[1]} elements", expected=4)
    lengths = np.linalg.norm(flat, axis=1)
    if len(flat) and not np.all(np.abs(lengths - 1) <= QUATERNION_TOLERANCE):
        row = int(np.argmax(np.abs(lengths - 1)))
        raise LogError(
            f"{name} is not a unit quaternion at sample {row}",
            got=f"norm {lengths[row]:.3f}",
            remedy="check that `from` names the quaternion and `columns` selects its four elements",
        )
    return np.ascontiguousarray(flat if order == "wxyz" else flat[:, [3, 0, 1, 2]])
