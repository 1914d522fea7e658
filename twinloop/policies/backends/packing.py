"""msgpack with arrays, as policy servers write it. What is received is bounded, and never executed or trusted in size.

Three layouts of an array are in use, and all are read:

    openpi     {b"__ndarray__": True, b"data": bytes, b"dtype": "<f4", b"shape": [...]}, and b"__npgeneric__" for one number
    vla-eval   {"__ndarray__": True, "data": bytes, "dtype": "<f4", "shape": [...]}
    GR00T      {"__ndarray_class__": True, "as_npy": bytes of an .npy file}

Only numbers and booleans are arrays; there is no layout for objects, and .npy files are read without NumPy's unpickler.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Literal

import numpy as np

from twinloop.episode import Array
from twinloop.errors import MissingExtra, PolicyGone

Layout = Literal["openpi", "vla-eval", "groot"]

MAX_BYTES = 1 << 25
"""Of one message, unless the reader says otherwise."""
MAX_CONTAINERS = 20_000
"""Lists and maps in a message, so that a few bytes cannot become a million objects."""
MAX_LIST = 4096
MAX_MAP = 1024
MAX_DIMENSIONS = 6
MAX_DEPTH = 32

_DTYPE = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248])")
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([^']{1,9})', 'fortran_order': (True|False), 'shape': \(([0-9, ]{0,99})\), \} *\n",
    re.DOTALL,
)


def pack(value: Any, layout: Layout = "openpi") -> bytes:
    """Pack plain values and arrays of numbers into one message.

    Args:
        value: Dictionaries with text as keys, lists, text, numbers, booleans, None and arrays.
        layout: How arrays are written.

    Returns:
        The message.
    """
    packed: bytes = _msgpack().packb(value, default=_ENCODERS[layout], use_bin_type=True)
    return packed


def unpack(data: bytes, max_bytes: int = MAX_BYTES) -> Any:
    """Read a message in any of the three layouts.

    Args:
        data: The message.
        max_bytes: More are refused.

    Returns:
        Plain values and arrays; arrays are read-only views of the message.

    Raises:
        PolicyGone: It is not a message, or too large.
    """
    if len(data) > max_bytes:
        raise PolicyGone("a message is too long", got=f"{len(data)} bytes", expected=f"at most {max_bytes}")
    msgpack, containers = _msgpack(), 0

    def count(container: Any) -> Any:
        nonlocal containers
        containers += 1
        if containers > MAX_CONTAINERS:
            raise PolicyGone(
                "a message has too many parts", expected=f"at most {MAX_CONTAINERS} lists and maps"
            )
        return container

    try:
        return msgpack.unpackb(
            data, object_hook=lambda found: _decode(count(found)), list_hook=count, strict_map_key=True,
            max_array_len=MAX_LIST, max_map_len=MAX_MAP, max_ext_len=0,
        )  # fmt: skip
    except PolicyGone:
        raise
    except (ValueError, TypeError, KeyError, RecursionError, msgpack.UnpackException) as error:
        raise PolicyGone("a message cannot be read", got=type(error).__name__, expected="msgpack") from error


def plain(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return a value as JSON has it: arrays become lists, bytes and unknown types text.

    Raises:
        PolicyGone: It is nested deeper than `depth`.
    """
    if depth < 0:
        raise PolicyGone("a message is nested too deeply", expected=f"at most {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return {printable(key): plain(part, depth - 1) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part, depth - 1) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def printable(text: object, max_characters: int = 400) -> str:
    """Return text of another machine for a terminal: one line of limited length, without control characters."""
    shown = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    return "".join(letter if letter.isprintable() else " " for letter in shown[:max_characters]).strip()


def _msgpack() -> Any:
    try:
        import msgpack  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise MissingExtra("talking to policy servers", "msgpack", "remote") from error
    return msgpack


def _encode_named(keys: tuple[Any, Any, Any, Any]) -> Callable[[Any], Any]:
    mark, data, dtype, shape = keys

    def encode(value: Any) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        array = _numbers(value)
        return {mark: True, data: array.tobytes(), dtype: array.dtype.str, shape: array.shape}

    return encode


def _encode_npy(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    file = io.BytesIO()
    np.save(file, _numbers(value), allow_pickle=False)
    return {"__ndarray_class__": True, "as_npy": file.getvalue()}


_ENCODERS: Mapping[Layout, Callable[[Any], Any]] = {
    "openpi": _encode_named((b"__ndarray__", b"data", b"dtype", b"shape")),
    "vla-eval": _encode_named(("__ndarray__", "data", "dtype", "shape")),
    "groot": _encode_npy,
}


def _numbers(value: Any) -> Array:
    if not isinstance(value, np.ndarray) or not _DTYPE.fullmatch(value.dtype.str):
        got = value.dtype.str if isinstance(value, np.ndarray) else type(value).__name__
        raise TypeError(f"cannot be sent: {got}")
    return value


def _decode(found: dict[Any, Any]) -> Any:
    """The array that a map stands for, or the map."""
    if b"__ndarray__" in found:
        return _array(found.get(b"data"), found.get(b"dtype"), found.get(b"shape"))
    if "__ndarray__" in found:
        return _array(found.get("data"), found.get("dtype"), found.get("shape"))
    if "__ndarray_class__" in found:
        return _npy(found.get("as_npy"))
    if b"__npgeneric__" in found:
        dtype, number = found.get(b"dtype"), found.get(b"data")
        if not isinstance(number, bool | int | float):
            raise _bad_array(type(number).__name__, "a number")
        try:
            return np.array(number, _dtype(dtype))
        except (OverflowError, ValueError) as error:
            raise _bad_array(number, dtype) from error
    return found


def _dtype(name: object) -> np.dtype[Any]:
    text = name.decode(errors="replace") if isinstance(name, bytes) else name
    if not isinstance(text, str) or not _DTYPE.fullmatch(text):
        raise _bad_array(printable(name, 40), "numbers or booleans, such as <f4")
    return np.dtype(text)


def _array(data: object, dtype: object, shape: object) -> Array:
    kind = _dtype(dtype)
    if not isinstance(data, bytes) or not isinstance(shape, list | tuple) or len(shape) > MAX_DIMENSIONS:
        raise _bad_array(f"shape {printable(shape, 40)}", f"at most {MAX_DIMENSIONS} axes")
    # Python's integers do not overflow, so a product that fits the bytes is the right one.
    if not all(type(size) is int and size >= 0 for size in shape) or prod(shape) * kind.itemsize != len(data):
        raise _bad_array(f"shape {printable(list(shape), 40)} of {kind.str}", f"{len(data)} bytes")
    return np.frombuffer(data, kind).reshape(shape)


def _npy(data: object) -> Array:
    """An .npy file as `np.save` writes it; `np.load` would evaluate its header, and make room for whatever that claims."""
    found = _NPY.match(data) if isinstance(data, bytes) else None
    if found is None:
        raise _bad_array("something else", "an .npy file of numbers")
    dtype, fortran, sizes = (group.decode() for group in found.groups())
    shape = [int(size) for size in sizes.replace(",", " ").split()]
    values = _array(found.string[found.end() :], dtype, shape[::-1] if fortran == "True" else shape)
    return values.T if fortran == "True" else values


def _bad_array(got: object, expected: object) -> PolicyGone:
    return PolicyGone("an array of a message cannot be read", got=got, expected=expected)
