"""Checks that users can run on their own plug-ins and episodes."""

from __future__ import annotations

import numpy as np

from twinloop.episode import Episode


def assert_same_episode(got: Episode, expected: Episode, *, image_error: float = 6.0) -> None:
    """Assert that two episodes are equal bit for bit, and frames within a mean absolute error, since video is lossy."""
    assert got.id == expected.id, f"id: got {got.id}, expected {expected.id}"
    assert (difference := expected.schema.difference(got.schema)) is None, difference
    assert got.task == expected.task, f"task: got {got.task!r}, expected {expected.task!r}"
    assert got.provenance == expected.provenance, (
        f"provenance: got {got.provenance}, expected {expected.provenance}"
    )
    assert got.events == expected.events, f"events: got {got.events}, expected {expected.events}"
    assert got.outcome == expected.outcome, f"outcome: got {got.outcome}, expected {expected.outcome}"
    assert got.time_s.tobytes() == expected.time_s.tobytes(), "time_s differs"
    for name, values in expected.signals.items():
        assert got.signals[name].dtype == values.dtype, f"type of {name}: got {got.signals[name].dtype}"
        assert got.signals[name].shape == values.shape, f"shape of {name}: got {got.signals[name].shape}"
        assert got.signals[name].tobytes() == values.tobytes(), f"{name} differs"
    for name, frames in expected.frames.items():
        assert tuple(got.frames[name].shape) == tuple(frames.shape), f"shape of camera {name}"
        for row, (a, b) in enumerate(zip(got.frames[name], frames, strict=True)):
            error = float(np.abs(a.astype(np.int16) - b.astype(np.int16)).mean())
            assert error <= image_error, f"camera {name}, frame {row}: mean error {error:.1f} of 255"
