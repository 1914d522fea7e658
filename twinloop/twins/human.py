"""Human variation: the style of a demonstrator, and the strength of a throw."""

from __future__ import annotations

from twinloop.twins.parameter import Parameter, Stage


def _human(
    name: str, nominal: float, low: float, high: float, unit: str, text: str, stage: Stage = "actor"
) -> Parameter:
    return Parameter(name, nominal, (low, high), unit, "human", stage, text)


def demonstrator_parameters(*, lifts: bool = True) -> tuple[Parameter, ...]:
    """The style of a demonstration, which scripted experts follow; where nothing is carried, the tool is not lifted either."""
    lift = _human("demonstrator_lift_m", 0.0, -0.03, 0.15, "m", "additional height at which the tool travels")
    return (
        _human("demonstrator_speed_scale", 1.0, 0.3, 1.6, "1", "speed of every movement"),
        *((lift,) if lifts else ()),
        _human("demonstrator_pause_s", 0.0, 0.0, 1.0, "s", "pause before each movement"),
        # 8 to 12 Hz: Elble and Randall, "Motor-unit activity responsible for 8- to 12-Hz component of human
        # physiological finger tremor", Journal of Neurophysiology 39(2), 1976.
        _human("demonstrator_tremor_m", 0.0, 0.0, 0.005, "m", "amplitude of the hand's tremor, 8 to 12 Hz"),
    )


def throw_parameters() -> tuple[Parameter, ...]:
    """Speed, spin and height of a throw; read by the `toss` task."""
    return (
        _human("throw_speed_scale", 1.0, 0.0, 3.0, "1", "speed of a throw", "scene"),
        _human("throw_spin_scale", 1.0, 0.0, 3.0, "1", "spin of a throw", "scene"),
        _human("throw_height_m", 0.0, -0.05, 0.5, "m", "additional height at which a throw starts", "scene"),
    )
