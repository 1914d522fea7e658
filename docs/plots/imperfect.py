"""Draw the images of docs/research/imperfect.md: `python docs/plots/imperfect.py` from the project's folder."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

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
from twinloop.imperfect.delay import Delay
from twinloop.imperfect.flare import Flare
from twinloop.imperfect.lens import Lens
from twinloop.imperfect.shutter import Shutter

Array = np.ndarray[Any, Any]
OUT = Path(__file__).parent.parent / "images" / "imperfect"
BLUE, ORANGE, GREY = "#2b6cb0", "#dd6b20", "#a0aec0"
WIDE = (6.4, 2.5)


def save(name: str, figure: Any, colours: int | None = 64) -> None:
    """Write a figure as a small PNG, with a palette unless `colours` is None."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=100)
    plt.close(figure)
    buffer.seek(0)
    image = Image.open(buffer).convert("RGB")
    if colours is not None:
        image = image.quantize(colours, dither=Image.Dither.NONE)
    image.save(OUT / f"{name}.png", optimize=True)


def figure(columns: int = 1, size: tuple[float, float] = WIDE, **options: Any) -> tuple[Any, Any]:
    """A row of axes with a tight layout."""
    return plt.subplots(1, columns, figsize=size, layout="constrained", **options)


def follow(step: Callable[[Any, Array], tuple[Any, Array]], state: Any, signal: Array) -> Array:
    """What a part makes of a signal (T,) in one environment."""
    outputs = []
    for value in signal:
        state, output = step(state, np.full((1, 1), value))
        outputs.append(float(output[0, 0]))
    return np.array(outputs)


def draw_delay() -> None:
    """The same signal through a packet channel and through a stream, and the spread of arrival times."""
    time_s = np.arange(60) * 0.02
    signal = np.sin(2 * np.pi * 1.2 * time_s) * (time_s > 0.1)
    drop = iter(noise.draw_uniform([4], "drop", 60))
    packets = Delay(0.07, drop_probability=0.2)
    held = follow(
        lambda state, value: delay.step(packets, state, value, 0.02, drop=next(drop)),
        delay.make_state(packets, np.zeros((1, 1)), 0.02),
        signal,
    )
    late = Delay(0.07)
    streamed = follow(
        lambda state, value: stream.step(late, state, value, 0.02),
        stream.make_state(late, np.zeros((1, 1)), 0.02),
        signal,
    )
    figure_, (left, right) = figure(2, width_ratios=(2, 1))
    left.plot(time_s, signal, color=GREY, label="sent")
    left.step(time_s, held, where="post", color=ORANGE, label="packets: 70 ms late, 20 % lost")
    left.plot(time_s, streamed, color=BLUE, label="stream: 70 ms late")
    left.set(xlabel="time [s]", ylabel="value", ylim=(-1.15, 1.9))
    left.legend(frameon=False, fontsize=7.5, loc="upper left")
    travel_s = delay.travel_time_s(
        Delay(0.05, 0.004), 20_000, noise.draw_normal([1], "jitter", 1, (20_000,))[0, 0]
    )
    right.hist(travel_s * 1e3, bins=60, density=True, color=BLUE, alpha=0.6)
    grid = np.linspace(34, 66, 200)
    right.plot(grid, np.exp(-0.5 * ((grid - 50) / 4) ** 2) / (4 * np.sqrt(2 * np.pi)), color=ORANGE)
    right.set(xlabel="travel time [ms]", ylabel="density", title="50 ms, jitter 4 ms")
    right.title.set_fontsize(9)
    save("delay", figure_)


def draw_backlash() -> None:
    """A decaying swing, in time and as a loop."""
    time_s = np.linspace(0, 4, 800)
    signal = np.sin(2 * np.pi * time_s) * np.exp(-0.25 * time_s)
    gap = backlash.Backlash(0.4)
    output = follow(
        lambda state, value: backlash.step(gap, state, value), backlash.make_state(np.zeros((1, 1))), signal
    )
    figure_, (left, right) = figure(2, width_ratios=(1.6, 1))
    left.plot(time_s, signal, color=GREY, label="motor side")
    left.plot(time_s, output, color=BLUE, label="load side, gap 0.4 rad")
    left.set(xlabel="time [s]", ylabel="angle [rad]", ylim=(-1, 1.45))
    left.legend(frameon=False, fontsize=7.5, ncols=2, loc="upper right")
    right.plot(signal, output, color=BLUE, linewidth=1)
    right.annotate("", (-0.2, 0), (0.2, 0), arrowprops={"arrowstyle": "<->", "color": ORANGE})
    right.text(0, 0.05, "0.4", color=ORANGE, ha="center", fontsize=8)
    right.set(xlabel="motor side [rad]", ylabel="load side [rad]")
    save("backlash", figure_)


def draw_friction() -> None:
    """The Stribeck curve, and a block pulled by a spring."""
    params = friction.Friction(1.0, 0.25, 0.6, 0.15, smooth_speed_rad_s=0.02)
    speed = np.linspace(-2, 2, 1_001)
    figure_, (left, right) = figure(2)
    left.plot(speed, -friction.regularized_torque(params, speed), color=BLUE)
    left.axhline(1.0, color=GREY, linewidth=0.8, linestyle=":")
    left.axhline(1.6, color=GREY, linewidth=0.8, linestyle=":")
    left.text(-2, 1.04, "Coulomb", fontsize=7.5, color="#4a5568")
    left.text(-2, 1.64, "breakaway", fontsize=7.5, color="#4a5568")
    left.set(xlabel="speed [rad/s]", ylabel="opposing torque [N·m]", ylim=(-1.9, 1.9))
    sticky = friction.Friction(1.0, 0.0, 1.0, 0.02)
    position, velocity, track = 0.0, np.zeros(1), []
    for t in range(14_000):
        force = np.array([50.0 * (0.02 * t * 1e-3 - position)])
        velocity = velocity + 1e-3 / 0.1 * (
            force + friction.stick_slip_torque(sticky, velocity, force, 0.1, 1e-3)
        )
        position += 1e-3 * float(velocity[0])
        track.append(position)
    time_s = np.arange(14_000) * 1e-3
    right.plot(time_s, 0.02 * time_s, color=GREY, label="spring's end")
    right.plot(time_s, track, color=ORANGE, label="block: sticks and slips")
    right.set(xlabel="time [s]", ylabel="position")
    right.legend(frameon=False, fontsize=7.5)
    save("friction", figure_)


def draw_saturation() -> None:
    """The region of torque and speed a motor can reach."""
    params = saturation.Saturation(2.0, 5.0, 10.0)
    speed = np.linspace(-13, 13, 600)
    figure_, axes = figure(size=(4.2, 2.7))
    upper = saturation.apply(params, np.full(600, 9.0), speed)
    lower = saturation.apply(params, np.full(600, -9.0), speed)
    axes.fill_between(speed, lower, upper, color=BLUE, alpha=0.15)
    axes.plot(speed, upper, color=BLUE)
    axes.plot(speed, lower, color=BLUE)
    corner = float(saturation.corner_speed_rad_s(params))
    axes.plot([corner], [2.0], "o", color=ORANGE)
    axes.annotate("corner: 6 rad/s", (corner, 2.0), (corner + 0.5, 2.2), fontsize=8, color=ORANGE)
    axes.set(xlabel="speed [rad/s]", ylabel="torque [N·m]", ylim=(-2.5, 2.7))
    save("saturation", figure_)


def draw_quantize() -> None:
    """A slow ramp in counts, and the error's distribution."""
    signal = np.linspace(0, 1, 500)[None]
    figure_, (left, right) = figure(2)
    left.plot(signal[0], signal[0], color=GREY, label="truth")
    left.plot(
        signal[0], quantize.apply(quantize.Quantization(0.125), signal)[0], color=BLUE, label="step 0.125"
    )
    left.set(xlabel="truth", ylabel="reading")
    left.legend(frameon=False, fontsize=7.5)
    truth = np.random.default_rng(0).uniform(-50, 50, (1, 40_000))
    error = (quantize.apply(quantize.Quantization(0.125), truth) - truth)[0]
    right.hist(error, bins=40, density=True, color=BLUE, alpha=0.6)
    right.axhline(8.0, color=ORANGE)
    right.set(
        xlabel="error",
        ylabel="density",
        title=f"variance / step² = {error.var() / 0.125**2:.4f} (1/12 = 0.0833)",
    )
    right.title.set_fontsize(8)
    save("quantize", figure_)


def draw_drift() -> None:
    """Readings of a still gyroscope, and their Allan deviation beside theory."""
    steps, dt_s, density, rate = 60_000, 0.01, 0.004, 0.002
    white = noise.draw_normal([1], "white", steps)
    walk = noise.draw_normal([1], "walk", steps)
    state = drift.make_walk_state(np.zeros(1))
    readings = np.empty(steps)
    for t in range(steps):
        state, offset = drift.step_walk(drift.RandomWalk(rate), state, np.zeros(1), dt_s, walk[t])
        readings[t] = bias.apply(bias.Bias(noise_density=density), offset, dt_s, white[t])[0]
    summed = np.concatenate([[0.0], np.cumsum(readings)]) * dt_s
    lengths = np.unique(np.logspace(0, 4, 30).astype(int))
    tau_s = lengths * dt_s
    deviation = [
        np.sqrt(np.mean((summed[2 * m :] - 2 * summed[m:-m] + summed[: -2 * m]) ** 2) / 2) / (m * dt_s)
        for m in lengths
    ]
    figure_, (left, right) = figure(2)
    left.plot(np.arange(0, steps, 40) * dt_s, readings[::40], color=BLUE, linewidth=0.5)
    left.set(xlabel="time [s]", ylabel="reading of a still gyro [rad/s]")
    left.yaxis.label.set_fontsize(8)
    right.loglog(tau_s, deviation, "o", color=BLUE, markersize=3)
    right.loglog(tau_s, density / np.sqrt(tau_s), color=GREY, linestyle="--", label="density / √τ")
    right.loglog(tau_s, rate * np.sqrt(tau_s / 3), color=ORANGE, linestyle="--", label="rate √(τ/3)")
    right.set(xlabel="averaging time τ [s]", ylabel="Allan deviation [rad/s]", ylim=(5e-4, 8e-2))
    right.yaxis.label.set_fontsize(8)
    right.legend(frameon=False, fontsize=7.5)
    save("drift", figure_)


def draw_temperature() -> None:
    """A force-torque sensor that warms up after being switched on."""
    params = drift.TemperatureDrift(np.array([[0.12, -0.05, 0.3]]), 21.0, 14.0, 21.0, 420.0)
    state = drift.make_temperature_state(21.0, 1)
    rows = []
    for _ in range(400):
        state, reading = drift.step_temperature(params, state, np.zeros((1, 3)), 5.0)
        rows.append(reading[0])
    figure_, axes = figure(size=(4.2, 2.5))
    for axis, values, colour in zip("xyz", np.array(rows).T, (BLUE, GREY, ORANGE), strict=True):
        axes.plot(np.arange(400) * 5 / 60, values, color=colour, label=f"force {axis}")
    axes.set(xlabel="time since switched on [min]", ylabel="offset [N]")
    axes.legend(frameon=False, fontsize=7.5)
    save("temperature", figure_)


def scene(size: int = 128) -> Array:
    """A table with a chequered mat and three boxes: (1, size, size, 3) uint8."""
    rows, columns = np.mgrid[:size, :size] / size
    image = np.empty((size, size, 3))
    image[:] = (0.62, 0.66, 0.70)
    table = rows > 0.3
    image[table] = (0.55, 0.44, 0.33)
    depth_ = 1.0 / np.maximum(rows - 0.1, 0.05)
    mat = table & (np.abs((columns - 0.5) * depth_) < 0.62) & (rows > 0.38)
    squares = (np.floor((columns - 0.5) * depth_ * 6) + np.floor(depth_ * 6)) % 2
    image[mat] = np.where(squares[mat, None] > 0, 0.85, 0.25)
    for left, top, side, colour in (
        (0.18, 0.42, 0.16, (0.80, 0.20, 0.18)),
        (0.58, 0.36, 0.13, (0.20, 0.50, 0.80)),
        (0.48, 0.62, 0.20, (0.25, 0.65, 0.30)),
    ):
        box = (columns > left) & (columns < left + side) & (rows > top) & (rows < top + side)
        image[box] = colour
        lid = box & (rows < top + side * 0.3)
        image[lid] = np.minimum(np.array(colour) * 1.35, 1.0)
    return (image * 255).astype(np.uint8)[None]


def show(axes: Any, image: Array, title: str, **options: Any) -> None:
    """One image without ticks."""
    axes.imshow(image, interpolation="nearest", **options)
    axes.set_title(title, fontsize=8)
    axes.set_axis_off()


def captured(
    effects: CameraEffects, velocity_px_s: tuple[float, float] | None = None, frames: Array | None = None
) -> Array:
    """One frame of the scene through a camera."""
    frames = scene() if frames is None else frames
    size = frames.shape[1:3]
    velocity = None if velocity_px_s is None else np.array([velocity_px_s])
    normal = noise.frame_noise([7], "camera", 0, (*size, 3))
    return camera.capture(camera.make_tables(effects, 1, *size), frames, velocity, normal)[0]


def draw_lens() -> None:
    """A grid through barrel and pincushion lenses, and the light that reaches the corners."""
    grid = np.full((1, 206, 206, 3), 255, dtype=np.uint8)
    for line in range(13, 206, 20):
        grid[:, line : line + 2] = grid[:, :, line : line + 2] = 60
    figure_, axes = figure(3, (6.4, 2.4))
    barrel = Lens(k1=-0.3, k2=0.09, field_of_view_rad=1.2)
    show(axes[0], captured(CameraEffects(barrel), frames=grid), "barrel: k1 = -0.3")
    show(
        axes[1], captured(CameraEffects(replace(barrel, k1=0.3, k2=0.0)), frames=grid), "pincushion: k1 = 0.3"
    )
    plain = np.full((1, 128, 128, 3), 230, dtype=np.uint8)
    show(
        axes[2],
        captured(CameraEffects(Lens(field_of_view_rad=1.2, vignetting=1.0)), frames=plain),
        "vignetting: cos⁴",
    )
    save("lens", figure_, colours=None)


def draw_shutter() -> None:
    """The scene moving to the right, through each part of the shutter."""
    figure_, axes = figure(3, (6.4, 2.4))
    show(axes[0], scene()[0], "still")
    show(
        axes[1],
        captured(CameraEffects(shutter=Shutter(exposure_s=0.02)), (400.0, 60.0)),
        "20 ms exposure, 400 px/s",
    )
    show(
        axes[2],
        captured(CameraEffects(shutter=Shutter(line_time_s=4e-4)), (400.0, 0.0)),
        "0.4 ms per row, 400 px/s",
    )
    save("shutter", figure_, colours=None)


def draw_sensor() -> None:
    """Variance against signal, and a dark scene amplified."""
    full_well, read = 2_000.0, 12.0
    levels = np.linspace(0.02, 0.7, 18, dtype=np.float32)
    frames = np.broadcast_to(np.sqrt(levels)[:, None, None, None], (18, 96, 96, 3)).copy()
    effects = CameraEffects(sensor=Sensor(full_well_electrons=full_well, read_noise_electrons=read))
    normal = noise.frame_noise(range(18), "camera", 0, (96, 96, 3))
    recorded = camera.capture(camera.make_tables(effects, 18, 96, 96), frames, normal=normal)
    figure_, axes = figure(3, (6.4, 2.3), width_ratios=(1.35, 1, 1))
    axes[0].plot(
        levels, (recorded.astype(float) ** 2).reshape(18, -1).var(axis=1) * 1e4, "o", color=BLUE, markersize=3
    )
    axes[0].plot(levels, (levels / full_well + (read / full_well) ** 2) * 1e4, color=ORANGE)
    axes[0].set(xlabel="signal", ylabel="variance × 10⁴", title="shot noise over read noise", ylim=(0, None))
    axes[0].title.set_fontsize(8)
    dark = Sensor(0.06, 14.0, full_well_electrons=4_000.0, read_noise_electrons=6.0)
    show(axes[1], captured(CameraEffects(sensor=dark)), "6 % of the light, gain 14")
    warm = Sensor(1.2, 1.0, np.array([[1.35, 1.0, 0.6]]), 0.8)
    show(axes[2], captured(CameraEffects(sensor=warm)), "warm white balance, +20 %")
    save("sensor", figure_, colours=256)


def draw_camera() -> None:
    """Flare, and everything at once."""
    figure_, axes = figure(3, (6.4, 2.4))
    show(axes[0], scene()[0], "rendered")
    flare = Flare(strength=0.7, x=0.2, y=0.12, radius=0.1)
    show(axes[1], captured(CameraEffects(flare=flare)), "flare")
    everything = CameraEffects(
        Lens(k1=-0.22, k2=0.05, field_of_view_rad=1.1, vignetting=1.0),
        Shutter(0.008, 1.2e-4),
        replace(flare, strength=0.35),
        Sensor(0.5, 1.9, np.array([[1.15, 1.0, 0.82]]), 0.85, 3_000.0, 7.0),
    )
    show(axes[2], captured(everything, (250.0, 40.0)), "everything")
    save("camera", figure_, colours=None)


def draw_depth() -> None:
    """A box on a table seen by a stereo depth camera."""
    size = 128
    rows, columns = np.mgrid[:size, :size] / size
    truth = (2.4 - 1.5 * rows).astype(np.float32)
    box = (np.abs(columns - 0.35) < 0.14) & (np.abs(rows - 0.55) < 0.16)
    shiny = np.hypot(columns - 0.72, rows - 0.6) < 0.17
    truth[box], truth[shiny] = 1.15, 1.2
    params = depth.DepthNoise(
        disparity_noise_px=0.12,
        disparity_step_px=0.125,
        edge_shift_px=0.9,
        edge_dropout=0.35,
        reflective_dropout=0.55,
    )
    reported = depth.apply(params, truth[None], depth.draw_noise([3], 0, size, size), shiny[None] * 1.0)[0]
    figure_, axes = figure(3, (6.4, 2.2))
    colours = plt.get_cmap("viridis").with_extremes(bad="black")
    span = {"vmin": 0.9, "vmax": 2.4, "cmap": colours}
    show(axes[0], truth, "truth: a box and a shiny ball", **span)
    show(axes[1], np.where(reported > 0, reported, np.nan), "reported (black: no reading)", **span)
    error = np.where(reported > 0, (reported - truth) * 1e3, np.nan)
    axes[2].plot(truth[:, 4:12].ravel(), error[:, 4:12].ravel(), ".", color=BLUE, markersize=1.5)
    grid = np.linspace(0.9, 2.4, 50)
    for sign in (-2, 2):
        axes[2].plot(grid, sign * 1e3 * grid**2 * np.hypot(0.12, 0.125 / 12**0.5) / 19.25, color=ORANGE)
    axes[2].set(xlabel="depth [m]", ylabel="error [mm]", title="error ± 2σ ∝ depth²")
    axes[2].title.set_fontsize(8)
    save("depth", figure_, colours=None)


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    plt.rcParams.update({"font.size": 8.5})
    for draw in (
        draw_delay,
        draw_backlash,
        draw_friction,
        draw_saturation,
        draw_quantize,
        draw_drift,
        draw_temperature,
        draw_lens,
        draw_shutter,
        draw_sensor,
        draw_camera,
        draw_depth,
    ):
        draw()
