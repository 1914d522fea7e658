"""Contact: how much worse replay gets around contact than in free motion; and forces, where they were measured.

The twin is put back on the recording every `WINDOW_S` and sent the recorded commands. A window counts as contact when the
recorded poses, put into the twin, touch within `NEAR_M`; what lateness of the robot explains is taken out first. Replay is
harder in contact even for a perfect twin, since readings are noisy and touching bodies are not forgiving: therefore the
same is done to simulated episodes, seen through a sensor as noisy as the real one, and that is what reality is compared with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import mujoco
import numpy as np

from twinloop.episode import Array, Episode
from twinloop.errors import TwinloopError
from twinloop.gap.compare import FEW
from twinloop.gap.evidence import GapEvidence
from twinloop.gap.registry import METRICS
from twinloop.gap.replay import (
    RecordingSet,
    TwinReplay,
    read_all,
    replay_windows,
    tool_places,
    with_object_pose,
)
from twinloop.gap.result import Measure, NotEvaluated, measure
from twinloop.identification.predict import Predictor
from twinloop.identification.recording import Channel, Recording
from twinloop.identification.windows import cut
from twinloop.measure.noise import noise_of
from twinloop.stats.bootstrap import unpaired
from twinloop.tasks import Cell

WINDOW_S = 0.2
NEAR_M = 0.004
FORCE_WORDS = ("force", "wrench", "torque_sensor", "tactile")
FLOOR = {"m": 5e-4, "rad": 5e-4}
"""What two physics engines that agree on everything still differ by."""


@dataclass(frozen=True, eq=False)
class ContactErrors:
    """Per episode: RMS replay error of one quantity in windows with contact and in free motion; NaN where there is none."""

    contact: Array
    free: Array

    @property
    def excess(self) -> Array:
        """How much worse it is in contact."""
        return np.asarray(self.contact - self.free)


@METRICS.register("contact")
def contact(evidence: GapEvidence) -> Iterator[Measure | NotEvaluated]:
    """Replay error around contact against free motion; distributions of measured forces."""
    yield from _replay_errors(evidence)
    yield from _forces(evidence)


def _replay_errors(evidence: GapEvidence) -> Iterator[Measure | NotEvaluated]:
    name = "replay error in contact"
    cell = evidence.cell
    if cell.object_qpos is None:
        yield NotEvaluated("contact", f"a twin with an object; {cell.twin.name} has none", name)
        return
    try:
        real = read_all(cell, evidence.real)
        if not any(channel.kind == "place" for channel in real.channels):
            yield NotEvaluated("contact", "the object's pose over time in the recordings", name)
            return
        noisy = [_as_noisy(episode, evidence) for episode in evidence.sim.episodes]
        sim = read_all(cell, noisy)
    except TwinloopError as error:
        yield NotEvaluated("contact", f"recordings that the twin can replay ({error.what})", name)
        return
    delay_s = evidence.extra_delay_s
    here = contact_errors(cell, real, delay_s, evidence.options.threads)
    there = contact_errors(cell, sim, 0.0, evidence.options.threads)
    found = 0
    for kind, unit, about in (
        ("object", "m", "the object's place"),
        ("joints", "rad", "the arm's joints"),
    ):
        if kind not in here or kind not in there:
            continue
        beyond = "beyond free motion"
        interval = unpaired(here[kind].excess, there[kind].excess, evidence.seed("contact", kind))
        if interval is None:
            beyond = "(free motion is too short to take off)"
            interval = unpaired(here[kind].contact, there[kind].contact, evidence.seed("contact", kind))
        if interval is not None:
            found += 1
            yield measure(
                "contact", f"{name}, {kind}", unit, interval,
                against=f"replay of {evidence.sim.name}", samples=real.samples,
                about=f"RMS error of {about} within {WINDOW_S:g} s of replay, in contact {beyond}",
                floor=FLOOR[unit],
            )  # fmt: skip
    if not found:
        yield NotEvaluated("contact", f"{FEW} with contact", name)


def contact_errors(
    cell: Cell, readable: RecordingSet, delay_s: float, threads: int
) -> dict[str, ContactErrors]:
    """Errors of the object's place and of the joints in contact and free, per recording."""
    varying = ("action_delay_s",) if delay_s and cell.twin.has("action_delay_s") else ()
    predictor = Predictor(cell, readable.recordings, readable.channels, varying, threads)
    values = {name: np.array([min(delay_s, cell.twin.parameter(name).bounds[1])]) for name in varying}
    windows = cut(readable.recordings, range(len(readable.recordings)), WINDOW_S)
    replays = {id(one.recording): one for one in replay_windows(predictor, windows, values)}
    columns = {
        "object": [k for k, channel in enumerate(readable.channels) if channel.kind == "place"],
        "joints": [k for k, c in enumerate(readable.channels) if c.kind == "position" and c.unit == "rad"],
    }
    made: dict[str, list[tuple[float, float]]] = {kind: [] for kind, some in columns.items() if some}
    for recording in readable.recordings:
        one = replays.get(id(recording))
        touch = touching(cell, recording) if one is not None else None
        # An object that is held goes where the tool goes: what the arm gets wrong is not the contact's fault.
        tool = tool_apart(cell, readable.channels, one) if one is not None else None
        for kind, rows in made.items():
            if one is None or touch is None or tool is None:
                rows.append((np.nan, np.nan))
                continue
            apart = (one.twin - one.real)[:, columns[kind]]
            in_contact = apart - tool if kind == "object" else apart
            sides = tuple(np.sqrt(np.mean(side**2, axis=1)) for side in (in_contact, apart))
            rows.append(_by_window(sides[0], sides[1], one.window, touch[one.rows]))
    return {kind: ContactErrors(*np.array(rows).T) for kind, rows in made.items() if rows}


def tool_apart(cell: Cell, channels: Sequence[Channel], one: TwinReplay) -> Array:
    """How far the replayed tool is from the recorded one (rows, 3), by the twin's kinematics; zeros without a tool."""
    if "tool" not in cell.twin.roles:
        return np.zeros((len(one.rows), 3))
    qpos = one.recording.qpos[one.rows]
    moved = qpos.copy()
    for index, channel in enumerate(channels):
        if channel.kind == "position":
            scale = sum(weight * weight for weight in channel.weights)
            for address, weight in zip(channel.addresses, channel.weights, strict=True):
                if weight:
                    moved[:, address] += (one.twin - one.real)[:, index] * weight / scale
    return tool_places(cell, moved) - tool_places(cell, qpos)


def touching(cell: Cell, recording: Recording) -> Array:
    """Whether the recorded poses (T,) bring the robot to the object; without a robot, the object to anything."""
    model = cell.twin.make_model()
    data = mujoco.MjData(model)
    body = model.body(cell.twin.role("object")).id
    mine = np.flatnonzero(np.asarray(model.geom_bodyid) == body)
    model.geom_margin[mine] = NEAR_M
    model.geom_gap[mine] = NEAR_M
    robot = _robot_bodies(cell, model)
    found = np.zeros(len(recording), dtype=bool)
    for row in range(len(recording)):
        data.qpos[:] = recording.qpos[row]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_collision(model, data)
        geoms = np.asarray(data.contact.geom).reshape(-1, 2)
        ours = np.isin(geoms, mine)
        others = model.geom_bodyid[geoms[ours.any(axis=1)][~ours[ours.any(axis=1)]]]
        found[row] = bool(np.isin(others, robot).any()) if len(robot) else len(others) > 0
    return found


def _robot_bodies(cell: Cell, model: mujoco.MjModel) -> Array:
    if cell.robot_root is None:
        return np.zeros(0, dtype=np.int64)
    root = model.body(cell.robot_root).id
    return np.flatnonzero(np.asarray(model.body_rootid) == model.body_rootid[root])


def _by_window(held: Array, loose: Array, window: Array, touch: Array) -> tuple[float, float]:
    """Mean error over windows with contact (of `held`) and over those without (of `loose`)."""
    sides: tuple[list[float], list[float]] = ([], [])
    for number in np.unique(window):
        rows = window == number
        which = 0 if touch[rows].any() else 1
        # The first row of a window is the recording itself.
        sides[which].append(float(np.sqrt(np.mean((held, loose)[which][rows][1:] ** 2))))
    contact, free = (float(np.mean(side)) if side else float("nan") for side in sides)
    return contact, free


def _as_noisy(episode: Episode, evidence: GapEvidence) -> Episode:
    """A simulated episode with readings of joints and object as noisy as the real ones."""
    shaped = with_object_pose(episode)
    rng = evidence.rng("as noisy", episode.id)
    signals = dict(shaped.signals)
    for name in ("observation.state", "observation.position", "observation.velocity"):
        levels = _noise_levels(evidence, name)
        if name in signals and levels is not None and levels.shape == signals[name].shape[1:]:
            rows = np.asarray(signals[name], np.float64)
            own = noise_of(rows)
            more = np.sqrt(np.maximum(levels**2 - own**2, 0.0))
            signals[name] = rows + more * rng.standard_normal(rows.shape)
    return replace(shaped, signals=signals)


def _noise_levels(evidence: GapEvidence, name: str) -> Array | None:
    """Median noise of every element of a signal over real episodes."""
    rows = [
        noise_of(np.asarray(shaped.signals[name], np.float64))
        for shaped in map(with_object_pose, evidence.real[:20])
        if name in shaped.signals
    ]
    return np.asarray(np.nan_to_num(np.nanmedian(rows, axis=0))) if rows else None


def _forces(evidence: GapEvidence) -> Iterator[Measure | NotEvaluated]:
    """The middle and the upper end of measured forces, signal by signal."""
    names = [
        signal.name
        for signal in evidence.real[0].schema.signals
        if signal.name.startswith("observation.") and any(word in signal.name for word in FORCE_WORDS)
    ]
    known = {signal.name for signal in evidence.sim.episodes[0].schema.signals} if names else set()
    shared = [name for name in names if name in known]
    if not shared:
        needs = (
            f"{', '.join(names)} in simulated episodes too"
            if names
            else "a signal observation.force..., of a force sensor"
        )
        yield NotEvaluated("contact", needs, "force distribution")
        return
    for name in shared:
        unit = evidence.real[0].schema.signal(name).units[0]
        for fraction, text in ((0.5, "median"), (0.95, "95th percentile")):
            sides = [
                np.array([_magnitude(episode, name, fraction) for episode in episodes])
                for episodes in (evidence.real, evidence.sim.episodes)
            ]
            interval = unpaired(sides[0], sides[1], evidence.seed("force", name, text))
            if interval is None:
                yield NotEvaluated("contact", FEW, f"{text} of {name}")
                continue
            yield measure(
                "contact", f"{text} of {name.removeprefix('observation.')}", unit, interval,
                against=evidence.sim.name, samples=sum(map(len, evidence.real)), about="size of the measured force",
            )  # fmt: skip


def _magnitude(episode: Episode, name: str, fraction: float) -> float:
    if name not in episode.signals:
        return float("nan")
    rows = np.asarray(episode.signals[name], np.float64).reshape(len(episode), -1)
    return float(np.quantile(np.linalg.norm(rows, axis=1), fraction))
