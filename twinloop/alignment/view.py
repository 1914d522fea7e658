"""One camera of a twin as numbers: where its unknown quantities put points of the twin's surface in the image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from twinloop.alignment.frames import Frame
from twinloop.alignment.outline import Outline
from twinloop.episode import Array
from twinloop.imperfect.lens import Lens, distort
from twinloop.tasks import Cell
from twinloop.twins import camera_parameter, move_camera
from twinloop.twins.declare import to_identifier

POSE = ("x_m", "y_m", "z_m", "pitch_rad", "yaw_rad", "roll_rad")
LENS = ("field_of_view_rad", "principal_x", "principal_y", "distortion")
CLOCK = ("time_offset_s", "line_time_s")
JOINT = "joint "
"""Before the name of an actuator: the zero offset of its reading."""
STEP = 1e-4
"""Of finite differences, in each quantity's own unit."""
PRIORS = {
    "x_m": 0.3, "y_m": 0.3, "z_m": 0.3, "pitch_rad": 0.3, "yaw_rad": 0.3, "roll_rad": 0.3,
    "field_of_view_rad": 0.12, "principal_x": 0.015, "principal_y": 0.015, "distortion": 0.1,
    "time_offset_s": 0.1, "line_time_s": 0.03,
}  # fmt: skip
"""Standard deviation of what is known before any frame: data sheets, a rough placing by hand; principal points of machine-vision
cameras lie within some percent of the middle."""
NEAR = 0.1
"""Of a pose's prior where the camera is known to be near."""
JOINT_PRIOR_RAD = 0.2


@dataclass(frozen=True)
class Unknown:
    """One quantity to find: `name` as in `POSE`, `LENS`, `CLOCK`, or `JOINT` and an actuator; its start and how far off that may be."""

    name: str
    start: float
    prior: float

    @property
    def unit(self) -> str:
        """Its unit."""
        if self.name.startswith(JOINT):
            return "rad"
        return next((unit for unit in ("rad", "m", "s") if self.name.endswith(f"_{unit}")), "1")


def make_unknowns(
    names: Sequence[str], start: dict[str, float], *, near: bool = False
) -> tuple[Unknown, ...]:
    """Unknown quantities with their usual priors; those of the pose are narrow if the camera is near."""
    made = []
    for name in names:
        prior = JOINT_PRIOR_RAD if name.startswith(JOINT) else PRIORS[name]
        made.append(Unknown(name, start.get(name, 0.0), NEAR * prior if near and name in POSE else prior))
    return tuple(made)


class CameraView:
    """Projects points of one twin into one of its cameras."""

    def __init__(self, cell: Cell, camera: str, height: int, width: int) -> None:
        self.cell, self.camera, self.height, self.width = cell, camera, height, width
        self.model = cell.twin.make_model()
        self.data = mujoco.MjData(self.model)
        self.id = int(self.model.camera(camera).id)
        self.body = int(self.model.cam_bodyid[self.id])
        self.base = self._known()

    def pose(self, values: dict[str, float]) -> tuple[Array, Array, float]:
        """Position and quaternion in the frame of the camera's body, and vertical field of view in rad."""
        drawn = self.cell.model
        shift = np.array([values[name] for name in POSE[:3]])
        turn = np.array([values[name] for name in POSE[3:]])
        pos, quat = move_camera(drawn.cam_pos[self.id], drawn.cam_quat[self.id], shift, turn)
        widened = math.radians(float(drawn.cam_fovy[self.id])) + values["field_of_view_rad"]
        return pos, quat, float(np.clip(widened, 0.09, 2.9))

    def values(self, unknowns: Sequence[Unknown], theta: Array) -> dict[str, float]:
        """All quantities of the camera: those that are unknown from `theta`, the others as in the twin."""
        return self.base | {one.name: float(value) for one, value in zip(unknowns, theta, strict=True)}

    def place(self, frame: Frame, values: dict[str, float], later_s: float = 0.0) -> Array:
        """The joints' true angles (nq,) in a frame, as far as readings, their offsets and the clock tell."""
        qpos = frame.qpos + frame.rate * (values.get("time_offset_s", 0.0) + later_s)
        cell = self.cell
        for name, value in values.items():
            if name.startswith(JOINT):
                index = cell.actuators.index(name.removeprefix(JOINT))
                weights = cell.weights[index]
                for weight, address in zip(weights, cell.qpos_addresses[index], strict=True):
                    if weight:
                        qpos[address] -= value * weight / float(weights @ weights)
        return np.asarray(qpos)

    def project(self, values: dict[str, float], frame: Frame, outline: Outline) -> tuple[Array, Array]:
        """Where the image shows the outline's points and the ones beside them, (n, 2) right and down in pixels; NaN if behind the camera."""
        both = np.concatenate([outline.place, outline.beside])
        bodies = np.concatenate([outline.body, outline.body])
        seen = self.project_points(values, frame, both, bodies)
        return seen[: len(outline)], seen[len(outline) :]

    def slopes(
        self,
        unknowns: Sequence[Unknown],
        theta: Array,
        frame: Frame,
        outline: Outline,
        spot: Array,
        normal: Array,
    ) -> Array:
        """How far each unknown moves projected points along their normals, (n, unknowns), in pixels per unit."""
        made = np.empty((len(outline), len(unknowns)))
        for column in range(len(unknowns)):
            moved = theta.copy()
            moved[column] += STEP
            values = self.values(unknowns, moved)
            there = self.project_points(values, frame, outline.place, outline.body)
            made[:, column] = ((there - spot) * normal).sum(axis=1) / STEP
        return made

    def project_points(self, values: dict[str, float], frame: Frame, points: Array, bodies: Array) -> Array:
        """Where the image shows points (n, 3) in the frames of their bodies (n,)."""
        seen = self._project_at(values, frame, points, bodies, 0.0)
        line_s = values.get("line_time_s", 0.0)
        if line_s == 0.0 or not frame.rate.any():
            return seen
        later_s = 0.005
        moved = self._project_at(values, frame, points, bodies, later_s) - seen
        # A row is read this long after the middle one; a second pass would change a fraction of a fraction of a pixel.
        when_s = (seen[:, 1:] - (self.height - 1) / 2.0) / self.height * line_s
        return seen + moved / later_s * when_s

    def _project_at(
        self, values: dict[str, float], frame: Frame, points: Array, bodies: Array, later_s: float
    ) -> Array:
        model, data = self.model, self.data
        pos, quat, fovy_rad = self.pose(values)
        model.cam_pos[self.id], model.cam_quat[self.id] = pos, quat
        data.qpos[:], data.mocap_pos[:] = self.place(frame, values, later_s), frame.mocap
        mujoco.mj_kinematics(model, data)
        world = np.einsum("nij,nj->ni", data.xmat[bodies].reshape(-1, 3, 3), points) + data.xpos[bodies]
        own = data.xmat[self.body].reshape(3, 3)
        turn = np.empty(9)
        mujoco.mju_quat2Mat(turn, quat)
        axes = own @ turn.reshape(3, 3)
        local = (world - data.xpos[self.body] - own @ pos) @ axes
        ahead = np.where(local[:, 2] < -1e-3, -local[:, 2], np.nan)
        focal = self.height / 2.0 / math.tan(fovy_rad / 2.0)
        k1 = values["distortion"]
        lens = Lens(k1=k1, k2=k1 * k1, field_of_view_rad=fovy_rad)
        x, y = distort(lens, local[:, 0] / ahead, -local[:, 1] / ahead)
        return np.stack(
            [
                focal * x + (self.width - 1) / 2.0 + values["principal_x"] * self.height,
                focal * y + (self.height - 1) / 2.0 + values["principal_y"] * self.height,
            ],
            axis=1,
        )

    def _known(self) -> dict[str, float]:
        """The camera's quantities in the twin as it is."""
        twin = self.cell.twin
        known = {}
        for name in (*POSE, *LENS):
            parameter = camera_parameter(self.camera, name)
            known[name] = float(twin.parameter(parameter).nominal) if twin.has(parameter) else 0.0
        if twin.has("lens_distortion"):
            known["distortion"] += float(twin.parameter("lens_distortion").nominal)
        for actuator in self.cell.actuators:
            parameter = f"{to_identifier(actuator)}_encoder_bias_rad"
            if twin.has(parameter) and (bias := float(twin.parameter(parameter).nominal)):
                known[f"{JOINT}{actuator}"] = bias
        return known
