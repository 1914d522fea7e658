"""Find roughly where a camera is: drawings of the twin from many places against masks or edges, by CMA-ES (Hansen, 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.alignment.edges import DIRECTIONS, EdgeImage, import_cv2, signed_distance
from twinloop.alignment.frames import Frame
from twinloop.alignment.outline import Outliner
from twinloop.alignment.view import CameraView, Unknown
from twinloop.episode import Array
from twinloop.errors import MissingExtra

WIDTH = 128
"""Pixels across in which candidates are drawn."""
FRAMES = 6
"""Frames that candidates are compared with."""
FARTHEST_PX = 14.0
"""Beyond this distance from a mask a difference counts no more, so that other things in the image do not."""
FARTHEST_EDGE_PX = 8.0
"""The same for edges, of which an image has more."""
PULL = 0.15
"""Cost in pixels of a candidate whose quantities are all two first spreads from the twin's: where images say little, it stays near."""

PLACED = np.array([0.06, 0.06, 0.06, 0.08, 0.08, 0.08, 0.04])
MOUNTED = np.array([0.015, 0.015, 0.015, 0.08, 0.08, 0.08, 0.04])
"""How far off a camera on a stand, and one in a mount on the robot, may be, one standard deviation: shifts in m, turns and field of
view in rad."""
STARTS = 3
"""Searches with seeds of their own: drawings have more than one place where edges nearly agree."""
OFF_RAD = 0.2
"""How far off the zero of a joint may be that is off at all."""
JOINT_EVALUATIONS = 200
"""Further candidates for each joint whose zero may be off."""


@dataclass(frozen=True)
class _Evidence:
    """One image that candidates are compared with: distances from its mask, or from its edges by direction, and the bodies to draw."""

    frame: Frame
    field: Array
    bodies: Array
    by_mask: bool
    weight: float = 1.0


class Rough:
    """Cost of a candidate: how far the twin's drawing lies from masks, or its edges from the image's.

    What the robot carries with its camera stays where it is in the image: its edges are compared with those that all images have in
    common, and count as much as all others together.
    """

    def __init__(
        self,
        view: CameraView,
        frames: Sequence[Frame],
        wanted: Sequence[int],
        carried: Sequence[int] = (),
    ) -> None:
        self.view = view
        self.shrink = max(1, round(self.view.width / WIDTH))
        self.height, self.width = self.view.height // self.shrink, self.view.width // self.shrink
        self._owner = np.asarray(self.view.model.geom_bodyid)
        self.outliner = Outliner(self.view.cell.twin.make_model(), self.view.id, self.height, self.width)
        usable = [frame for frame in frames if frame.mask is None or frame.mask.any()]
        bodies = np.fromiter(wanted, np.int64)
        self.every = [self._look(one, bodies) for one in usable[:: max(1, -(-len(usable) // FRAMES))]]
        self.still: list[_Evidence] = []
        if len(carried):
            field = EdgeImage(*(frame.image for frame in usable)).distances(self.shrink)
            among = float(len(self.every))
            self.still = [_Evidence(usable[0], field, np.array(carried), False, among)]

    def close(self) -> None:
        """Give the graphics context back."""
        self.outliner.close()

    def _look(self, frame: Frame, bodies: Array) -> _Evidence:
        if frame.mask is None:
            return _Evidence(frame, EdgeImage(frame.image).distances(self.shrink), bodies, False)
        cv2 = import_cv2()
        size = (self.width, self.height)
        small = cv2.resize(frame.mask.astype(np.float32), size, interpolation=cv2.INTER_AREA)
        return _Evidence(frame, signed_distance(small > 0.5), bodies, True)

    def cost(self, values: dict[str, float], evidence: Sequence[_Evidence]) -> float:
        """Mean distance in pixels of the small images."""
        pos, quat, fovy_rad = self.view.pose(values)
        total = 0.0
        for one in evidence:
            qpos = self.view.place(one.frame, values)
            parts, depth = self.outliner.draw(qpos, one.frame.mocap, pos, quat, fovy_rad)
            shown = np.isin(np.where(parts >= 0, self._owner[parts], -1), one.bodies)
            cost = _mask_cost(shown, one.field) if one.by_mask else _edge_cost(shown, parts, depth, one.field)
            total += one.weight * cost
        return total / sum(one.weight for one in evidence)


def _mask_cost(shown: Array, field: Array) -> float:
    """Distance of the drawing from the mask, and of the mask from the drawing, over their area."""
    cv2 = import_cv2()
    if not shown.any():
        return 2.0 * FARTHEST_PX
    away = cv2.distanceTransform(1 - shown.astype(np.uint8), cv2.DIST_L2, 3)
    inside = field < 0.0
    extra = np.minimum(field[shown & ~inside], FARTHEST_PX).sum() / shown.sum()
    missing = np.minimum(away[inside & ~shown], FARTHEST_PX).sum() / max(1, inside.sum())
    rim = shown & (cv2.erode(shown.astype(np.uint8), np.ones((3, 3), np.uint8)) == 0)
    return float(extra + missing + 0.25 * np.minimum(np.abs(field[rim]), FARTHEST_PX).mean())


def _edge_cost(shown: Array, parts: Array, depth: Array, fields: Array) -> float:
    """Distance of the drawing's outlines from edges of the same direction; few outlines cost too."""
    cost, count = 0.0, 0
    for axis in (0, 1):
        first = (slice(None, -1), slice(None)) if axis == 0 else (slice(None), slice(None, -1))
        second = (slice(1, None), slice(None)) if axis == 0 else (slice(None), slice(1, None))
        jump = np.abs(depth[first] - depth[second]) > 0.015 * np.minimum(depth[first], depth[second])
        nearer = np.where(depth[first] < depth[second], shown[first], shown[second])
        rows, columns = np.nonzero((parts[first] != parts[second]) & jump & nearer)
        # A step between rows has a gradient down the image.
        near = fields[DIRECTIONS // 2 if axis == 0 else 0][rows, columns]
        cost += float(np.minimum(near, FARTHEST_EDGE_PX).sum())
        count += len(rows)
    return (cost + FARTHEST_EDGE_PX * 40.0) / (count + 40.0)


def search(
    rough: Rough,
    unknowns: Sequence[Unknown],
    start: Array,
    *,
    evaluations: int,
    seed: int,
) -> Array:
    """The best of many candidates around `start`.

    With a camera that the robot carries, what it carries along is searched for first, before the scene.
    """
    spread = MOUNTED if rough.still else PLACED
    first = rough.still or rough.every
    tried = [
        _minimize(rough, first, unknowns, start, start, spread, evaluations, seed + 1000 * k)
        for k in range(STARTS)
    ]
    both = [*rough.still, *rough.every]
    if rough.still:
        ranked = sorted(tried, key=lambda one: _cost(rough, both, unknowns, start, one))
        tried = [
            _minimize(rough, both, unknowns, start, one, 0.3 * spread, evaluations // 2, seed)
            for one in ranked[:2]
        ]
    return min(tried, key=lambda one: _cost(rough, both, unknowns, start, one))


def search_offsets(rough: Rough, unknowns: Sequence[Unknown], start: Array, first: Array, seed: int) -> Array:
    """Pose, field of view and zero offsets of joints together, from around `first`; `start` is what was known before."""
    usual = MOUNTED if rough.still else PLACED
    joints = len(unknowns) - len(usual)
    spread = np.concatenate([0.7 * usual, np.full(joints, 0.5 * OFF_RAD)])
    evaluations = JOINT_EVALUATIONS * joints
    return _minimize(rough, [*rough.still, *rough.every], unknowns, start, first, spread, evaluations, seed)


def _cost(
    rough: Rough, evidence: Sequence[_Evidence], unknowns: Sequence[Unknown], expected: Array, theta: Array
) -> float:
    """Distance of the images, and a pull towards what is expected."""
    usual = MOUNTED if rough.still else PLACED
    camera = len(usual)
    away = (theta - expected)[:camera] / (2.0 * usual)
    # Few joints are off, and these by much: hence absolute values.
    joints = np.abs((theta - expected)[camera:]) / OFF_RAD
    pull = PULL * (float(away @ away) / camera + float(joints.sum()))
    return rough.cost(rough.view.values(unknowns, theta), evidence) + pull


def _minimize(
    rough: Rough,
    evidence: Sequence[_Evidence],
    unknowns: Sequence[Unknown],
    expected: Array,
    first: Array,
    spread: Array,
    evaluations: int,
    seed: int,
) -> Array:
    try:
        import cma
    except ImportError:
        raise MissingExtra("aligning a camera", "cma", "cameras") from None

    def cost(theta: Array) -> float:
        return _cost(rough, evidence, unknowns, expected, np.asarray(theta))

    options = {"CMA_stds": spread, "maxfevals": evaluations, "seed": seed + 1, "verbose": -9, "tolfun": 2e-3}
    strategy = cma.CMAEvolutionStrategy(first, 1.0, options)
    best, lowest = first, cost(first)
    while not strategy.stop():
        candidates = strategy.ask()
        costs = [cost(one) for one in candidates]
        strategy.tell(candidates, costs)
        if min(costs) < lowest:
            lowest, best = min(costs), np.asarray(candidates[int(np.argmin(costs))])
    return best
