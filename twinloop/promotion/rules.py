"""The criteria of a verdict, fixed before the first trial."""

from __future__ import annotations

from dataclasses import dataclass

from twinloop.errors import WrongUse


@dataclass(frozen=True)
class Rules:
    """The criteria of a verdict.

    - `alpha`: probability of promoting a candidate that is not better, at most, however often the trials are inspected
    - `better_by`: with a champion, the candidate's success rate must exceed the champion's by more than this
    - `threshold`: without a champion, the candidate's success rate must exceed this
    - `min_effect`: smallest gain beyond the bar worth having; evidence against it refuses the candidate
    - `slice_margin`: no slice of the scenes may be worse than the bar by more than this
    - `max_trials`: budget of real trials (pairs)
    - `max_artefact_fraction`: largest accepted fraction of simulated trials with artefacts
    - `simulation_only`: judge by simulated trials alone; the verdict then does not hold for a robot
    - `require_engines`: the candidate must have been found robust in several physics engines
    """

    alpha: float = 0.05
    better_by: float = 0.0
    threshold: float = 0.8
    min_effect: float = 0.05
    slice_margin: float = 0.1
    max_trials: int = 100
    max_artefact_fraction: float = 0.02
    simulation_only: bool = False
    require_engines: bool = False

    def __post_init__(self) -> None:
        for name, low, high in (
            ("alpha", 0.0, 0.5),
            ("threshold", 0.0, 1.0),
            ("min_effect", 0.0, 1.0),
            ("slice_margin", 0.0, 1.0),
        ):
            value = getattr(self, name)
            if not low < value < high:
                raise WrongUse(f"{name} is out of range", got=value, expected=f"between {low:g} and {high:g}")
        if not -1.0 < self.better_by < 1.0 or not 0.0 <= self.max_artefact_fraction <= 1.0:
            raise WrongUse("better_by lies within (-1, 1) and max_artefact_fraction within [0, 1]")
        if self.max_trials < 1:
            raise WrongUse("a gate needs at least one trial", got=self.max_trials)

    def bar(self, paired: bool) -> float:
        """The value that the mean outcome must exceed."""
        return self.better_by if paired else self.threshold
