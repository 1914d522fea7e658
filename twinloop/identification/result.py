"""`Identification`: estimates of a twin's parameters with their uncertainty, and the replay error of the calibrated twin."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.errors import TwinloopError, UnknownName
from twinloop.identification.accept import ReplayError, ReplayGate
from twinloop.identification.bands import Bands
from twinloop.identification.identifiable import Confusion, Status
from twinloop.stats.interval import Interval
from twinloop.twins import Twin
from twinloop.twins.folder import load_twin_folder, save_twin

Array = NDArray[Any]

FORMAT = 1


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
class Identification:
    """The outcome of `identify`.

    `twin` is the calibrated version; parameters that the data would not identify even if the others were known keep their
    nominal value in it. `covariance` of the estimates, `run_to_run` (how much the true values differ between episodes) and
    posterior `samples` are in the parameters' own units, in the order of `estimates`. `discrepancy` per channel is the
    replay error of the calibrated twin beyond the sensor's noise.
    """

    twin: Twin
    base: str
    estimates: tuple[Estimate, ...]
    covariance: Array
    run_to_run: Array
    samples: Array
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

    def as_json(self) -> dict[str, Any]:
        """Plain values; the twin by its hash."""
        return {
            "format": FORMAT,
            "twin": self.twin.name,
            "twin_version": self.twin.version,
            "twin_hash": self.twin.content_hash,
            "base": self.base,
            "accepted": self.gate.accepted,
            "estimates": [asdict(estimate) for estimate in self.estimates],
            "covariance": self.covariance.tolist(),
            "run_to_run": self.run_to_run.tolist(),
            "confusions": [asdict(confusion) for confusion in self.confusions],
            "channels": list(self.channels),
            "units": list(self.units),
            "sensor_noise": list(self.sensor_noise),
            "discrepancy": list(self.discrepancy),
            "bands": asdict(self.bands),
            "coverage": list(self.coverage),
            "horizon_s": self.horizon_s,
            "fitted": list(self.fitted),
            "held_out": list(self.held_out),
            "errors": [asdict(error) for error in self.errors],
            "gate": asdict(self.gate),
            "warnings": list(self.warnings),
            "forced": self.forced,
            "seed": self.seed,
            "details": dict(self.details),
        }

    def save(self, folder: str | Path) -> Path:
        """Write the calibrated twin as a folder, with `identification.json` and `samples.npy` inside it."""
        path = save_twin(self.twin, folder)
        np.save(path / "samples.npy", self.samples, allow_pickle=False)
        (path / "identification.json").write_text(json.dumps(self.as_json(), indent=1, ensure_ascii=False))
        return path


def load_identification(folder: str | Path) -> Identification:
    """Read an identification that `twinloop identify --out` wrote.

    Args:
        folder: The calibrated twin's folder.

    Returns:
        The identification, with its twin and posterior samples.

    Raises:
        TwinloopError: If the folder holds no identification, or one that cannot be read.
    """
    path = Path(folder)
    file = path / "identification.json"
    if not file.is_file():
        raise TwinloopError(
            f"{path} holds no identification", expected="a folder that `twinloop identify --out` wrote"
        )
    try:
        words = json.loads(file.read_text())
        samples = np.load(path / "samples.npy", allow_pickle=False)
        return _from_json(words, load_twin_folder(path), samples)
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise TwinloopError(
            f"{file} cannot be read", got=str(error), remedy="run `twinloop identify` again"
        ) from error


def _from_json(words: dict[str, Any], twin: Twin, samples: Array) -> Identification:
    bands = {k: _tuples(v) for k, v in words["bands"].items()}
    return Identification(
        twin=twin,
        base=words["base"],
        estimates=tuple(Estimate(**{**e, "prior": tuple(e["prior"])}) for e in words["estimates"]),
        covariance=np.array(words["covariance"]),
        run_to_run=np.array(words["run_to_run"]),
        samples=samples,
        confusions=tuple(
            Confusion(tuple(c["names"]), tuple(c["weights"]), c["remedy"]) for c in words["confusions"]
        ),
        bands=Bands(**bands),
        errors=tuple(
            ReplayError(e["episode"], tuple(e["before"]), tuple(e["after"])) for e in words["errors"]
        ),
        gate=ReplayGate(**words["gate"]),
        **{
            name: _tuples(words[name])
            for name in "channels units sensor_noise discrepancy coverage horizon_s fitted held_out warnings forced seed details".split()
        },
    )


def _tuples(value: Any) -> Any:
    return (
        tuple(_tuples(part) for part in value)
        if isinstance(value, Sequence) and not isinstance(value, str)
        else value
    )
