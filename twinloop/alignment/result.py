"""`Alignment`: where a camera is and how its lens draws, how sure that is, and the twin with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, InstanceOf, PlainSerializer

from twinloop.errors import UnknownName
from twinloop.randomization import Normal, Randomization, make_randomization
from twinloop.records import NumberArray, SavedRecord, derived, load_record
from twinloop.stats.interval import Interval
from twinloop.twins import Twin
from twinloop.twins.folder import load_twin_folder, save_twin

CLEAR = 5.0
"""A quantity nearer than this many standard deviations to a bound varies alone, cut there."""
LEAST_SPREAD = 1e-6
ALIGNED, PARTLY, NOT_DETERMINED = "aligned", "partly determined", "not determined"
VerdictWord = Literal["aligned", "partly determined", "not determined"]


@dataclass(frozen=True, kw_only=True)
class CameraEstimate(Interval):
    """One quantity: `name` as people call it, the twin's `parameter` (None if the twin has none), value before, and whether frames tell it."""

    name: str
    parameter: str | None
    nominal: float
    prior: float
    determined: bool
    joint: str | None = None


@dataclass(frozen=True, eq=False)
class Alignment(SavedRecord):
    """The outcome of `align`.

    `twin` is a new version with the aligned camera, or the twin as it was if nothing was determined. `estimates` are in the order of
    `covariance`, which is in their own units. `before_px` and `after_px` are median distances between the twin's outlines and the
    edges of frames that were not fitted. `offsets` names the joints whose zero is off; `poses_to_record` are joint angles by
    actuator whose frames would tell most.
    """

    FILE, COMMAND = "alignment.json", "twinloop align --out FOLDER"

    twin: Annotated[InstanceOf[Twin], Field(exclude=True), PlainSerializer(lambda twin: twin.name)]
    base: str
    camera: str
    verdict: VerdictWord
    reason: str
    estimates: tuple[CameraEstimate, ...]
    covariance: NumberArray
    frames: tuple[str, ...]
    held_out: tuple[str, ...]
    before_px: float
    after_px: float
    scatter_px: float
    matched: float
    offsets: tuple[str, ...] = ()
    poses_to_record: tuple[Mapping[str, float], ...] = ()
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> CameraEstimate:
        """The estimate of one quantity."""
        for estimate in self.estimates:
            if name in (estimate.name, estimate.parameter):
                return estimate
        raise UnknownName("aligned quantity", name, [e.name for e in self.estimates])

    @property
    def uncertainty(self) -> Randomization:
        """How the aligned camera and joint zeros may still be off, as a randomization of the new twin's parameters, correlated."""
        return self.uncertainty_in(self.twin)

    def uncertainty_in(self, twin: Twin) -> Randomization:
        """The same around the values of another version of the twin, such as one that was identified since."""
        if self.verdict == NOT_DETERMINED:
            return make_randomization(twin, {}, name=f"camera {self.camera}")
        alone: dict[str, Normal] = {}
        together: list[tuple[int, str, float]] = []
        for index, estimate in enumerate(self.estimates):
            if estimate.parameter is None or not twin.has(estimate.parameter):
                continue
            parameter = twin.parameter(estimate.parameter)
            mean, spread = float(parameter.nominal), max(estimate.standard_deviation, LEAST_SPREAD)
            low, high = parameter.bounds
            if min(mean - low, high - mean) < CLEAR * spread:
                alone[parameter.name] = Normal(mean, spread, low, high)
            else:
                together.append((index, parameter.name, mean))
        if len(together) == 1:
            ((index, name, mean),) = together
            alone[name] = Normal(mean, max(self.estimates[index].standard_deviation, LEAST_SPREAD))
            together = []
        rows = [index for index, _, _ in together]
        matrix = np.asarray(self.covariance)[np.ix_(rows, rows)] + LEAST_SPREAD**2 * np.eye(len(rows))
        correlated = [([name for _, name, _ in together], [mean for *_, mean in together], matrix)]
        return make_randomization(
            twin, alone, correlated=correlated if rows else (), name=f"camera {self.camera}"
        )

    @derived
    def not_determined(self) -> tuple[str, ...]:
        """Quantities that the frames do not tell: their values come mostly from what was known before."""
        return tuple(estimate.name for estimate in self.estimates if not estimate.determined)

    @derived
    def twin_version(self) -> str:
        """Version of the aligned twin."""
        return self.twin.version

    @derived
    def twin_hash(self) -> str:
        """Content hash of the aligned twin."""
        return self.twin.content_hash

    def save(self, folder: str | Path) -> Path:
        """Write the aligned twin as a folder with `alignment.json` inside it; returns the folder."""
        path = save_twin(self.twin, folder)
        SavedRecord.save(self, path)
        return path


def load_alignment(folder: str | Path) -> Alignment:
    """Read an alignment that `twinloop align --out` wrote.

    Args:
        folder: The aligned twin's folder.

    Returns:
        The alignment, with its twin.

    Raises:
        WrongUse: If the folder holds no alignment, or one that cannot be read.
    """
    path = Path(folder)
    return load_record(Alignment, path, twin=load_twin_folder(path))
