"""An episode that contradicts itself is refused, in words that say got and expected."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest

from tests.datasets.examples import STATE_ONLY, WITH_CAMERA, toy_episode
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.writer import make_dataset
from twinloop.episode import Camera, Event, Outcome, Provenance, Schema, Signal, make_episode
from twinloop.errors import InvalidEpisode, TwinloopError, UnknownName
from twinloop.testing import assert_same_episode

GOOD = toy_episode(1)


def episode_with(**changes):
    signals = dict(GOOD.signals) | changes.pop("signals", {})
    signals = {name: values for name, values in signals.items() if values is not None}
    return make_episode(STATE_ONLY, changes.pop("time_s", GOOD.time_s), signals, **changes)


def broken_at(row, value):
    state = GOOD["observation.state"].copy()
    state[row, 2] = value
    return state


BAD = {
    "shape": (
        lambda: episode_with(signals={"action": np.zeros((30, 5))}),
        r"'action' has the wrong shape; got \(30, 5\); expected \(30, 6\)",
    ),
    "rows": (
        lambda: episode_with(signals={"action": np.zeros((29, 6))}),
        r"got \(29, 6\); expected \(30, 6\)",
    ),
    "ragged": (lambda: episode_with(signals={"action": [[1], [1, 2]]}), "'action' is not an array"),
    "dtype": (
        lambda: episode_with(signals={"action": np.full((30, 6), "x")}),
        "'action' has the wrong type; got <U1; expected float32",
    ),
    "complex": (lambda: episode_with(signals={"action": np.zeros((30, 6), complex)}), "got complex128"),
    "NaN": (
        lambda: episode_with(signals={"observation.state": broken_at(4, np.nan)}),
        r"'observation.state' is not finite at row 4, element \[2\]; got nan",
    ),
    "infinity": (
        lambda: episode_with(signals={"observation.state": broken_at(29, np.inf)}),
        "row 29.*got inf",
    ),
    "overflow": (
        lambda: episode_with(signals={"observation.state": GOOD["observation.state"].astype(float) + 1e39}),
        r"not finite at row 0, element \[0\]; got 1e\+39",
    ),
    "time backwards": (
        lambda: episode_with(time_s=np.r_[np.arange(29) * 0.1, 1.0]),
        r"time does not move forward at row 29; got 2.8.* s then 1.0.* s; expected strictly increasing",
    ),
    "time repeated": (lambda: episode_with(time_s=np.r_[0.0, 0.0, np.arange(1, 29)]), "forward at row 1"),
    "time NaN": (lambda: episode_with(time_s=np.r_[np.arange(29), np.nan]), "time_s is not finite at row 29"),
    "time words": (lambda: episode_with(time_s=["soon"] * 30), "time_s is not an array of numbers"),
    "no rows": (lambda: episode_with(time_s=[]), "at least one row"),
    "missing": (
        lambda: episode_with(signals={"action": None}),
        "'action' is declared but absent; available: observation.force, observation.state",
    ),
    "extra": (lambda: episode_with(signals={"acton": np.zeros((30, 6))}), "did you mean 'action'"),
    "unknown unit": (
        lambda: Signal("a", units=("rads",)),
        "no unit .* is called 'rads'.*did you mean 'rad/s'",
    ),
    "unknown type": (lambda: Signal("a", dtype="float31"), "did you mean 'float3"),
    "empty shape": (lambda: Signal("a", ()), "bad shape"),
    "reserved name": (lambda: Signal("timestamp"), "bad name"),
    "slash": (lambda: Signal("a/b"), "bad name"),
    "element names": (lambda: Signal("a", (2,), elements=("x",)), "got 1; expected 2"),
    "camera name": (lambda: Camera("a" * 250, 8, 8), "too long for a folder name"),
    "camera size": (lambda: Camera("a", 0, 8), "bad size"),
    "rate": (lambda: Schema((Signal("a"),), 0.0), "rate must be positive"),
    "success": (lambda: episode_with(success=True, failure="slipped"), "no failure label; got 'slipped'"),
    "success word": (lambda: Outcome("yes"), "expected True, False or None"),  # type: ignore[arg-type]
    "no frames": (
        lambda: make_episode(WITH_CAMERA, GOOD.time_s, GOOD.signals),
        "'front' is declared but has no frames",
    ),
    "frame size": (
        lambda: make_episode(
            WITH_CAMERA, GOOD.time_s, GOOD.signals, frames={"front": np.zeros((30, 48, 63, 3), np.uint8)}
        ),
        r"got \(30, 48, 63, 3\); expected \(30, 48, 64, 3\)",
    ),
    "frame type": (
        lambda: make_episode(
            WITH_CAMERA, GOOD.time_s, GOOD.signals, frames={"front": np.zeros((30, 48, 64, 3))}
        ),
        "got float64; expected uint8",
    ),
    "event time": (lambda: episode_with(events=[Event(np.nan, "contact")]), "no finite time"),
    "event kind": (lambda: episode_with(events=[Event(0.1, 5)]), "kind of an event is not text"),
    "half a character": (lambda: episode_with(task="\ud800"), r"task is not valid Unicode; got '\\ud800'"),
    "seed": (lambda: Provenance(seed=2**63), "expected an int that fits 64 bits"),
    "seed type": (lambda: Provenance(seed=1.5), "expected an int"),  # type: ignore[arg-type]
    "draw": (lambda: Provenance(draw={"mass_kg": np.inf}), "got inf; expected a finite float"),
    "draw name": (lambda: Provenance(draw={1: 2.0}), "a name in draw is not text"),  # type: ignore[dict-item]
    "site": (lambda: Provenance(site=4), "site is not text; got 4"),  # type: ignore[arg-type]
    "source": (lambda: Provenance(source="simulation"), "available: real, sim, standin, unknown"),  # type: ignore[arg-type]
    "local time": (lambda: Provenance(recorded_at=datetime(2026, 1, 1)), "must be in UTC"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_episode_is_refused_in_words_that_help(name):
    make, message = BAD[name]
    with pytest.raises((InvalidEpisode, UnknownName), match=f"(?s){message}"):
        make()


def test_a_dataset_is_intact_and_usable_after_every_refusal(tmp_path):
    with make_dataset(tmp_path / "d", STATE_ONLY) as writer:
        writer.add(toy_episode(0))
        for make, _ in BAD.values():
            with pytest.raises(TwinloopError):
                writer.add(make())
        writer.add(toy_episode(1))
    for got, seed in zip(open_dataset(tmp_path / "d"), (0, 1), strict=True):
        assert_same_episode(got, toy_episode(seed))
