"""Whether recordings can identify a twin: what would be read and fitted, and why not, before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twinloop.datasets.reader import Dataset
from twinloop.errors import QualityError, TwinloopError
from twinloop.identification.config import expand_parameters
from twinloop.identification.models import default_models
from twinloop.identification.recording import find_channels, read_recording, unknown_joints
from twinloop.identification.run import ENOUGH_TO_CHOOSE, MOST_LEFT_OUT
from twinloop.quality.finding import QualityReport
from twinloop.quality.require import require_usable
from twinloop.records import Record, derived
from twinloop.tasks import make_cell
from twinloop.twins import Twin

FEWEST_EPISODES = 2


@dataclass(frozen=True)
class Readiness(Record):
    """Whether `identify` can start with a twin and a dataset.

    Attributes:
        episodes: Episodes of the dataset.
        left_out: Numbers of those that the quality check blocks and that would be left out.
        seconds: Duration of all recordings.
        channels: What the twin would predict, with units.
        unknown: Recorded joints that the twin does not have.
        models: Parameters that would be fitted, by model; several compete.
        reasons: Why it cannot start; none if it can.
        notes: What else to know.
        report: What the quality check found.
    """

    episodes: int
    left_out: tuple[int, ...]
    seconds: float
    channels: tuple[tuple[str, str], ...]
    unknown: tuple[str, ...]
    models: dict[str, tuple[str, ...]]
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    report: QualityReport

    @derived
    def ready(self) -> bool:
        """Whether nothing stands against it."""
        return not self.reasons


def check_ready(
    twin: Twin, real: Dataset, parameters: Sequence[str] | None = None, *, allow_simulated: bool = False
) -> Readiness:
    """Check whether a dataset can identify parameters of a twin, without fitting anything.

    Args:
        twin: The twin.
        real: The recordings.
        parameters: Names, in which `*` and `?` match; default: what `identify` fits by default.
        allow_simulated: Simulated episodes count as recordings.

    Returns:
        What would be read and fitted, the quality check's report, and why it cannot start.
    """
    report = require_usable(real, "identify", may_leave_out=1.0)
    reasons: list[str] = []
    left_out = tuple(sorted({finding.episode for finding in report.blocking}))
    try:
        require_usable(real, "identify", may_leave_out=MOST_LEFT_OUT)
    except QualityError as error:
        reasons.append(f"{error.what}\n{error.remedy}" if error.remedy else error.what)
    usable = [number for number in real.numbers if number not in left_out]
    if len(usable) < FEWEST_EPISODES:
        reasons.append(
            f"{len(usable)} usable episodes; at least {FEWEST_EPISODES} are needed, one of them to judge"
        )
    channels: tuple[tuple[str, str], ...] = ()
    unknown: tuple[str, ...] = ()
    models: dict[str, tuple[str, ...]] = {}
    if usable:
        first = real.episode(usable[0])
        try:
            cell = make_cell(twin)
            found = find_channels(cell, first)
            read_recording(cell, first, found)
            channels, unknown = tuple((c.name, c.unit) for c in found), unknown_joints(cell, first)
            models = {k: tuple(v) for k, v in _models(twin, real, usable, parameters).items()}
        except TwinloopError as error:
            reasons.append(str(error))
        if first.provenance.source == "sim" and not allow_simulated:
            reasons.append("these episodes are simulated; identification needs recordings of the robot")
    return Readiness(
        len(real), left_out, _duration_s(real), channels, unknown, models, tuple(reasons), _notes(unknown, models), report
    )  # fmt: skip


def _models(
    twin: Twin, real: Dataset, usable: Sequence[int], parameters: Sequence[str] | None
) -> dict[str, list[str]]:
    if parameters:
        return {"chosen": expand_parameters(twin, parameters)}
    found = default_models(twin, [real.episode(usable[0])])
    return found if len(usable) >= ENOUGH_TO_CHOOSE else dict(list(found.items())[:1])


def _duration_s(real: Dataset) -> float:
    return real.num_frames / real.schema.rate_hz


def _notes(unknown: Sequence[str], models: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    notes = []
    if unknown:
        notes.append(f"recorded joints that the twin does not have: {', '.join(unknown)}")
    if len(models) > 1:
        notes.append(
            f"{len(models)} models compete; the simplest that replays new episodes as well as the best is taken"
        )
    return tuple(notes)
