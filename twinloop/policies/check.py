"""Which convention fault, if any, explains a foreign policy's actions best: ask it about recorded observations, under every correction.

The policy is asked about rows of recorded episodes, and its actions are compared with the recorded ones. Every correction of the
interface map (`corrections`) is tried in the same way, and so are those that the comparison itself suggests: another order of joints,
another scale and offset. The best is chosen on half of the episodes and judged on the other half: it is named only where it takes
away `MIN_GAIN` of the error there, and leaves less than standing still would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinloop.datasets.reader import Dataset
from twinloop.episode import Array, Schema, Signal
from twinloop.errors import PolicyGone, WrongUse
from twinloop.policies.ask import Asker
from twinloop.policies.backend import Backend
from twinloop.policies.corrections import (
    Correction,
    Edit,
    Fault,
    correct,
    find_corrections,
    vector_parts,
)
from twinloop.policies.interface import make_interface
from twinloop.policies.interface_map import InterfaceMap
from twinloop.policies.suggest import SMALLEST_SPREAD, suggest_corrections
from twinloop.records import Record, SavedRecord, derived
from twinloop.stats.bootstrap import of_mean
from twinloop.stats.interval import Interval
from twinloop.twins import Twin

MIN_GAIN = 0.25
"""A correction is named where it takes away at least this fraction of the error ..."""
SURE_GAIN = 0.1
"""... and surely this one, by the lower end of the interval."""
ALIKE = 1.1
"""Corrections whose errors differ by less than this factor explain the actions alike: the simpler convention is named."""
MAX_ERROR = 3.0
"""Errors count up to so many spreads of the recorded action: of degrees taken for radians, one joint must not outweigh the others."""
FEWEST_EPISODES = 4
ROWS = 96
ROWS_PER_EPISODE = 3
HORIZON = 16
"""Actions of a chunk that are compared."""
SCREENED = 16
"""Rows about which a policy is asked under corrections of its inputs, before the most promising are asked about all rows."""
PROMISING = 8
SMALLEST_ERROR = 0.005
"""Spreads: errors below this are nobody's fault, so that ratios of them mean nothing."""
MAX_OF_TRIVIAL = 0.7
"""What a correction leaves of the error must be less than this fraction of what standing still, or always the mean command, would
leave: of actions that are wrong anyhow, whatever makes them smaller lowers the error."""

SIMPLEST: tuple[Fault, ...] = (
    "degrees for radians",
    "gripper polarity",
    "relative taken for absolute",
    "quaternion order",
    "swapped cameras",
    "BGR for RGB",
    "image scale",
    "sign",
    "order of joints",
    "rate",
    "chunk offset",
    "normalisation",
)
"""Of corrections that explain the actions alike, the first in this list is named."""


OnProgress = Callable[[int, int], None]
Predict = Callable[[InterfaceMap, Array], Array]
"""Actions (n, T, A) of the policy under a map, about recorded rows (n,)."""


@dataclass(frozen=True)
class Explanation(Record):
    """A convention fault that would explain the policy's actions.

    - `changes`: lines of the interface map to change.
    - `error`: what is left of the difference to the recorded actions, in spreads of these.
    - `gain`: fraction of the error that the correction takes away, in the geometric mean over episodes that did not choose it.
    - `with_fault`: a second fault, where only both corrections together explain the actions.
    """

    fault: Fault
    changes: tuple[str, ...]
    error: float
    gain: Interval
    with_fault: Fault | None = None


@dataclass(frozen=True)
class InterfaceCheck(SavedRecord):
    """How a policy's actions compare with recorded ones, and the fault that explains the difference best, if any.

    - `error`: difference of the actions under the map as written, in spreads of the recorded actions, up to 3.
    - `standing_still`: the same of actions that keep every joint where it is.
    - `elements`: the difference of each element of the actions; those that were never moved are left out.
    - `found`: the fault that is named; None where no correction helps.
    - `alternatives`: further corrections that help, best first.
    - `tried`: number of corrections.
    """

    FILE, COMMAND = "interface_check.json", "twinloop policy check"

    policy: str
    rows: int
    episodes: int
    tried: int
    error: float
    standing_still: float
    elements: Mapping[str, float]
    found: Explanation | None
    alternatives: tuple[Explanation, ...] = ()

    @derived
    def follows(self) -> bool:
        """Whether the policy's actions come closer to the recorded ones than standing still would."""
        return self.error < self.standing_still


@dataclass(frozen=True)
class _Recorded:
    """Rows (n,) of a dataset and the actions (n, T, A) that followed.

    `exists` (n, T) says which of them were recorded, `still` (n, T, A) are actions that keep every joint where it was read,
    `episode` (n,) is each row's, `spread` (A,) the actions' standard deviation, infinite for what was never moved: an error of
    that cannot be compared with anything.
    """

    rows: Array
    actions: Array
    exists: Array
    still: Array
    episode: Array
    spread: Array

    def take(self, which: Array) -> _Recorded:
        kept = {name: values[which] for name, values in vars(self).items() if name != "spread"}
        return _Recorded(**kept, spread=self.spread)


def check_interface(
    backend: Backend,
    given: InterfaceMap,
    dataset: Dataset,
    twin: Twin | None = None,
    *,
    rows: int = ROWS,
    seed: int = 0,
    on_progress: OnProgress = lambda done, total: None,
) -> InterfaceCheck:
    """Find the convention fault, if any, that explains a foreign policy's actions best.

    Args:
        backend: The policy.
        given: Its interface map as written; guesses in it are taken as they are.
        dataset: Recorded episodes whose actions the policy should more or less give, such as demonstrations like those it was
            trained on.
        twin: The robot's twin, for poses and the gripper's range.
        rows: Recorded rows to ask about, spread over the episodes.
        seed: Random seed for the choice of rows.
        on_progress: Called with corrections tried and corrections in total.

    Returns:
        The error under the map as written, and the correction that takes it away, if there is one.

    Raises:
        WrongUse: The dataset has too few episodes, or lacks what the map names.
        PolicyGone: The policy does not answer under the map as written.
    """
    return compare_actions(backend, given, dataset, twin, rows=rows, seed=seed, on_progress=on_progress)[0]


def compare_actions(
    backend: Backend,
    given: InterfaceMap,
    dataset: Dataset,
    twin: Twin | None = None,
    *,
    rows: int = ROWS,
    seed: int = 0,
    on_progress: OnProgress = lambda done, total: None,
) -> tuple[InterfaceCheck, InterfaceMap]:
    """As `check_interface`, with the map after the correction that was found."""
    given = _with_elements(given, dataset.schema)
    recorded = _take_rows(dataset, rows, seed)
    ask = Asker(backend, dataset, twin, recorded.rows)
    as_written = ask(given, recorded.rows)
    chosen, judged = _halves(recorded.episode)
    units, commands = _units(dataset.schema), dataset.schema.signal("action").elements

    def list_corrections(written: InterfaceMap, predicted: Array) -> list[Correction]:
        pairs = _pairs(predicted[chosen], recorded.take(chosen))
        known = find_corrections(written, units, dataset.schema.rate_hz)
        return known + suggest_corrections(written, *pairs, commands, units)

    def judge(corrections: Sequence[Correction]) -> tuple[list[tuple[Correction, Array]], list[_Judgement]]:
        tried = _try_all(ask, corrections, recorded, as_written, chosen, on_progress)
        judgements = [_judge(one, recorded, as_written, chosen, judged, seed) for one in tried]
        return tried, sorted((one for one in judgements if one is not None), key=lambda one: one.ratio)

    error = float(_errors(as_written, recorded).mean())
    standing_still = float(_errors(recorded.still, recorded, as_written.shape[1]).mean())
    corrections = list_corrections(given, as_written)
    tried, found = judge(corrections)
    if not found and error >= standing_still:
        for first, predicted in _best_of_each(tried, as_written, recorded, chosen):
            corrections = [first.followed_by(one) for one in list_corrections(first.interface_map, predicted)]
            found += [one.with_fault(first.fault) for one in judge(corrections)[1]]
        found.sort(key=lambda one: one.ratio)
    named = _simplest(found)
    others = {one.explanation.fault: one.explanation for one in reversed(found)}
    if named is not None:
        del others[named.explanation.fault]
    check = InterfaceCheck(
        given.name or given.policy,
        len(recorded.rows),
        len(np.unique(recorded.episode)),
        len(corrections),
        error,
        standing_still,
        _by_element(as_written, recorded, commands),
        None if named is None else named.explanation,
        tuple(others.values())[::-1][:3],
    )
    return check, given if named is None else named.interface_map


def _units(schema: Schema) -> dict[str, str]:
    """Unit of every named element of the signals."""
    return {
        element: signal.units[index if len(signal.units) > 1 else 0]
        for signal in schema.signals
        for index, element in enumerate(signal.elements)
    }


def _with_elements(given: InterfaceMap, schema: Schema) -> InterfaceMap:
    """The map with the elements of whole signals written out."""
    own = {signal.name: signal.elements for signal in schema.signals}
    edits = [
        Edit(place, "elements", own.get(part.source, ()))
        for place, part in vector_parts(given)
        if part.source and not part.elements
    ]
    return correct(given, "order of joints", edits).interface_map if edits else given


def _take_rows(dataset: Dataset, rows: int, seed: int) -> _Recorded:
    """Rows drawn from evenly drawn episodes, with the actions that followed."""
    starts = dataset.index.starts
    count = len(starts) - 1
    if count < FEWEST_EPISODES:
        raise WrongUse(
            "too few recorded episodes to tell a fault from chance",
            got=count,
            expected=f"{FEWEST_EPISODES} or more",
            remedy="record demonstrations, or name a larger --dataset",
        )
    rng = np.random.default_rng(seed)
    episodes = np.sort(rng.permutation(count)[: min(count, max(FEWEST_EPISODES, rows // ROWS_PER_EPISODE))])
    each = -(-rows // len(episodes))
    wanted = np.concatenate([np.sort(rng.integers(starts[e], starts[e + 1], size=each)) for e in episodes])
    interface = make_interface(
        dataset.schema, [s.name for s in dataset.schema.signals if is_observed(s)], "the dataset"
    )
    read = {signal.name: [0] for signal in interface.observations}
    batch = dataset.windows({"action": range(HORIZON), **read}).batch(wanted)
    actions = np.asarray(batch["action"], np.float64)
    readings = np.asarray(interface.vector({name: batch[name][:, 0] for name in read}), np.float64)
    mean = actions.mean(axis=(0, 1))
    still = np.where(interface.readings >= 0, readings[:, np.maximum(interface.readings, 0)], mean)
    spread = actions.reshape(-1, actions.shape[-1]).std(axis=0)
    if (spread < SMALLEST_SPREAD).all():
        raise WrongUse(
            "nothing moves in the recorded episodes", remedy="name recordings of the robot at work"
        )
    spread = np.where(spread < SMALLEST_SPREAD, np.inf, spread)
    still = np.repeat(still[:, None], HORIZON, axis=1)
    return _Recorded(wanted, actions, ~batch["action_is_pad"], still, np.repeat(episodes, each), spread)


def is_observed(signal: Signal) -> bool:
    """Whether a robot reports a signal: it is not its commands, and not what only a simulation knows."""
    return signal.name.startswith("observation.") and len(signal.shape) == 1


def _by_element(predicted: Array, recorded: _Recorded, names: Sequence[str]) -> dict[str, float]:
    """Mean difference of each element that was moved, in spreads."""
    found = {}
    for index in np.flatnonzero(np.isfinite(recorded.spread)).tolist():
        only = np.where(np.arange(len(recorded.spread)) == index, recorded.spread, np.inf)
        one = replace(recorded, spread=only)
        found[names[index] if names else str(index)] = float(_errors(predicted, one).mean())
    return found


def _pairs(predicted: Array, recorded: _Recorded) -> tuple[Array, Array]:
    """The policy's and the recorded actions (m, A) of all steps that were recorded."""
    steps = min(predicted.shape[1], recorded.actions.shape[1])
    exists = recorded.exists[:, :steps]
    return predicted[:, :steps][exists], recorded.actions[:, :steps][exists]


def _halves(episode: Array) -> tuple[Array, Array]:
    """Rows of every other episode, and the rest: those that choose a correction, and those that judge it."""
    place = np.searchsorted(np.unique(episode), episode)
    return np.flatnonzero(place % 2 == 0), np.flatnonzero(place % 2 == 1)


def _errors(predicted: Array, recorded: _Recorded, steps: int | None = None) -> Array:
    """Mean difference of each row (n,) over the first steps, in spreads, each up to `MAX_ERROR`."""
    count = min(predicted.shape[1], recorded.actions.shape[1], steps or HORIZON)
    difference = np.abs(predicted[:, :count] - recorded.actions[:, :count]) / recorded.spread
    difference = np.minimum(np.nan_to_num(difference, nan=MAX_ERROR), MAX_ERROR)
    per_step = difference[..., np.isfinite(recorded.spread)].mean(axis=2)
    weight = recorded.exists[:, :count].astype(np.float64)
    return np.asarray((per_step * weight).sum(axis=1) / weight.sum(axis=1))


def _try_all(
    predict: Predict,
    corrections: Sequence[Correction],
    recorded: _Recorded,
    as_written: Array,
    chosen: Array,
    on_progress: OnProgress,
) -> list[tuple[Correction, Array]]:
    """Actions under every correction; of those that change the inputs, only the promising ones are asked about all rows."""
    found, screened = [], []
    few = chosen[np.linspace(0, len(chosen) - 1, min(SCREENED, len(chosen))).astype(int)]
    part = recorded.take(few)
    for number, one in enumerate(corrections):
        try:
            if one.asks_again:
                answered = predict(one.interface_map, part.rows)
                screened.append((_ratio(answered, as_written[few], part), number, one))
            else:
                found.append((one, predict(one.interface_map, recorded.rows)))
        except (
            WrongUse,
            PolicyGone,
        ):  # no map for this robot, or a policy that refuses such inputs: no explanation
            continue
        finally:
            on_progress(number + 1, len(corrections))
    for _, _, one in sorted(screened, key=lambda entry: entry[:2])[:PROMISING]:
        found.append((one, predict(one.interface_map, recorded.rows)))
    return found


def _best_of_each(
    tried: Sequence[tuple[Correction, Array]], as_written: Array, recorded: _Recorded, chosen: Array
) -> list[tuple[Correction, Array]]:
    """The correction of each fault that leaves the least error, on the rows that choose."""
    part = recorded.take(chosen)
    ordered = sorted(tried, key=lambda one: _ratio(one[1][chosen], as_written[chosen], part), reverse=True)
    return list({one[0].fault: one for one in ordered}.values())


def _ratio(predicted: Array, as_written: Array, recorded: _Recorded) -> float:
    """Error under a correction as a multiple of the error as written, over the same steps."""
    before = float(_errors(as_written, recorded, predicted.shape[1]).mean())
    return float(_errors(predicted, recorded, as_written.shape[1]).mean()) / max(before, 1e-9)


@dataclass(frozen=True)
class _Judgement:
    """A correction that helps: its ratio of errors on the episodes that chose it, and what it does on the others."""

    ratio: float
    explanation: Explanation
    interface_map: InterfaceMap

    def with_fault(self, fault: Fault) -> _Judgement:
        """The same, as the second of two faults."""
        return replace(self, explanation=replace(self.explanation, with_fault=fault))


def _judge(
    tried: tuple[Correction, Array],
    recorded: _Recorded,
    as_written: Array,
    chosen: Array,
    judged: Array,
    seed: int,
) -> _Judgement | None:
    """Judge a correction on the episodes that did not choose it; None where it does not help enough."""
    correction, predicted = tried
    ratio = _ratio(predicted[chosen], as_written[chosen], recorded.take(chosen))
    if ratio > 1.0 - MIN_GAIN:
        return None
    rest = recorded.take(judged)
    before = _by_episode(_errors(as_written[judged], rest, predicted.shape[1]), rest.episode)
    after = _by_episode(_errors(predicted[judged], rest, as_written.shape[1]), rest.episode)
    change = of_mean(np.log((after + SMALLEST_ERROR) / (before + SMALLEST_ERROR)), seed)
    if change is None:
        return None
    value, low, high = (1.0 - float(np.exp(log)) for log in (change.value, change.high, change.low))
    gain = Interval(value, low, high)
    mean = np.broadcast_to(rest.actions.mean(axis=(0, 1)), rest.actions.shape)
    trivial = min(float(_errors(one, rest, predicted.shape[1]).mean()) for one in (rest.still, mean))
    left = float(after.mean())
    if gain.value < MIN_GAIN or gain.low < SURE_GAIN or left > MAX_OF_TRIVIAL * trivial:
        return None
    explanation = Explanation(correction.fault, correction.changes, left, gain)
    return _Judgement(ratio, explanation, correction.interface_map)


def _by_episode(errors: Array, episode: Array) -> Array:
    return np.array([errors[episode == one].mean() for one in np.unique(episode)])


def _simplest(found: Sequence[_Judgement]) -> _Judgement | None:
    """Of the corrections that explain the actions as well as the best one, the simplest."""
    if not found:
        return None
    alike = [one for one in found if one.ratio <= ALIKE * found[0].ratio]
    return min(alike, key=lambda one: (SIMPLEST.index(one.explanation.fault), len(one.explanation.changes)))
