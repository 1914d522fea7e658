"""Videos of episodes for any browser: a recorded camera, or recorded states rendered with a twin's model.

The caption under the images states which of the two it is. Videos are WebM (VP9), which needs no licensed decoder, and
small enough to be embedded in an HTML report as data URIs.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from twinloop.datasets.artefacts import register_artefact
from twinloop.datasets.commit import write_atomically
from twinloop.datasets.outcomes import known_outcomes
from twinloop.datasets.reader import Dataset
from twinloop.durable import replace_durably
from twinloop.engines.render import Renderer
from twinloop.episode import Array, Camera, Episode
from twinloop.errors import WrongUse
from twinloop.generation.caption import LINES, paint_caption
from twinloop.generation.open_loop import set_actuator_positions
from twinloop.generation.perceived import POSE, quaternions_of, read_perceived
from twinloop.tasks import Cell, make_cell
from twinloop.tasks.joint_names import actuator_rows
from twinloop.tasks.place import start_at_rest
from twinloop.twins import Twin

WIDTH, HEIGHT = 320, 240
FRAMES_PER_S = 25.0
LAST_S = 0.6
"""How long the last image stays, to show the outcome."""

SHAPES = ("object", "environment", "contact")
"""Dimensions whose draws are visible in a rendered video: shapes and positions, not sensor effects."""


def record_video(
    episode: Episode,
    path: str | Path,
    *,
    twin: Twin | None = None,
    camera: str | None = None,
    title: str = "",
    source: str | None = None,
    dataset: Dataset | None = None,
) -> Path:
    """Write an episode as a video.

    Args:
        episode: The episode.
        path: The file, ending in .webm.
        twin: Renders the recorded states where the episode has no camera.
        camera: One of the episode's cameras, or the twin's to render from; by default the first.
        title: Text under the images, followed by the outcome and where the images come from.
        source: Replaces the text on where the images come from.
        dataset: Where the episode was read from: its workspace remembers what shows it.

    Returns:
        The path.

    Raises:
        WrongUse: There is no such camera, or neither a camera nor a twin.
    """
    own = [declared.name for declared in episode.schema.cameras]
    step = max(1, round(episode.schema.rate_hz / FRAMES_PER_S))
    rows = np.unique(np.append(np.arange(0, len(episode), step), len(episode) - 1))
    if own and (camera is None or camera in own):
        name = camera or own[0]
        images = np.stack([_enlarged(episode.frames[name][int(row)]) for row in rows])
        source = source or f"camera {name}, as recorded"
    elif twin is not None:
        images = draw_states(episode, twin, rows, camera=camera)
        source = source or f"no camera: rendered in twin {twin.name} from recorded readings"
    else:
        raise WrongUse("the episode has no camera", remedy="pass a twin to render its recorded states")
    caption = paint_caption(_lines(episode, title, source), images.shape[2])
    register_artefact(path, "video", [episode], near=[dataset.root] if dataset else [])
    return write_video(images, caption, Path(path), episode.schema.rate_hz / step)


def record_failure_videos(
    dataset: Dataset, folder: str | Path, *, twin: Twin | None = None, title: str = "", most: int = 6
) -> list[Path]:
    """Record videos of a dataset's first failures as `NAME-number-reason.webm`; NAME is the title or the dataset's name."""
    name = title or dataset.root.name
    videos: list[Path] = []
    for number in dataset.numbers:
        if len(videos) == most:
            break
        episode = dataset.episode(number)
        if episode.success is False:
            path = Path(folder) / f"{name}-{number}-{episode.outcome.failure or 'failure'}.webm"
            videos.append(
                record_video(episode, path, twin=twin, title=f"{name}, episode {number}", dataset=dataset)
            )
    return videos


def draw_states(episode: Episode, twin: Twin, rows: Array, *, camera: str | None = None) -> Array:
    """Images (len(rows), HEIGHT, WIDTH, 3) of a twin's model in the states that an episode recorded.

    Joints are at their readings. The object is at its true pose if recorded, else at its perceived pose, else at the
    twin's initial pose.
    """
    names = [declared.name for declared in twin.cameras]
    if not names:
        raise WrongUse(f"twin {twin.name} has no camera to render with", remedy="add a camera to its model")
    if camera is not None and camera not in names:
        raise WrongUse(f"twin {twin.name} has no camera {camera!r}", available=names)
    shown = replace(twin, cameras=(Camera(camera or names[0], HEIGHT, WIDTH),))
    cell = make_cell(shown)
    draw = {
        name: value
        for name, value in episode.provenance.draw.items()
        if twin.has(name) and twin.parameter(name).dimension in SHAPES
    }
    renderer = Renderer(cell, (shown.cameras[0].name,))
    try:
        states = reconstruct_states(episode, cell, rows)
        return renderer.paint(draw, 0, states, _shown(episode, cell))[shown.cameras[0].name]
    finally:
        renderer.close()


def reconstruct_states(episode: Episode, cell: Cell, rows: Array) -> Array:
    """Reconstruct qpos (len(rows), nq) from an episode's readings."""
    joints = episode.signals.get("observation.state")
    start = start_at_rest(cell, {}, 1).qpos
    positions = None
    if joints is not None:
        signal = episode.schema.signal("observation.state")
        positions = actuator_rows(cell, signal, _held(joints), cell.positions(start)[0])
    if positions is None:
        raise WrongUse(
            f"the episode's joints do not fit twin {cell.twin.name!r}",
            got="none" if joints is None else f"{joints.shape[1:]} numbers",
            expected=f"{len(cell.actuators)}: {', '.join(cell.actuators)}",
        )
    late = np.minimum(rows + _late_rows(episode, cell), len(episode) - 1)
    qpos = set_actuator_positions(cell, np.repeat(start, len(rows), axis=0), positions[late])
    if cell.object_qpos is not None:
        pose = _object_poses(episode)
        if pose is not None:
            qpos[:, cell.object_qpos : cell.object_qpos + 7] = pose[rows]
    return qpos


def write_video(images: Array, caption: Array, path: Path, rate_hz: float) -> Path:
    """Images (T, height, width, 3) with a caption (height, width, 3) under each, as WebM."""
    import av

    size = len(caption) + images.shape[1]
    height, width = size // 2 * 2, images.shape[2] // 2 * 2
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with av.open(str(temporary), "w", format="webm") as container:
            rate = Fraction(rate_hz).limit_denominator(1001)
            stream = container.add_stream("libvpx-vp9", rate=rate)
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            stream.options = {"crf": "36", "b": "0", "deadline": "realtime", "cpu-used": "7", "threads": "1"}
            for image in (*images, *([images[-1]] * round(LAST_S * rate_hz))):
                whole = np.ascontiguousarray(np.concatenate([image, caption])[:height, :width])
                for packet in stream.encode(av.VideoFrame.from_ndarray(whole, format="rgb24")):
                    container.mux(packet)
            container.mux(stream.encode(None))
        replace_durably(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


@dataclass(frozen=True)
class Video:
    """A video file with its caption."""

    file: Path
    caption: str

    @property
    def content_hash(self) -> str:
        """A hash of the video."""
        return hashlib.blake2b(self.file.read_bytes(), digest_size=16).hexdigest()


def record_outcomes(
    wanted: Mapping[str, tuple[Dataset, bool]], twin: Twin, out: str | Path
) -> tuple[Video, ...]:
    """Record the first episode of each dataset that ended as wanted.

    Args:
        wanted: Datasets by label, each with the outcome to show.
        twin: Renders episodes that were recorded without a camera.
        out: Folder for the videos and `videos.json`.

    Returns:
        The videos; a dataset without such an episode has none.
    """
    folder, videos = Path(out), []
    for label, (dataset, success) in wanted.items():
        outcomes = zip(dataset.numbers, known_outcomes(dataset), strict=True)
        number = next((number for number, outcome in outcomes if outcome is success), None)
        if number is not None:
            caption = f"{label}: a {'success' if success else 'failure'}"
            episode, path = dataset.episode(number), folder / f"{label}.webm"
            file = record_video(episode, path, twin=twin, title=caption, dataset=dataset)
            videos.append(Video(file, caption))
    listed = [{"file": video.file.name, "caption": video.caption} for video in videos]
    write_atomically(folder / "videos.json", json.dumps(listed).encode())
    return tuple(videos)


def load_videos(folder: str | Path) -> tuple[Video, ...]:
    """Read what `record_outcomes` wrote into a folder."""
    listed = json.loads((Path(folder) / "videos.json").read_text())
    return tuple(Video(Path(folder) / entry["file"], entry["caption"]) for entry in listed)


def video_data_uri(path: str | Path) -> str:
    """A video as a data URI, for the `src` of a video in a self-contained page."""
    return "data:video/webm;base64," + base64.b64encode(Path(path).read_bytes()).decode()


def _lines(episode: Episode, title: str, source: str) -> Sequence[str]:
    ended = "success" if episode.success else f"failure: {episode.outcome.failure or 'no reason recorded'}"
    if episode.success is None:
        ended = "outcome unknown"
    phases = [event.detail for event in episode.events if event.kind == "phase"]
    if episode.success is False and phases:
        ended += f", in phase {phases[-1]}"
    return [line for line in (title, f"{ended}; {episode.duration_s:.1f} s", source) if line][: LINES + 1]


def _enlarged(image: Array) -> Array:
    """A small image enlarged by pixel repetition, so that a caption fits under it."""
    times = max(1, round(HEIGHT / image.shape[0]))
    return image.repeat(times, axis=0).repeat(times, axis=1)


def _object_poses(episode: Episode) -> Array | None:
    """Pose of the object (position, quaternion) at every row, (T, 7): true if recorded, else perceived."""
    true = episode.signals.get("simulation.object")
    if true is not None and true.shape[1:] == (7,):
        return np.asarray(true, np.float64)
    seen = read_perceived(episode, POSE)
    if seen is None or not np.isfinite(seen).all(axis=1).any():
        return None
    seen = _held(seen)
    return np.concatenate([seen[:, :3], quaternions_of(seen[:, 3:])], axis=1)


def _shown(episode: Episode, cell: Cell) -> Array:
    """Positions of mocap bodies (nmocap, 3): the target as perceived, but never below the twin's table."""
    mocap = np.array(start_at_rest(cell, {}, 1).mocap_pos[0])
    seen = read_perceived(episode, [f"target.{axis}" for axis in "xyz"])
    if cell.target_mocap is not None and seen is not None and np.isfinite(seen).all(axis=1).any():
        place = np.nanmedian(seen, axis=0)
        mocap[cell.target_mocap] = (*place[:2], max(place[2], mocap[cell.target_mocap, 2]))
    return mocap


def _late_rows(episode: Episode, cell: Cell) -> int:
    """Rows by which joint readings lag the object's pose, which a simulation records without delay."""
    if episode.provenance.source != "sim" or not cell.twin.has("observation_delay_s"):
        return 0
    nominal = cell.twin.parameter("observation_delay_s").nominal
    delay_s = float(episode.provenance.draw.get("observation_delay_s", nominal))
    return round(delay_s * episode.schema.rate_hz)


def _held(values: Array) -> Array:
    """Rows with missing numbers replaced by the last complete row; leading ones by the first complete row."""
    good = np.isfinite(values).all(axis=1)
    last = np.maximum.accumulate(np.where(good, np.arange(len(values)), -1))
    return np.asarray(values[np.where(last < 0, int(np.argmax(good)), last)])
