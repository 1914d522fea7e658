"""An environment's result is bit for bit the same in any batch: alone, reordered, or among others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinloop.imperfect import (
    backlash,
    bias,
    camera,
    delay,
    depth,
    drift,
    friction,
    noise,
    quantize,
    saturation,
    stream,
)
from twinloop.imperfect.camera import CameraEffects, Sensor
from twinloop.imperfect.flare import Flare
from twinloop.imperfect.lens import Lens
from twinloop.imperfect.shutter import Shutter

DT_S = 0.02
STEPS = 6
CHANNELS = 3


def of_each(seeds, low, high):
    """A parameter that follows from the environment's seed."""
    return low + (high - low) * noise.draw_uniform(seeds, "parameter", 1)[0].astype(np.float64)


def signal(seeds, stream_name="signal"):
    return noise.draw_normal(seeds, stream_name, STEPS, (CHANNELS,))


def run_delay(seeds, module=delay):
    params = delay.Delay(of_each(seeds, 0, 0.07), of_each(seeds, 0, 0.01), of_each(seeds, 0, 0.5))
    state = module.make_state(params, np.zeros((len(seeds), CHANNELS)), DT_S)
    jitter = noise.draw_normal(seeds, "jitter", STEPS)
    drop = noise.draw_uniform(seeds, "drop", STEPS)
    outputs = []
    for t, value in enumerate(signal(seeds)):
        state, output = module.step(params, state, value, DT_S, jitter[t], drop[t])
        outputs.append(output)
    return np.stack(outputs, axis=1)


def run_stream(seeds):
    return run_delay(seeds, stream)


def run_backlash(seeds):
    params = backlash.Backlash(of_each(seeds, 0, 1))
    state = backlash.make_state(np.zeros((len(seeds), CHANNELS)))
    outputs = []
    for value in signal(seeds):
        state, output = backlash.step(params, state, value)
        outputs.append(output)
    return np.stack(outputs, axis=1)


def run_friction(seeds):
    params = friction.Friction(
        of_each(seeds, 0, 1),
        of_each(seeds, 0, 1),
        of_each(seeds, 0, 1),
        of_each(seeds, 0.1, 1),
        of_each(seeds, 0, 1),
    )
    speed, applied = signal(seeds)[0], signal(seeds, "applied")[0]
    return np.stack(
        [
            friction.regularized_torque(params, speed, applied),
            friction.stick_slip_torque(params, speed, applied, of_each(seeds, 0.1, 1), DT_S, applied),
        ],
        axis=1,
    )


def run_saturation(seeds):
    params = saturation.Saturation(of_each(seeds, 0, 1), of_each(seeds, 1, 2), of_each(seeds, 1, 2))
    return saturation.apply(params, signal(seeds)[0], signal(seeds, "speed")[0])


def run_quantize(seeds):
    return quantize.apply(quantize.Quantization(of_each(seeds, 0, 0.1)), signal(seeds)[0])


def run_bias(seeds):
    params = bias.Bias(
        of_each(seeds, -1, 1), of_each(seeds, 0, 0.1), of_each(seeds, 0, 1), of_each(seeds, 0, 1)
    )
    return bias.apply(params, signal(seeds)[0], DT_S, signal(seeds, "noise")[0])


def run_drift(seeds):
    walk = drift.RandomWalk(of_each(seeds, 0, 1), of_each(seeds, 0.5, 5))
    warm = drift.TemperatureDrift(
        of_each(seeds, 0, 1), time_constant_s=of_each(seeds, 1, 9), self_heating_k=5.0
    )
    walk_state = drift.make_walk_state(np.zeros((len(seeds), CHANNELS)))
    warm_state = drift.make_temperature_state(of_each(seeds, 10, 30), len(seeds))
    normal = signal(seeds, "drift")
    outputs = []
    for t, value in enumerate(signal(seeds)):
        walk_state, output = drift.step_walk(walk, walk_state, value, DT_S, normal[t])
        warm_state, output = drift.step_temperature(warm, warm_state, output, DT_S)
        outputs.append(output)
    return np.stack(outputs, axis=1)


def images(seeds, shape):
    return np.abs(np.stack(noise.frame_noise(seeds, "image", 0, shape)))


def run_depth(seeds):
    params = depth.DepthNoise(
        disparity_noise_px=of_each(seeds, 0, 1),
        disparity_step_px=of_each(seeds, 0, 0.5),
        edge_shift_px=of_each(seeds, 0, 2),
        edge_dropout=of_each(seeds, 0, 1),
        reflective_dropout=of_each(seeds, 0, 1),
    )
    scene = images(seeds, (13, 17))
    return depth.apply(params, scene, depth.draw_noise(seeds, 0, 13, 17), np.minimum(scene, 1.0))


def run_camera(seeds):
    white_balance = 1.0 + 0.1 * noise.draw_normal(seeds, "white balance", 1, (3,))[0].clip(-2, 2)
    effects = CameraEffects(
        Lens(k1=of_each(seeds, -0.2, 0.2), vignetting=of_each(seeds, 0, 1)),
        Shutter(of_each(seeds, 0, 0.02), of_each(seeds, 0, 1e-3)),
        Flare(of_each(seeds, 0, 0.3), of_each(seeds, 0, 1)),
        Sensor(
            of_each(seeds, 0.5, 2), 1.0, white_balance, of_each(seeds, 0.5, 1), of_each(seeds, 100, 9e3), 5.0
        ),
    )
    frames = (images(seeds, (13, 17, 3)) * 60).clip(0, 255).astype(np.uint8)
    tables = camera.make_tables(effects, len(seeds), 13, 17)
    velocity = 200.0 * signal(seeds, "velocity")[0][:, :2]
    return camera.capture(tables, frames, velocity, noise.frame_noise(seeds, "camera", 0, (13, 17, 3)))


RUNS = [
    run_delay,
    run_stream,
    run_backlash,
    run_friction,
    run_saturation,
    run_quantize,
    run_bias,
    run_drift,
    run_depth,
    run_camera,
]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.__name__.removeprefix("run_"))
@settings(max_examples=12, deadline=None)
@given(seeds=st.lists(st.integers(0, 2**62), min_size=1, max_size=9, unique=True), data=st.data())
def test_the_rest_of_the_batch_does_not_matter(run, seeds, data):
    chosen = data.draw(st.lists(st.sampled_from(range(len(seeds))), min_size=1, max_size=9))
    together = run(seeds)
    np.testing.assert_array_equal(run([seeds[i] for i in chosen]), together[chosen])
