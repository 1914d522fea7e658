"""Which convention fault, if any, explains a foreign policy's actions best: ask it about recorded observations, under every correction.

The policy is asked about rows of recorded episodes, and its actions are compared with the recorded ones. Every correction of the
interface map (`corrections`) is tried in the same way, and so are those that the comparison itself suggests: another order of joints,
another scale and offset. The best is chosen on half of the episodes and judged on the other half: it is named only where it takes
away `MIN_GAIN` of the error there, and leaves less than standing still would. A fault of the inputs may hardly move the actions:
where nothing else is found, `nearer` asks about more rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from pydantic import PlainSerializer

from twinloop.datasets.reader import Dataset
from twinloop.episode import Array, Schema
from twinloop.errors import PolicyGone, WrongUse
from twinloop.policies.backends.protocol import Backend
from twinloop.policies.conventions.ask import Asker
from twinloop.policies.conventions.corrections import (
    Correction,
    Edit,
    Fault,
    correct,
    find_corrections,
    vector_parts,
)
from twinloop.policies.conventions.nearer import MORE_ROWS, find_weak_fault, measure_nearness
from twinloop.policies.conventions.recorded import RecordedRows, take_rows
from twinloop.policies.conventions.suggest import suggest_corrections
from twinloop.policies.mapping.interface_map import InterfaceMap, plain_interface_map
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
ROWS = 96
SCREENED = 16
"""Rows about which a policy is asked under corrections of its inputs, before the most promising are asked about all rows."""
PROMISING = 8
NEAREST = 24
"""Corrections of the inputs that are asked about again in case their fault hardly moves the actions."""
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
PlainMap = Annotated[InterfaceMap, PlainSerializer(plain_interface_map)]
"""An interface map as a field of a record; in its JSON with the keys of its file."""


@dataclass(frozen=True)
class Explanation(Record):
    """A convention fault that would explain the policy's actions.

    - `changes`: lines of the interface map to change.
    - `error`: what is left of the difference to the recorded actions, in spreads of these.
    - `gain`: fraction of the error that the correction takes away, in the geometric mean over episodes that did not choose it.
    - `with_fault`: a second fault, where only both corrections together explain the actions.
    - `way`: of a fault of the inputs that hardly moves the actions, where the recorded ones lie between those as written (0) and those
      under the correction (1); 99 % interval.
    """

    fault: Fault
    changes: tuple[str, ...]
    error: float
    gain: Interval
    with_fault: Fault | None = None
    way: Interval | None = None


@dataclass(frozen=True)
class InterfaceCheck(SavedRecord):
    """How a policy's actions compare with recorded ones, and the fault that explains the difference best, if any.

    - `error`: difference of the actions under the map as written, in spreads of the recorded actions, up to 3.
    - `standing_still`: the same of actions that keep every joint where it is.
    - `elements`: the difference of each element of the actions; those that were never moved are left out.
    - `found`: the fault that is named; None where no correction helps.
    - `alternatives`: further corrections that help, best first.
    - `tried`: number of corrections.
    - `corrected`: the interface map with the changes of `found`; None where no correction helps.
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
    corrected: PlainMap | None = None

    @derived
    def follows(self) -> bool:
        """Whether the policy's actions come closer to the recorded ones than standing still would."""
        return self.error < self.standing_still


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
    recorded = take_rows(dataset, rows, seed)
    written = _with_elements(given, dataset.schema)
    ask = Asker(backend, dataset, twin, recorded.rows)
    search = _Search(ask, recorded, ask(written, recorded.rows), dataset.schema, seed, on_progress)
    error = float(recorded.errors(search.as_written).mean())
    standing_still = float(recorded.errors(recorded.still, search.as_written.shape[1]).mean())
    found, tried = search.find(written, twice=error >= standing_still)
    if not found and error < standing_still:
        more = take_rows(dataset, max(rows, MORE_ROWS), seed)
        found = search.find_weak(written, Asker(backend, dataset, twin, more.rows), more)
    named = _simplest(found)
    others = {one.explanation.fault: one.explanation for one in reversed(found)}
    if named is not None:
        del others[named.explanation.fault]
    return InterfaceCheck(
        given.name or given.policy,
        len(recorded.rows),
        len(np.unique(recorded.episode)),
        tried,
        error,
        standing_still,
        recorded.errors_by_element(search.as_written, dataset.schema.signal("action").elements),
        None if named is None else named.explanation,
        tuple(others.values())[::-1][:3],
        None if named is None else named.interface_map,
    )


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


@dataclass(frozen=True)
class _Judgement:
    """A correction that helps: its ratio of errors on the episodes that chose it, and what it does on the others."""

    ratio: float
    explanation: Explanation
    interface_map: InterfaceMap

    def with_fault(self, fault: Fault) -> _Judgement:
        """The same, as the second of two faults."""
        return replace(self, explanation=replace(self.explanation, with_fault=fault))


class _Search:
    """The search for corrections of one policy: half of the recorded episodes choose, the other half judge.

    `as_written` are the policy's actions (n, T, A) about the recorded rows, under the map as it was given.
    """

    def __init__(
        self,
        ask: Asker,
        recorded: RecordedRows,
        as_written: Array,
        schema: Schema,
        seed: int,
        on_progress: OnProgress,
    ) -> None:
        self._ask, self._recorded, self.as_written = ask, recorded, as_written
        self._schema, self._seed, self._on_progress = schema, seed, on_progress
        self._chosen, self._judged = recorded.halves()
        self._screened: list[tuple[float, Correction]] = []

    def find(self, written: InterfaceMap, *, twice: bool) -> tuple[list[_Judgement], int]:
        """Corrections that help, best first, and how many were tried at once; with `twice`, two together where no single one helps."""
        corrections = self._list_corrections(written, self.as_written)
        tried = self._try_all(corrections)
        found = self._judge_all(tried)
        if not found and twice:
            for first, predicted in self._best_of_each(tried):
                second = self._list_corrections(first.interface_map, predicted)
                corrections = [first.followed_by(one) for one in second]
                found += [one.with_fault(first.fault) for one in self._judge_all(self._try_all(corrections))]
        return sorted(found, key=lambda one: one.ratio), len(corrections)

    def find_weak(self, written: InterfaceMap, ask: Asker, more: RecordedRows) -> list[_Judgement]:
        """The correction of the inputs that more rows are nearer to, if any; to be called after `find`."""
        nearest = sorted(self._screened, key=lambda one: -one[0])[:NEAREST]
        corrections = [one for _, one in nearest]
        if (sided := find_weak_fault(ask, more, written, corrections, self._seed)) is None:
            return []
        correction, way = sided
        _, judged = more.halves()
        rest = more.take(judged)
        before, after = (
            rest.errors_by_episode(ask(one, rest.rows)) for one in (written, correction.interface_map)
        )
        gain = self._gain(before, after)
        if gain is None:
            return []
        explanation = Explanation(correction.fault, correction.changes, float(after.mean()), gain, way=way)
        return [
            _Judgement(float(after.mean() / max(before.mean(), 1e-9)), explanation, correction.interface_map)
        ]

    def _gain(self, before: Array, after: Array) -> Interval | None:
        """The fraction of the error that is taken away, in the geometric mean over episodes."""
        change = of_mean(np.log((after + SMALLEST_ERROR) / (before + SMALLEST_ERROR)), self._seed)
        if change is None:
            return None
        value, low, high = (1.0 - float(np.exp(log)) for log in (change.value, change.high, change.low))
        return Interval(value, low, high)

    def _list_corrections(self, written: InterfaceMap, predicted: Array) -> list[Correction]:
        """The usual corrections of a map, and those that its actions (n, T, A) suggest."""
        units = _units(self._schema)
        mine, theirs = self._recorded.take(self._chosen).pairs(predicted[self._chosen])
        suggested = suggest_corrections(written, mine, theirs, self._schema.signal("action").elements, units)
        return find_corrections(written, units, self._schema.rate_hz) + suggested

    def _try_all(self, corrections: Sequence[Correction]) -> list[tuple[Correction, Array]]:
        """Actions under every correction; of those that change the inputs, only the promising ones are asked about all rows."""
        found: list[tuple[Correction, Array]] = []
        screened: list[tuple[float, int, Correction]] = []
        self._screened = []
        few = self._chosen[
            np.linspace(0, len(self._chosen) - 1, min(SCREENED, len(self._chosen))).astype(int)
        ]
        rows = self._recorded.rows
        for number, one in enumerate(corrections):
            try:
                if one.asks_again:
                    predicted = self._ask(one.interface_map, rows[few])
                    screened.append((self._ratio(predicted, few), number, one))
                    self._screened.append((self._nearness(predicted, few), one))
                else:
                    found.append((one, self._ask(one.interface_map, rows)))
            except (
                WrongUse,
                PolicyGone,
            ):  # no map for this robot, or a policy that refuses such inputs: no explanation
                continue
            finally:
                self._on_progress(number + 1, len(corrections))
        for _, _, one in sorted(screened, key=lambda entry: entry[:2])[:PROMISING]:
            found.append((one, self._ask(one.interface_map, rows)))
        return found

    def _best_of_each(self, tried: Sequence[tuple[Correction, Array]]) -> list[tuple[Correction, Array]]:
        """The correction of each fault that leaves the least error, on the rows that choose."""
        chosen = self._chosen
        ordered = sorted(tried, key=lambda one: self._ratio(one[1][chosen], chosen), reverse=True)
        return list({one[0].fault: one for one in ordered}.values())

    def _ratio(self, predicted: Array, which: Array) -> float:
        """Error of actions about the rows `which` as a multiple of the error as written, over the same steps."""
        part, as_written = self._recorded.take(which), self.as_written[which]
        before = float(part.errors(as_written, predicted.shape[1]).mean())
        return float(part.errors(predicted, as_written.shape[1]).mean()) / max(before, 1e-9)

    def _nearness(self, predicted: Array, which: Array) -> float:
        return measure_nearness(self._recorded.take(which), self.as_written[which], predicted)

    def _judge_all(self, tried: Sequence[tuple[Correction, Array]]) -> list[_Judgement]:
        judged = [self._judge(*one) for one in tried]
        return sorted((one for one in judged if one is not None), key=lambda one: one.ratio)

    def _judge(self, correction: Correction, predicted: Array) -> _Judgement | None:
        """Judge a correction on the episodes that did not choose it; None where it does not help enough."""
        ratio = self._ratio(predicted[self._chosen], self._chosen)
        if ratio > 1.0 - MIN_GAIN:
            return None
        rest, as_written = self._recorded.take(self._judged), self.as_written[self._judged]
        before = rest.errors_by_episode(as_written, predicted.shape[1])
        after = rest.errors_by_episode(predicted[self._judged], as_written.shape[1])
        if (gain := self._gain(before, after)) is None:
            return None
        mean = np.broadcast_to(rest.actions.mean(axis=(0, 1)), rest.actions.shape)
        trivial = min(float(rest.errors(one, predicted.shape[1]).mean()) for one in (rest.still, mean))
        left = float(after.mean())
        if gain.value < MIN_GAIN or gain.low < SURE_GAIN or left > MAX_OF_TRIVIAL * trivial:
            return None
        explanation = Explanation(correction.fault, correction.changes, left, gain)
        return _Judgement(ratio, explanation, correction.interface_map)


def _simplest(found: Sequence[_Judgement]) -> _Judgement | None:
    """Of the corrections that explain the actions as well as the best one, the simplest."""
    if not found:
        return None
    alike = [one for one in found if one.ratio <= ALIKE * found[0].ratio]
    return min(alike, key=lambda one: (SIMPLEST.index(one.explanation.fault), len(one.explanation.changes)))
