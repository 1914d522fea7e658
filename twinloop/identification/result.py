"""`Identification`: estimates of a twin's parameters with their uncertainty, and the replay error of the calibrated twin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, InstanceOf, PlainSerializer

from twinloop.errors import UnknownName, WrongUse
from twinloop.identification.accept import ReplayError, ReplayGate
from twinloop.identification.bands import Bands
from twinloop.identification.choose import Choice
from twinloop.identification.identifiable import Confusion, Status
from twinloop.records import NumberArray, SavedRecord, derived, load_record, save_record
from twinloop.stats.interval import Interval
from twinloop.twins import Twin
from twinloop.twins.folder import load_twin_folder, save_twin

SAMPLES = "samples.npy"


@dataclass(frozen=True, kw_only=True)
class Estimate(Interval):
    """One parameter: nominal before, value after with its 95 % interval, and whether the data identify it at all."""

    name: str
    dimension: str
    nominal: float
    prior: tuple[float, float]
    status: Status
    at_edge: bool = False


@dataclass(frozen=True, eq=False)
class Identification(SavedRecord):
    """The outcome of `identify`.

    `twin` is the calibrated version; parameters that the data would not identify even if the others were known keep their
    nominal value in it. `covariance` of the estimates, `run_to_run` (how much the true values differ between episodes) and
    posterior `samples` are in the parameters' own units, in the order of `estimates`. `discrepancy` per channel is the
    replay error of the calibrated twin beyond the sensor's noise. `choice` says how the model was chosen, if several competed.
    """

    FILE, COMMAND = "identification.json", "twinloop identify --out FOLDER"

    twin: Annotated[InstanceOf[Twin], PlainSerializer(lambda twin: twin.name)]
    base: str
    estimates: tuple[Estimate, ...]
    covariance: NumberArray
    run_to_run: NumberArray
    samples: Annotated[NumberArray, Field(exclude=True)]
    confusions: tuple[Confusion, ...]
    channels: tuple[str, ...]
    units: tuple[str, ...]
    sensor_noise: tuple[float, ...]
    discrepancy: tuple[float, ...]
    bands: Bands
    coverage: tuple[float, ...]
    horizon_s: float | None
    fitted: tuple[str, ...]
    held_out: tuple[str, ...]
    errors: tuple[ReplayError, ...]
    gate: ReplayGate
    warnings: tuple[str, ...] = ()
    forced: str | None = None
    seed: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)
    choice: Choice | None = None

    def __getitem__(self, name: str) -> Estimate:
        """The estimate of one parameter."""
        for estimate in self.estimates:
            if estimate.name == name:
                return estimate
        raise UnknownName("identified parameter", name, [e.name for e in self.estimates])

    @property
    def nominal_twin(self) -> Twin:
        """The twin before calibration."""
        return self.twin.with_values({e.name: e.nominal for e in self.estimates})

    @property
    def accepted_twin(self) -> Twin:
        """The calibrated twin if held-out replay accepted it, else the twin before calibration."""
        return self.twin if self.gate.accepted else self.nominal_twin

    @property
    def names(self) -> tuple[str, ...]:
        """The requested parameters."""
        return tuple(estimate.name for estimate in self.estimates)

    @property
    def identified(self) -> tuple[str, ...]:
        """Parameters that the data determine, alone or in combination."""
        return tuple(e.name for e in self.estimates if e.name not in self.unidentified)

    @property
    def unidentified(self) -> tuple[str, ...]:
        """Parameters that the data do not identify, neither alone nor separately from those they are confused with."""
        return tuple(e.name for e in self.estimates if e.status == "not identifiable")

    @property
    def confused(self) -> frozenset[str]:
        """Parameters that are only known in combination with others."""
        return frozenset(name for confusion in self.confusions for name in confusion.names)

    def errors_by_channel(self) -> dict[str, tuple[float, float]]:
        """Held-out root mean square error per channel, (before, after), mean over episodes."""
        before = np.mean([e.before for e in self.errors], axis=0)
        after = np.mean([e.after for e in self.errors], axis=0)
        return {name: (float(b), float(a)) for name, b, a in zip(self.channels, before, after, strict=True)}

    @derived
    def twin_version(self) -> str:
        """Version of the calibrated twin."""
        return self.twin.version

    @derived
    def twin_hash(self) -> str:
        """Content hash of the calibrated twin."""
        return self.twin.content_hash

    @derived
    def accepted(self) -> bool:
        """Whether held-out replay accepted the calibrated twin."""
        return self.gate.accepted

    def save(self, folder: str | Path) -> Path:
        """Write the calibrated twin as a folder, with `identification.json` and `samples.npy` inside it; returns the folder."""
        path = save_twin(self.twin, folder)
        np.save(path / SAMPLES, self.samples, allow_pickle=False)
        save_record(self, path / self.FILE)
        return path


def load_identification(folder: str | Path) -> Identification:
    """Read an identification that `twinloop identify --out` wrote.

    Args:
        folder: The calibrated twin's folder.

    Returns:
        The identification, with its twin and posterior samples.

    Raises:
        WrongUse: If the folder holds no identification, or one that cannot be read.
    """
    path = Path(folder)
    if not (path / SAMPLES).is_file():
        raise WrongUse(
            f"{path} holds no identification", expected=f"a folder that `{Identification.COMMAND}` wrote"
        )
    samples = np.load(path / SAMPLES, allow_pickle=False)
    return load_record(Identification, path, twin=load_twin_folder(path), samples=samples)
