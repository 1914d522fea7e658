"""docs/imperfect.md runs, shows pictures that exist, and promises no speed the code does not keep."""

import re
import time
from pathlib import Path

import numpy as np

from twinloop.imperfect import backlash, bias, delay, friction, noise, quantize, saturation, stream

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "imperfect.md").read_text()


def test_the_code_on_the_page_runs():
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "docs/imperfect.md", "exec"), names)
    assert names["reading"].shape == (3, 7)
    assert names["recorded"].dtype == np.uint8


def test_every_picture_is_shown_and_small():
    shown = {DOCS / name for name in re.findall(r"\]\((images/[^)]+)\)", PAGE)}
    assert shown == set((DOCS / "images/imperfect").glob("*.png"))
    assert max(path.stat().st_size for path in shown) < 60_000


def test_a_control_step_of_all_low_dimensional_parts_takes_microseconds_per_environment():
    environments, channels = 256, 7
    seeds = range(environments)
    channel = delay.Delay(np.linspace(0, 0.1, environments), 0.004, 0.01)
    signal = noise.draw_normal(seeds, "signal", 1, (channels,))[0].astype(float)
    jitter, drop = noise.draw_normal(seeds, "jitter", 1)[0], noise.draw_uniform(seeds, "drop", 1)[0]
    sent, read = (module.make_state(channel, signal, 0.02) for module in (delay, stream))
    gear = backlash.make_state(signal)
    best_s = np.inf
    for _ in range(30):
        start = time.perf_counter()
        sent, command = delay.step(channel, sent, signal, 0.02, jitter, drop)
        torque = saturation.apply(saturation.Saturation(1.0, 2.0, 9.0), command, signal)
        torque += friction.stick_slip_torque(friction.Friction(0.1, 0.1, 0.1), signal, torque, 0.1, 0.02)
        gear, position = backlash.step(backlash.Backlash(0.01), gear, signal)
        reading = bias.apply(bias.Bias(0.1, noise=0.01), position, 0.02, signal)
        reading = quantize.apply(quantize.Quantization(0.01), reading)
        read, reading = stream.step(channel, read, reading, 0.02, jitter, drop)
        best_s = min(best_s, time.perf_counter() - start)
    assert best_s / environments < 10e-6
