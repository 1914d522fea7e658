"""`identify`: from real episodes to a calibrated twin that knows how sure it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from twinloop.datasets.reader import Dataset
from twinloop.episode import Episode
from twinloop.errors import WrongUse
from twinloop.identification.choose import choose
from twinloop.identification.config import IdentifyConfig, expand_parameters
from twinloop.identification.fit import Tried, fit, try_model
from twinloop.identification.meter import Meter, OnProgress
from twinloop.identification.models import default_models
from twinloop.identification.result import Identification
from twinloop.identification.windows import split_episodes
from twinloop.quality.finding import Finding
from twinloop.quality.require import require_usable
from twinloop.twins import Twin

MOST_LEFT_OUT = 0.2
"""Of a dataset's episodes, the fraction that is left out if the quality check blocks them; if more are, something else is wrong."""
ENOUGH_TO_CHOOSE = 6
"""Episodes from which on the default models compete; with fewer, the simple one is fitted."""


def identify(
    twin: Twin,
    real: Iterable[Episode],
    parameters: Sequence[str] | None = None,
    *,
    models: Mapping[str, Sequence[str]] | None = None,
    config: IdentifyConfig | None = None,
    on_progress: OnProgress | None = None,
) -> Identification:
    """Fit parameters of a twin to real episodes and say how certain the values are.

    Without `parameters` and `models`, friction, damping and rotor inertia of every joint that is read, the servos' stiffness and the
    action delay are fitted, with and without the friction of gears, and the simplest model that replays new episodes as well
    as the best is chosen.

    Args:
        twin: The twin to calibrate.
        real: A dataset or episodes. Part of them is never fitted and judges the result. Episodes of a dataset that the
            quality check blocks are left out if they are few, and refused otherwise, unless `config.force` gives a reason.
        parameters: Names, in which `*` and `?` match.
        models: Competing sets of parameters instead, by label.
        config: Ranges, signals, held-out episodes, limits and seed.
        on_progress: Called with the seconds simulated so far and those expected in all.

    Returns:
        Values with intervals and correlations, what is identifiable, and whether held-out replay accepts the calibrated twin.

    Raises:
        RefusedData: If the recordings cannot identify what is asked.
        UnknownName: If the twin has no such parameter.
        WrongUse: If there are too few episodes, or simulated ones.
    """
    config = config or IdentifyConfig()
    if parameters is not None and models:
        raise WrongUse("parameters and models exclude each other", remedy="name one or the other")
    blocked: tuple[Finding, ...] = ()
    if isinstance(real, Dataset) and config.force is None:
        blocked = require_usable(real, "identify", may_leave_out=MOST_LEFT_OUT).blocking
    left_out = {finding.episode_id for finding in blocked}
    episodes = [episode for episode in real if episode.id not in left_out]
    made = sum(episode.provenance.source == "sim" for episode in episodes)
    if made and not config.allow_simulated:
        raise WrongUse(
            f"{made} of {len(episodes)} episodes are simulated",
            expected="recordings of the real robot",
            remedy="--simulated fits them on purpose (IdentifyConfig(allow_simulated=True))",
        )
    result = _fit(twin, episodes, parameters, models, config, Meter(on_progress))
    return replace(result, warnings=(*_say_left_out(blocked), *result.warnings))


def _fit(
    twin: Twin,
    episodes: Sequence[Episode],
    parameters: Sequence[str] | None,
    models: Mapping[str, Sequence[str]] | None,
    config: IdentifyConfig,
    meter: Meter,
) -> Identification:
    """Fit what was asked for, or what is fitted by default."""
    if parameters is not None:
        return _fit_one(twin, episodes, expand_parameters(twin, parameters), config, meter)
    if models:
        competing = {label: expand_parameters(twin, names) for label, names in models.items()}
        if len(competing) < 2:
            raise WrongUse("nothing to choose from", got=list(competing), expected="at least 2 models")
        return _fit_best(twin, episodes, competing, config, meter)
    if not episodes:
        raise WrongUse("no episodes to identify from", expected="at least 2 real episodes")
    competing = default_models(twin, episodes)
    if len(competing) > 1 and len(episodes) >= ENOUGH_TO_CHOOSE:
        return _fit_best(twin, episodes, competing, config, meter)
    return _fit_one(twin, episodes, next(iter(competing.values())), config, meter)


def _say_left_out(blocked: Sequence[Finding]) -> list[str]:
    """Which episodes were left out, and why."""
    first = {finding.episode: finding for finding in reversed(blocked)}
    return [
        f"episode {number} was left out, the quality check blocks it: {finding.code}, {finding.channel}: {finding.message}"
        for number, finding in sorted(first.items())
    ]


def _fit_one(
    twin: Twin, episodes: Sequence[Episode], parameters: Sequence[str], config: IdentifyConfig, meter: Meter
) -> Identification:
    meter.expect(episodes, parameters, config.seconds)
    return fit(twin, episodes, parameters, config, meter)


def _fit_best(
    twin: Twin,
    episodes: Sequence[Episode],
    models: Mapping[str, Sequence[str]],
    config: IdentifyConfig,
    meter: Meter,
) -> Identification:
    """Fit every model, choose on validation episodes, and fit the chosen one to all but the held-out episodes, which no choice has seen."""
    if len(episodes) < 4:
        raise WrongUse(
            "too few episodes to fit, to choose and to judge",
            got=len(episodes),
            expected="at least 4 episodes",
        )
    held_out = _held_out(episodes, config)
    rest = [episode for episode in episodes if episode.id not in held_out]
    validation = [
        rest[i].id for i in split_episodes([f"choice {episode.id}" for episode in rest], 1.0 / 3.0)[1]
    ]

    for names in models.values():
        meter.expect(rest, names, config.seconds / len(models))
    meter.expect(episodes, max(models.values(), key=len), config.seconds)
    tried: dict[str, Tried] = {}
    near: Mapping[str, float] = {}
    how = replace(
        config, held_out=validation, held_out_every=None, priors={}, seconds=config.seconds / len(models)
    )
    for label, names in sorted(models.items(), key=lambda model: len(model[1])):
        priors = {name: bounds for name, bounds in config.priors.items() if name in names}
        tried[label] = try_model(twin, rest, names, replace(how, priors=priors), meter, near)
        near = {**near, **tried[label].values[0]}
    choice = choose({label: (models[label], made.errors) for label, made in tried.items()}, validation)
    chosen = models[choice.chosen]
    priors = {name: bounds for name, bounds in config.priors.items() if name in chosen}
    how = replace(config, held_out=held_out, held_out_every=None, priors=priors)
    result = fit(twin, episodes, chosen, how, meter, tried[choice.chosen].values)
    return replace(result, choice=choice)


def _held_out(episodes: Sequence[Episode], config: IdentifyConfig) -> list[str]:
    if config.held_out_every is not None:
        return [episode.id for episode in episodes[1 :: config.held_out_every]]
    if config.held_out is not None:
        return list(config.held_out)
    return [episodes[i].id for i in split_episodes([episode.id for episode in episodes])[1]]
