"""Smooth motion of the tool: minimum-jerk paths in space, turned into joint commands by damped least squares.

The commanded joints are integrated from the commanded joints, not from the readings: a command is where the arm should
be, and the servo's job is to get there. Noise and delay of the encoders then never feed back into the path.
"""

from __future__ import annotations

import numpy as np

from twinloop.episode import Array
from twinloop.experts.kinematics import Arm, Pose, step_towards, turn_error
from twinloop.tasks import Cell

DAMPING = 0.03
POSTURE_GAIN = 0.02
"""Share of the way home that the joints the task leaves free go in one step."""

MAX_JOINT_SPEED_RAD_S = 2.0
MAX_SPEED_M_S = 0.6
MIN_DURATION_S = 0.2
MAX_SAG_RAD = 0.2


class ToolMotion:
    """Commanded joints of N arms, and the path that each of them follows."""

    def __init__(self, cell: Cell, count: int, sag_per_s: float = 0.0) -> None:
        self._sag_per_s = sag_per_s
        self.arm = Arm(cell)
        home = [cell.twin.home.get(cell.actuators[k], 0.0) for k in self.arm.actuators]
        self._home = np.array(home)
        self._dt_s = cell.dt_s
        self.joints = np.tile(self._home, (count, 1))
        self.pose = self.arm.tool_pose(self.joints)
        self._sag = np.zeros_like(self.joints)
        self._from = np.zeros((count, 3))
        self._from_yaw = np.zeros(count)
        self.yaw = np.zeros(count)
        self._elapsed_s = np.zeros(count)
        self._pause_s = np.zeros(count)
        self._duration_s = np.full(count, MIN_DURATION_S)

    def restart(self, ids: Array, joints: Array) -> None:
        """Begin at the given joints, (len(ids), joints)."""
        self.joints[ids] = joints
        self._sag[ids] = 0.0
        pose = self.arm.tool_pose(joints)
        for part in ("place", "x", "y", "z"):
            getattr(self.pose, part)[ids] = getattr(pose, part)
        self.yaw[ids] = tool_yaw(pose)

    def begin(
        self,
        which: Array,
        goal: Array,
        speed_m_s: float | Array = MAX_SPEED_M_S,
        pause_s: float | Array = 0.0,
    ) -> None:
        """The environments `which` (N,) bool set off from where they are commanded to be, towards `goal` (N, 3).

        They stay there for `pause_s` first.
        """
        away = goal - self.pose.place
        distance_m = np.sqrt((away * away).sum(axis=1))
        # A minimum-jerk path is 15/8 times faster in the middle than on average.
        duration_s = np.maximum(1.875 * distance_m / speed_m_s, MIN_DURATION_S)
        self._from[which] = self.pose.place[which]
        self._from_yaw[which] = self.yaw[which]
        self._pause_s[which] = np.broadcast_to(pause_s, which.shape)[which]
        self._elapsed_s[which] = -self._pause_s[which]
        self._duration_s[which] = duration_s[which]

    @property
    def duration_s(self) -> Array:
        """How long each path takes, with the pause before it, (N,)."""
        return np.asarray(self._pause_s + self._duration_s)

    @property
    def arrived(self) -> Array:
        """Whether each path has been commanded to its end, (N,)."""
        return np.asarray(self._elapsed_s >= self._duration_s - 1e-9)

    def path(self, goal: Array, yaw: Array) -> tuple[Array, Array]:
        """Where the paths to `goal` (N, 3) and `yaw` (N,) are one control step on: place (N, 3) and yaw (N,).

        The goal may move: the path bends towards it.
        """
        self._elapsed_s += self._dt_s
        share = minimum_jerk(np.clip(self._elapsed_s / self._duration_s, 0.0, 1.0))
        place = self._from + (goal - self._from) * share[:, None]
        return place, self._from_yaw + (yaw - self._from_yaw) * share

    def track(self, place: Array, yaw: Array) -> Array:
        """Move the commanded joints so that the tool points down at `place` (N, 3), turned by `yaw` (N,)."""
        self.yaw = yaw
        pose, jacobian = self.arm.tool_jacobian(self.joints)
        x, y, z = pointing_down(yaw)
        error = np.concatenate([place - pose.place, turn_error(pose, x, y, z)], axis=1)
        preferred = POSTURE_GAIN * (self._home - self.joints)
        step = step_towards(jacobian, error, preferred, DAMPING)
        fastest = np.abs(step).max(axis=1)
        limit = MAX_JOINT_SPEED_RAD_S * self._dt_s
        step *= np.minimum(1.0, limit / np.maximum(fastest, 1e-12))[:, None]
        self.joints = np.clip(self.joints + step, self.arm.low, self.arm.high)
        self.pose = pose
        return self.joints

    def against_sag(self, joints: Array, measured: Array) -> Array:
        """Commands that make up for joints that hang below theirs, learned slowly while they hang, (N, joints)."""
        if not self._sag_per_s:
            return joints
        # Only at the end of a path: on the way the joints lag behind, which is no sag.
        share = np.where(self.arrived, self._sag_per_s * self._dt_s, 0.0)[:, None]
        self._sag = np.clip(self._sag + share * (joints - measured), -MAX_SAG_RAD, MAX_SAG_RAD)
        return np.asarray(np.clip(joints + self._sag, self.arm.low, self.arm.high))


def minimum_jerk(share: Array) -> Array:
    """From 0 to 1 with speed and acceleration zero at both ends."""
    return np.asarray(share * share * share * (10.0 + share * (6.0 * share - 15.0)))


def pointing_down(yaw: Array) -> tuple[Array, Array, Array]:
    """Columns of a tool that points down, its x axis turned by `yaw` (N,) from the world's."""
    x, y, z = (np.zeros((len(yaw), 3)) for _ in range(3))
    cosine, sine = np.cos(yaw), np.sin(yaw)
    x[:, 0], x[:, 1] = cosine, sine
    y[:, 0], y[:, 1] = sine, -cosine
    z[:, 2] = -1.0
    return x, y, z


def tool_yaw(pose: Pose) -> Array:
    """The angle of the tool's x axis about the vertical, (N,)."""
    return vertical_angle(pose.x)


def vertical_angle(columns: Array) -> Array:
    """The angle about the vertical of vectors whose first two columns are x and y, (N,)."""
    # Contiguous: NumPy may take another code path, and another last bit, for strided columns.
    return np.asarray(np.arctan2(np.ascontiguousarray(columns[:, 1]), np.ascontiguousarray(columns[:, 0])))


def nearest_quarter_turn(angle: Array, to: Array) -> Array:
    """`angle` plus the multiple of a quarter turn that brings it nearest to `to`: a cube has four equal sides."""
    quarter = 0.5 * np.pi
    return np.asarray(angle + quarter * np.rint((to - angle) / quarter))
