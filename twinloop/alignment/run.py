"""`align`: from frames with joint readings to a twin whose camera stands where the real one does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.alignment.clock import find_clock
from twinloop.alignment.fit import REACHES_PX, REFERENCE_WIDTH, Aligner, Fit
from twinloop.alignment.frames import (
    FEWEST,
    MOST,
    Frame,
    Moment,
    choose_moments,
    find_moments,
    pose_spread_rad,
    read_frames,
    read_moments,
)
from twinloop.alignment.masks import (
    BACKGROUND_FRAMES,
    clicked_names,
    mask_clicked,
    mask_colour,
    mask_files,
    mask_moving,
    read_mask,
)
from twinloop.alignment.offsets import find_offsets
from twinloop.alignment.poses import propose_poses
from twinloop.alignment.result import ALIGNED, NOT_DETERMINED, PARTLY, Alignment, CameraEstimate
from twinloop.alignment.scene import find_parts
from twinloop.alignment.search import Rough, search, search_offsets
from twinloop.alignment.view import CLOCK, JOINT, LENS, POSE, CameraView, Unknown, make_unknowns
from twinloop.datasets.reader import Dataset
from twinloop.episode import Array, Camera
from twinloop.errors import UnknownName, WrongUse
from twinloop.stats.interval import normal_interval
from twinloop.tasks import make_cell
from twinloop.twins import Twin, camera_parameter, camera_parameters
from twinloop.twins.declare import to_identifier

LEAST_SPREAD_RAD = 0.1
"""A joint must move at least this far between frames: what stands still tells pose and lens apart only by its size."""
DETERMINED = 0.5
"""A quantity is determined when its standard deviation is at most this fraction of what was known before."""
LEAST_MATCHED = 0.4
"""Of the outline points in the images, the fraction that must find an edge."""
WORST_PX = 2.0
"""Median distance of outlines from edges in held-out frames, at 320 pixels of width, beyond which the twin does not fit them."""
EVALUATIONS = 700
SEARCHED = (*POSE, LENS[0])
"""What is searched for from far away; the rest of the lens moves little."""
PROPOSED = 5
WAYS = ("auto", "moving", "edges")
"""Of finding the robot in frames without files."""


@dataclass(frozen=True)
class AlignConfig:
    """How to align.

    Attributes:
        masks: "auto" (what moves, if the camera stands; else edges), "moving", "edges", or a folder of EPISODE-ROW.png files.
        clicks: YAML file of clicked points by frame, instead of masks.
        colours: Colours of the robot (red, green, blue), instead of masks.
        colour_tolerance: Distance in CIELAB within which a pixel has such a colour.
        frames: Frames to fit, 5 to 20.
        bodies: Parts of the twin to look for; default: the robot, and for a camera that it carries the scene as well.
        near: The camera is within about 3 cm and 2 degrees of the twin's: no search from farther away, and such a prior.
        joint_offsets: Whether to look for joints whose zero is off.
        seed: Random seed of the search.
    """

    masks: str = "auto"
    clicks: Path | None = None
    colours: tuple[tuple[int, int, int], ...] = ()
    colour_tolerance: float = 25.0
    frames: int = 12
    bodies: tuple[str, ...] = ()
    near: bool = False
    joint_offsets: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if not FEWEST <= self.frames <= MOST:
            raise WrongUse("number of frames to align with", got=self.frames, expected=f"{FEWEST} to {MOST}")
        given = [self.clicks is not None, bool(self.colours), self.masks != "auto"]
        if sum(given) > 1:
            raise WrongUse("masks, clicks and colours exclude each other", remedy="name one of them")


def align(twin: Twin, dataset: Dataset, camera: str, *, config: AlignConfig | None = None) -> Alignment:
    """Find where a real camera is and how its lens draws, and joints whose zero is off.

    The twin's outlines are moved onto the edges of 5 to 20 frames: roughly by CMA-ES over drawings, then by Gauss-Newton steps.

    Args:
        twin: The twin; its camera of this name is where the search begins.
        dataset: A recording with this camera and joint readings.
        camera: Name of the camera, in the twin and in the recording.
        config: Masks, number of frames, parts to look for and seed.

    Returns:
        Estimates with 95 % intervals and a new version of the twin; "not determined" with poses to record where frames do not tell.

    Raises:
        UnknownName: The twin or the recording has no such camera.
        WrongUse: There are no usable frames, readings or masks.
    """
    began = time.monotonic()
    config = config or AlignConfig()
    names = [one.name for one in twin.cameras]
    if camera not in names:
        raise UnknownName(f"camera of twin {twin.name!r}", camera, names)
    prepared = with_camera_parameters(twin, camera, dataset)
    cell = make_cell(prepared)
    moments = read_moments(dataset, cell, camera)
    shown = dataset.schema.camera(camera)
    view = CameraView(cell, camera, shown.height, shown.width)
    parts = find_parts(view, moments, config.bodies)
    fitted, held = _choose(moments, view, config)
    frames = read_frames(dataset, camera, fitted)
    job = _Job(twin, view, config, began)
    one_pose = pose_spread_rad(fitted, cell) < LEAST_SPREAD_RAD
    if not (one_pose and config.masks in WAYS):
        frames = _mask(frames, dataset, moments, parts.carried, config)
    if one_pose:
        return job.refuse(frames, parts.fine, "the robot stands in one pose in all frames")
    rough = Rough(view, frames, parts.rough, parts.along)
    aligner = Aligner(view, frames, parts.fine, config.seed)
    judges = Aligner(view, read_frames(dataset, camera, held), parts.fine, config.seed)
    try:
        return job.finish(rough, aligner, judges)
    finally:
        for one in (rough, aligner, judges):
            one.close()


def with_camera_parameters(twin: Twin, camera: str, dataset: Dataset) -> Twin:
    """The twin with parameters for this camera, and with the real frames' shape if its own differs."""
    missing = tuple(one for one in camera_parameters(camera) if not twin.has(one.name))
    real = dataset.schema.camera(camera) if camera in [c.name for c in dataset.schema.cameras] else None
    cameras = tuple(
        Camera(one.name, real.height, real.width)
        if real and one.name == camera and one.height * real.width != one.width * real.height
        else one
        for one in twin.cameras
    )
    return replace(twin, parameters=(*twin.parameters, *missing), cameras=cameras)


def _choose(
    moments: Sequence[Moment], view: CameraView, config: AlignConfig
) -> tuple[list[Moment], list[Moment]]:
    """Moments to fit and moments that judge the fit."""
    named = None
    if config.clicks is not None:
        named = clicked_names(config.clicks)
    elif config.masks not in WAYS:
        named = list(mask_files(Path(config.masks)))
    if named is not None:
        fitted = find_moments(moments, named[:MOST])
        others = [one for one in moments if (one.episode, one.row) not in named]
        return fitted, choose_moments(others or moments, view.cell, 4)
    judging = max(2, config.frames // 4)
    chosen = choose_moments(moments, view.cell, config.frames + judging)
    if len(chosen) < FEWEST:
        return chosen, chosen
    every = max(2, len(chosen) // judging)
    held = chosen[every - 1 :: every][:judging]
    return [one for one in chosen if one not in held], held


def _mask(
    frames: list[Frame], dataset: Dataset, moments: Sequence[Moment], carried: bool, config: AlignConfig
) -> list[Frame]:
    """The frames with masks, where the way to mask gives any."""
    camera = frames[0].camera
    if config.clicks is not None:
        made = mask_clicked({one.name: one for one in frames}, config.clicks)
    elif config.colours:
        made = mask_colour(frames, config.colours, config.colour_tolerance)
    elif config.masks == "edges" or (config.masks == "auto" and carried):
        return frames
    elif config.masks in ("auto", "moving"):
        if carried:
            raise WrongUse(
                f"the robot carries camera {camera!r}: everything moves in its frames",
                remedy="--masks edges, or a folder of masks",
            )
        others = choose_evenly(moments, BACKGROUND_FRAMES)
        made = mask_moving(frames, [one.image for one in read_frames(dataset, camera, others)])
    else:
        files = mask_files(Path(config.masks))
        made = [read_mask(one, files[one.episode, one.row]) for one in frames]
    if not any(one.mask is not None and one.mask.any() for one in made):
        raise WrongUse(
            "every mask is empty: the robot is not seen in any frame",
            remedy="check the camera's name and the recording, or click points on the robot: --clicks FILE",
        )
    return made


def choose_evenly(moments: Sequence[Moment], count: int) -> list[Moment]:
    """At most `count` of the moments, spread evenly."""
    return [moments[i] for i in np.unique(np.linspace(0, len(moments) - 1, count).astype(int))]


@dataclass(frozen=True)
class _Job:
    """What results need to know of the request."""

    twin: Twin
    view: CameraView
    config: AlignConfig
    began: float

    def unknowns(self, joints: Sequence[str] = (), clock: Sequence[str] = ()) -> tuple[Unknown, ...]:
        """Pose and lens of the camera, times of its clock, and zero offsets of some joints."""
        names = (*POSE, *LENS, *clock, *(f"{JOINT}{name}" for name in joints))
        return make_unknowns(names, self.view.base, near=self.config.near)

    def refuse(self, frames: Sequence[Frame], bodies: Sequence[int], reason: str) -> Alignment:
        """Nothing was determined; say which poses to record."""
        unknowns = self.unknowns()
        theta = np.array([one.start for one in unknowns])
        aligner = Aligner(self.view, [], bodies, self.config.seed)
        try:
            poses = self._propose(aligner, frames[0], unknowns, theta, np.zeros((len(theta), len(theta))))
        finally:
            aligner.close()
        prior = np.diag([one.prior**2 for one in unknowns])
        nothing = Fit(theta, prior, 0.0, 0.0, np.zeros_like(prior))
        return self._result(
            unknowns, nothing, NOT_DETERMINED, reason, frames, [], (np.nan, np.nan), (), poses
        )

    def search(self, rough: Rough, unknowns: Sequence[Unknown]) -> Array:
        """Where the camera is roughly, and joints that are far off if they are among the unknowns."""
        searched = [one for one in unknowns if one.name in SEARCHED or one.name.startswith(JOINT)]
        start = np.array([one.start for one in searched])
        camera = len(SEARCHED)
        found = start[:camera]
        if not self.config.near:
            found = search(rough, searched[:camera], found, evaluations=EVALUATIONS, seed=self.config.seed)
        if len(searched) > camera:
            first = np.concatenate([found, start[camera:]])
            found = search_offsets(rough, searched, start, first, self.config.seed)
        values = dict(zip((one.name for one in searched), found, strict=True))
        return np.array([values.get(one.name, one.start) for one in unknowns])

    def finish(self, rough: Rough, aligner: Aligner, judges: Aligner) -> Alignment:
        """Search, refine, look for joint offsets, judge by the frames that were held out."""
        scale = self.view.width / REFERENCE_WIDTH
        unknowns = self.unknowns()
        fit = aligner.refine(unknowns, self.search(rough, unknowns), REACHES_PX)
        unknowns, fit = find_clock(aligner, unknowns, fit)
        clock = [one.name for one in unknowns if one.name in CLOCK]
        joints: tuple[str, ...] = ()
        warnings: list[str] = []
        if self.config.joint_offsets:
            found = find_offsets(
                aligner,
                lambda names: self.unknowns(names, clock),
                unknowns,
                fit,
                lambda every: self.search(rough, every),
            )
            unknowns, fit, joints = found.unknowns, found.fit, found.joints
            warnings += found.warnings
        start = np.array([one.start for one in self.unknowns()])
        before = judges.misfit(self.unknowns(), start, 16.0 * scale)[1]
        after = judges.misfit(unknowns, fit.theta, 16.0 * scale)[1]
        verdict, reason = self._judge(unknowns, fit, before, after)
        poses: tuple[dict[str, float], ...] = ()
        if verdict != ALIGNED:
            poses = self._propose(aligner, aligner.frames[0], unknowns, fit.theta, fit.information)
        return self._result(
            unknowns,
            fit,
            verdict,
            reason,
            aligner.frames,
            judges.frames,
            (before, after),
            joints,
            poses,
            warnings,
        )

    def _judge(self, unknowns: Sequence[Unknown], fit: Fit, before: float, after: float) -> tuple[Any, str]:
        loose = [name for name, sure in self._determined(unknowns, fit).items() if not sure]
        seen = f"outlines lie {after:.2f} px from the edges of held-out frames, {before:.2f} px before"
        if fit.matched < LEAST_MATCHED:
            return NOT_DETERMINED, (
                f"only {fit.matched:.0%} of the robot's outline is found in the frames; {seen}"
            )
        if after > WORST_PX * self.view.width / REFERENCE_WIDTH or after > max(before, 1.0):
            return NOT_DETERMINED, f"the frames do not fit the twin: {seen}"
        if any(name in loose for name in (*POSE, LENS[0])):
            return PARTLY, f"not determined: {', '.join(loose)}; {seen}"
        return ALIGNED, seen + (f"; not determined: {', '.join(loose)}" if loose else "")

    def _determined(self, unknowns: Sequence[Unknown], fit: Fit) -> dict[str, bool]:
        deviation = np.sqrt(np.diag(fit.covariance))
        return {
            one.name: bool(sure <= DETERMINED * one.prior)
            for one, sure in zip(unknowns, deviation, strict=True)
        }

    def _propose(
        self, aligner: Aligner, like: Frame, unknowns: Sequence[Unknown], theta: Array, known: Array
    ) -> tuple[dict[str, float], ...]:
        return propose_poses(
            self.view, aligner.outliner, aligner.bodies, unknowns, theta, like, known,
            count=PROPOSED, seed=self.config.seed,
        )  # fmt: skip

    def _result(
        self,
        unknowns: Sequence[Unknown],
        fit: Fit,
        verdict: Any,
        reason: str,
        frames: Sequence[Frame],
        held: Sequence[Frame],
        misfit: tuple[float, float],
        joints: Sequence[str],
        poses: tuple[dict[str, float], ...],
        warnings: Sequence[str] = (),
    ) -> Alignment:
        sure = self._determined(unknowns, fit)
        deviation = np.sqrt(np.diag(fit.covariance))
        estimates = tuple(
            self._estimate(one, float(value), float(error), sure[one.name])
            for one, value, error in zip(unknowns, fit.theta, deviation, strict=True)
        )
        twin = self.twin if verdict == NOT_DETERMINED else self._aligned(estimates)
        offsets = tuple(
            f"{one.joint} reads {np.degrees(one.value):+.1f}° too much ({np.degrees(one.low):+.1f} to {np.degrees(one.high):+.1f})"
            for one in estimates
            if one.joint in joints
        )
        return Alignment(
            twin=twin,
            base=self.twin.content_hash,
            camera=self.view.camera,
            verdict=verdict,
            reason=reason,
            estimates=estimates,
            covariance=fit.covariance,
            frames=tuple(one.name for one in frames),
            held_out=tuple(one.name for one in held),
            before_px=misfit[0],
            after_px=misfit[1],
            scatter_px=fit.scatter_px,
            matched=fit.matched,
            offsets=offsets,
            poses_to_record=poses,
            warnings=tuple(warnings),
            details={
                "seconds": round(time.monotonic() - self.began, 1),
                "seed": self.config.seed,
                "bodies": list(self.config.bodies),
            },
        )

    def _estimate(self, one: Unknown, value: float, error: float, determined: bool) -> CameraEstimate:
        joint = one.name.removeprefix(JOINT) if one.name.startswith(JOINT) else None
        parameter = (
            f"{to_identifier(joint)}_encoder_bias_rad"
            if joint
            else camera_parameter(self.view.camera, one.name)
        )
        known = self.view.cell.twin.has(parameter)
        interval = normal_interval(value, error, one.unit)
        return CameraEstimate(
            value=value,
            low=interval.low,
            high=interval.high,
            unit=one.unit,
            name=one.name,
            parameter=parameter if known else None,
            nominal=one.start,
            prior=one.prior,
            determined=determined,
            joint=joint,
        )

    def _aligned(self, estimates: Sequence[CameraEstimate]) -> Twin:
        """The twin's next version: aligned values within the parameters' bounds."""
        prepared = self.view.cell.twin
        changes: dict[str, float | str] = {}
        for one in estimates:
            if one.parameter is not None:
                value = one.value
                if one.name == "distortion" and prepared.has("lens_distortion"):
                    value -= float(prepared.parameter("lens_distortion").nominal)
                changes[one.parameter] = float(np.clip(value, *prepared.parameter(one.parameter).bounds))
        return replace(prepared.with_values(changes), parent=self.twin.content_hash)
