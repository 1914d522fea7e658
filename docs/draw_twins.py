"""Draws the images of docs/how-to/twins.md: MUJOCO_GL=egl python docs/draw_twins.py"""

from pathlib import Path

import mujoco
import numpy as np
from PIL import Image

from twinloop.randomization import draw, load_randomization
from twinloop.twins import apply_appearance, initial_state, list_twins, load_twin

HERE = Path(__file__).parent / "images/twins"
LOOK = {
    "servo_pendulum": {"motor": 0.9},
    "double_pendulum": {"shoulder": 0.7, "elbow": 0.8},
    "furuta_pendulum": {"theta": -0.6, "alpha": 2.4},
    "cart_pole": {"x": -0.1, "theta": 0.7},
}


def image(name, camera, values, height, width):
    """One frame of a twin at the start of an episode with these values."""
    twin = load_twin(name)
    model = twin.make_model(
        {key: value for key, value in values.items() if twin.parameter(key).stage == "model"}
    )
    data = mujoco.MjData(model)
    start = initial_state(twin, values, 1)
    data.qpos[:], data.ctrl[:], data.mocap_pos[:] = start.qpos[0], start.ctrl[0], start.mocap_pos[0]
    for joint, position in LOOK.get(name, {}).items():
        data.joint(joint).qpos[0] = position
    apply_appearance(twin, model, values)
    mujoco.mj_forward(model, data)
    with mujoco.Renderer(model, height, width) as renderer:
        renderer.update_scene(data, camera)
        return renderer.render()


def save(pixels, name):
    """Write a small PNG."""
    Image.fromarray(pixels).quantize(128).save(HERE / f"{name}.png", optimize=True)


def main():
    """Draw every built-in twin, and eight randomized scenes."""
    for twin in list_twins():
        save(image(twin.name, "front", {}, 300, 400), twin.name)
    varied = load_randomization(
        {
            "twin": "franka_pick_place",
            "randomization": {
                "visual": {
                    "texture_pool": 200,
                    "lighting_intensity": [0.5, 1.4],
                    "camera_jitter_deg": [-5, 5],
                    "light_azimuth_deg": [-180, 180],
                    "light_temperature_k": [3500, 9000],
                    "object_colour": ["red", "blue", "yellow", "white", "violet"],
                },
                "environment": {"object_position_noise_cm": [-8, 8], "clutter_count": [0, 3], "clutter_layout": [0, 9999]},
                "object": {"object_size_cm": [3, 7]},
            },
        }
    )  # fmt: skip
    frames = [image("franka_pick_place", "front", draw(varied, 4, e), 150, 200) for e in range(8)]
    save(np.concatenate([np.concatenate(frames[i : i + 4], axis=1) for i in (0, 4)]), "randomized")


if __name__ == "__main__":
    main()
