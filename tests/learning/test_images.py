"""Policies that look: what cannot be known without an image is learned from it, and images are taken only when needed."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.learning.examples import TINY, Standin, photograph, point
from twinloop.datasets.cache import cached_frames
from twinloop.datasets.images import area_weights, crop, crop_size, downsample
from twinloop.datasets.reader import open_dataset
from twinloop.engines.render import open_context
from twinloop.episode import Camera, Outcome
from twinloop.errors import LearnError, TwinloopError, UnknownName, WrongUse
from twinloop.evaluation.robot import RobotEnvironment
from twinloop.evaluation.run import evaluate
from twinloop.evaluation.twin import TwinEnvironment
from twinloop.learning.adapt import coral
from twinloop.learning.config import TrainConfig
from twinloop.learning.samples import Samples
from twinloop.learning.train import train
from twinloop.policies.networks.export import export_onnx
from twinloop.policies.networks.network import PolicyNetwork
from twinloop.policies.networks.policy import Policy, load_policy
from twinloop.policies.networks.shape import ImageShape
from twinloop.randomization import load_randomization
from twinloop.robots import connected
from twinloop.robots.protocol import Observation
from twinloop.twins import load_twin

LOOKS = replace(
    TINY,
    cameras=("front",),
    image_side=16,
    image_features=8,
    recipe="real-only",
    vary_images=False,
    steps=150,
    validate_every=50,
    learning_rate=0.01,
    blend=False,  # these tests are about what it sees, and a second is short
    hold_last_action=False,  # of so short an episode most of a chunk would be its end
)


PALE, FAINT = (0.2, 150.0), (0.05, 150.0)
"""A camera without contrast: dark is 158, bright 194."""


class Signpost(Standin):
    """Both joints must go to where a bright bar stands in the image: to the left -0.5, to the right 0.5.

    `light` and `floor` are what the camera makes of brightness; `images` counts how many were taken. A wide camera sees
    `beside` pixels more on either side, all bright.
    """

    def __init__(self, light=1.0, floor=0.0, size=16, camera="front", beside=0):
        super().__init__()
        self._look, self._beside = (light, floor), beside
        self._camera = Camera(camera, size, size + 2 * beside)
        self._right, self.images = False, 0

    @property
    def description(self):
        return replace(super().description, cameras=(self._camera,))

    def prepare(self, number):
        super().prepare(number)
        self._right = bool(np.random.default_rng(number).integers(2))

    @property
    def goal(self):
        return 0.5 if self._right else -0.5

    def observe(self, cameras=()):
        seen = super().observe()
        size, (light, floor) = self._camera.height, self._look
        image = np.full((size, size, 3), 40.0)
        middle = size * 3 // 4 if self._right else size // 4
        image[:, middle - size // 8 : middle + size // 8] = 220.0
        image = np.pad(image, ((0, 0), (self._beside, self._beside), (0, 0)), constant_values=220.0)
        self.images += len(cameras)
        frames = {name: np.clip(light * image + floor, 0, 255).astype(np.uint8) for name in cameras}
        return Observation(seen.time_s, seen.signals, frames)

    def steer(self):
        return np.full(2, self.goal)

    def judge(self, over=False):
        near = bool(np.abs(self.position - self.goal).max() < 0.1)
        return Outcome(True) if near else Outcome(False, "not_there") if over else Outcome()


def demonstrate(out, robot=None, episodes=12):
    return point(out, episodes=episodes, robot=robot or Signpost(), cameras=("front",))


@pytest.fixture(scope="module")
def signposts(tmp_path_factory):
    return demonstrate(tmp_path_factory.mktemp("signposts") / "data")


@pytest.fixture(scope="module")
def seeing(signposts, tmp_path_factory):
    return train(real=signposts, out=tmp_path_factory.mktemp("policies") / "seeing", config=LOOKS)


@pytest.fixture(scope="module")
def plain(signposts, tmp_path_factory):
    """Trained on simulated images as they are."""
    config = replace(LOOKS, recipe="sim-only", batch=32)
    return train(signposts, out=tmp_path_factory.mktemp("policies") / "plain", config=config)


def succeeds(policy, robot=None, episodes=8):
    robot = robot or Signpost()
    with connected(robot):
        short = RobotEnvironment(robot, time_limit_s=1.0)
        return evaluate(policy, short, episodes=episodes, seed=50).success_rate


def error(policy, data):
    """How wrong its chunks are where it was demonstrated what to do."""
    samples = Samples(data, "sim", policy.interface, LOOKS)
    batch = samples.take(np.concatenate([samples.training, samples.validation]))
    tensors = {name: torch.from_numpy(values) for name, values in vars(batch).items()}
    with torch.inference_mode():
        seen = policy.network.encode_images(tensors.pop("images"))
        return float(policy.network.loss(**tensors, noise=None, when=None, image_features=seen))


def test_averaging_keeps_what_there_is_at_any_ratio():
    for size, side in ((16, 8), (30, 7), (8, 8)):
        assert np.allclose(area_weights(size, side).sum(axis=1), 1.0, atol=1e-6)
        assert np.allclose(area_weights(size, side).sum(axis=0), side / size, atol=1e-6), (
            "every pixel counts alike"
        )
    frames = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3)).astype(np.uint8)
    plain = np.rint(frames.reshape(3, 4, 2, 4, 2, 3).astype(float).mean(axis=(2, 4)))
    assert np.array_equal(downsample(frames, 4), plain)


def test_frames_are_kept_averaged_down(signposts):
    small, whole = cached_frames(signposts, "front", 8), cached_frames(signposts, "front")
    assert small.shape == (signposts.num_frames, 8, 8, 3)
    assert np.array_equal(small[5], downsample(np.asarray(whole[5]), 8))


def test_what_only_a_image_tells_is_learned_from_it(signposts, seeing, tmp_path):
    blind = train(real=signposts, out=tmp_path / "blind", config=replace(LOOKS, cameras=()))
    assert succeeds(seeing) == 1.0
    assert succeeds(blind) < 1.0, "joints alone do not say where to go"


def test_images_are_taken_only_when_a_chunk_is_thought_of(seeing):
    robot = Signpost()
    with connected(robot):
        evaluate(seeing, RobotEnvironment(robot, time_limit_s=1.0), episodes=1, seed=3)
    steps = len(robot.sent)
    assert robot.images == 1 + (steps - 1) // LOOKS.n_action_steps


def test_a_policy_that_looks_is_the_same_after_saving(seeing, signposts, tmp_path):
    seeing.save(tmp_path / "p")
    again = load_policy(tmp_path / "p")
    rng = np.random.default_rng(1)
    seen = rng.normal(size=(3, 2, again.interface.observation_size)).astype(np.float32)
    images = rng.integers(0, 256, (3, 1, 16, 16, 3)).astype(np.uint8)
    assert again.id == seeing.id and again.interface.cameras == signposts.schema.cameras
    assert np.array_equal(again.predict(seen, images), seeing.predict(seen, images))
    assert not np.allclose(again.predict(seen, images), again.predict(seen, 255 - images))
    with pytest.raises(WrongUse, match=r"seeing sees images; expected front"):
        again.predict(seen)


def test_a_policy_without_cameras_is_written_as_before_there_were_any(tiny_policy, tmp_path):
    words = json.loads((tiny_policy.save(tmp_path / "p") / "policy.json").read_text())
    assert "cameras" not in words["interface"] and "images" not in words["network"]
    with pytest.raises(WrongUse, match="sees no images"):
        tiny_policy.predict(np.zeros((1, 2, 28), np.float32), np.zeros((1, 1, 8, 8, 3), np.uint8))


@pytest.mark.parametrize("head", ["regression", "flow"])
def test_the_exported_policy_sees_the_same(signposts, tmp_path, head):
    onnxruntime = pytest.importorskip("onnxruntime")
    config = replace(LOOKS, head=head, image_side=12, steps=5)
    policy = train(real=signposts, out=tmp_path / "p", config=config)
    path = export_onnx(policy, tmp_path / "p.onnx")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(2)
    for count in (1, 4):
        images = rng.integers(0, 256, (count, 1, 16, 16, 3)).astype(np.uint8)
        inputs = {
            "observation": rng.normal(size=(count, 2, 2)).astype(np.float32),
            "domain": np.zeros((count, 1), np.float32),
            "noise": rng.normal(size=(count, policy.chunk, 2)).astype(np.float32),
            "images": images,
        }
        known = {i.name for i in session.get_inputs()}
        got = session.run(None, {name: v for name, v in inputs.items() if name in known})[0]
        want = policy.predict(inputs["observation"], images, noise=inputs["noise"])
        assert np.allclose(got, want, atol=1e-4)
    about = json.loads(session.get_modelmeta().custom_metadata_map["interface"])
    assert [camera["name"] for camera in about["cameras"]] == ["front"]


def with_camera(policy, camera):
    """A policy like this one that also looks; it has learned nothing from images."""
    torch.manual_seed(0)
    images = ImageShape(1, camera.height, camera.width, 16, 8)
    network = PolicyNetwork(replace(policy.network.shape, images=images), policy.normalisation)
    interface = replace(policy.interface, cameras=(camera,))
    execution = replace(policy.execution, n_action_steps=policy.chunk)
    return Policy(network, interface, policy.normalisation, execution, policy.domains, policy.training_record)


def test_in_a_twin_what_it_does_follows_from_what_it_sees(tiny_policy, short_trials, tmp_path):
    try:
        open_context(16, 16).free()
    except TwinloopError as error:
        pytest.skip(str(error))
    twin = load_twin("franka_pick_place")
    policy = with_camera(tiny_policy, twin.cameras[0])

    def actions(name, light):
        looks = load_randomization(
            {"twin": twin.name, "randomization": {"light_intensity": [light, light + 1e-9]}}
        )
        evaluate(policy, TwinEnvironment(twin, looks), episodes=1, seed=2, out=tmp_path / name)
        return [np.asarray(episode["action"]) for episode in open_dataset(tmp_path / name)]

    dark, again, bright = actions("dark", 0.2), actions("again", 0.2), actions("bright", 2.0)
    assert all(np.array_equal(a, b) for a, b in zip(dark, again, strict=True))
    assert not np.allclose(dark[0][:50], bright[0][:50])


def test_a_twin_without_its_camera_is_refused(tiny_policy):
    with pytest.raises(LearnError, match=r"has no camera side; available: front, wrist"):
        evaluate(with_camera(tiny_policy, Camera("side", 128, 128)), "franka_pick_place", episodes=1)
    with pytest.raises(LearnError, match=r"too small for the policy; got 128 x 128, .* expected 16 x 16"):
        evaluate(with_camera(tiny_policy, Camera("front", 16, 256)), "franka_pick_place", episodes=1)


def test_tracked_objects_are_seen_only_when_asked_for():
    assert "observation.environment_state" in TrainConfig().signals
    assert "observation.environment_state" not in TrainConfig(cameras=("front",)).signals
    asked = ("observation.state", "observation.environment_state")
    assert TrainConfig(cameras=("front",), observations=asked).signals == asked


@pytest.mark.parametrize("adapt", ["coral", pytest.param("ot", marks=pytest.mark.slow)])
def test_alignment_brings_real_images_closer_and_can_be_resumed(signposts, tmp_path, adapt):
    dark = demonstrate(tmp_path / "dark", Signpost(light=0.4, floor=60.0), episodes=6)
    config = replace(LOOKS, recipe="sim-only", adapt=adapt, steps=60, validate_every=20)
    made = train(signposts, dark, out=tmp_path / "aligned", config=config)
    plain = train(signposts, out=tmp_path / "plain", config=replace(config, adapt="none"))

    def apart(policy):
        sides = [
            torch.from_numpy(np.array(cached_frames(d, "front", 16)[:, None])) for d in (signposts, dark)
        ]
        with torch.inference_mode():
            return float(coral(*(policy.network.encode_images(side) for side in sides)))

    assert apart(made) < apart(plain)
    assert made.domains == ("sim",) and [e["role"] for e in made.training_record.datasets] == ["sim", "real"]

    class Stopped(Exception):
        pass

    def on_validation(point, steps):
        if point.step == 20:
            raise Stopped

    with pytest.raises(Stopped):
        train(signposts, dark, out=tmp_path / "cut", config=config, on_validation=on_validation)
    assert train(signposts, dark, out=tmp_path / "cut", config=config, resume=True).id == made.id


def test_restyled_images_prepare_for_another_look(signposts, plain, tmp_path):
    real = demonstrate(tmp_path / "real", Signpost(*FAINT), episodes=6)
    config = replace(LOOKS, recipe="sim-only", restyle="fourier", restyle_band=0.1, batch=32)
    made = train(signposts, real, out=tmp_path / "p", config=config)
    assert error(made, real) < 0.5 * error(plain, real)
    assert succeeds(made) == 1.0, "half of the images stay, so simulation is still understood"


def test_varied_images_prepare_for_any_look(signposts, plain, tmp_path):
    config = replace(LOOKS, recipe="sim-only", batch=32, vary_images=True)
    made = train(signposts, out=tmp_path / "p", config=config)
    real = demonstrate(tmp_path / "real", Signpost(*FAINT), episodes=6)
    assert error(made, real) < 0.5 * error(plain, real)
    assert succeeds(made) == 1.0 and succeeds(made, Signpost(*FAINT)) == 1.0


def test_photographs_serve_as_real_images(signposts, tmp_path):
    photograph(tmp_path / "room.png", np.full((20, 30, 3), 170, np.uint8))
    config = replace(LOOKS, recipe="sim-only", restyle="fourier", steps=5)
    made = train(signposts, out=tmp_path / "p", config=config, photos=tmp_path)
    plain = train(signposts, out=tmp_path / "plain", config=replace(config, restyle="none"))
    assert made.id != plain.id and made.training_record.results["photos"] == tmp_path.name
    assert made.domains == ("sim",) and len(made.training_record.datasets) == 1


def test_cameras_that_are_not_there_are_refused(signposts, seeing, tmp_path):
    with pytest.raises(LearnError, match=r"has no camera wrist; available: front"):
        train(real=signposts, out=tmp_path / "p", config=replace(LOOKS, cameras=("wrist",)))
    blind = point(tmp_path / "blind", robot=Signpost())
    mixed = replace(LOOKS, recipe="co-train")
    with pytest.raises(LearnError, match=r"blind has no camera front; got no cameras at all"):
        train(signposts, blind, out=tmp_path / "p", config=mixed)
    small = demonstrate(tmp_path / "small", Signpost(size=8), episodes=6)
    with pytest.raises(
        LearnError, match=r"small are too small for the policy; got 8 x 8, .* expected 16 x 16"
    ):
        train(signposts, small, out=tmp_path / "p", config=mixed)
    with pytest.raises(WrongUse, match=r"smaller than image_side; got 16 x 16"):
        train(real=signposts, out=tmp_path / "p", config=replace(LOOKS, image_side=64))
    for robot, why in ((Signpost(camera="side"), "has no camera front"), (Signpost(size=8), "got 8 x 8")):
        with connected(robot), pytest.raises(LearnError, match=why):
            evaluate(seeing, robot, episodes=1)
    assert not (tmp_path / "p").exists()


def test_of_a_larger_and_wider_camera_the_middle_is_seen(signposts, seeing, tmp_path):
    wide = Signpost(size=48, beside=24)
    assert succeeds(seeing, wide) == 1.0  # as good as if the robot had the camera that it learned with
    data = demonstrate(tmp_path / "wide", wide, episodes=6)
    assert (cached_frames(data, "front", 16, (16, 16))[0, :, 0] < 60).all()
    assert (cached_frames(data, "front", 16)[0, :, 0] > 200).all()  # uncut, and kept apart
    said = []
    mixed = replace(LOOKS, recipe="co-train", steps=100)
    policy = train(signposts, data, out=tmp_path / "p", config=mixed, log=said.append)
    assert [line for line in said if "96 x 48" in line and "the 48 x 48 in the middle" in line]
    assert succeeds(policy) == 1.0
    assert error(policy, data) < 2 * error(policy, signposts) + 0.05


def test_images_are_cut_to_the_proportions_they_are_asked_for():
    for size, shape, expected in (
        ((480, 640), (128, 128), (480, 480)),
        ((640, 480), (128, 128), (480, 480)),
        ((128, 128), (480, 640), (96, 128)),
        ((96, 128), (480, 640), (96, 128)),
        ((1, 9), (9, 1), (1, 1)),
    ):
        assert crop_size(size, shape) == expected
        frame = np.arange(size[0] * size[1]).reshape(*size, 1)
        piece = crop(frame, shape)
        assert piece.shape[:2] == expected
        top, left = (size[0] - expected[0]) // 2, (size[1] - expected[1]) // 2
        assert piece[0, 0, 0] == top * size[1] + left


def test_images_of_a_wrong_size_are_refused_by_a_policy(seeing):
    history = np.zeros((1, seeing.network.shape.history, seeing.interface.observation_size), np.float32)
    with pytest.raises(
        WrongUse, match=r"(?s)sees other images.*\(n, 1, 16, 16, 3\).*policy.images\(frames\)"
    ):
        seeing.predict(history, np.zeros((1, 1, 48, 96, 3), np.uint8))
    made = seeing.images({"front": np.zeros((48, 96, 3), np.uint8)})
    assert seeing.predict(history, made[None]).shape[0] == 1


def test_a_policy_that_looks_is_fine_tuned_with_its_cameras(signposts, seeing, tmp_path):
    seeing.save(tmp_path / "before")
    pale = demonstrate(tmp_path / "pale", Signpost(*PALE), episodes=6)
    config = replace(
        TINY, recipe="pretrain-finetune", finetune_rate=0.01, finetune_steps=60, validate_every=20
    )
    made = train(real=pale, out=tmp_path / "after", config=config, start=tmp_path / "before")
    assert succeeds(made, Signpost(*PALE)) == 1.0 and made.interface.cameras == seeing.interface.cameras
    with pytest.raises(WrongUse, match=r"looks through other cameras; got wrist; expected front"):
        other = replace(config, cameras=("wrist",))
        train(real=pale, out=tmp_path / "p", config=other, start=tmp_path / "before")


def test_adaptation_without_images_or_reality_is_refused(signposts, tmp_path):
    with pytest.raises(UnknownName, match="did you mean 'coral'"):
        replace(LOOKS, adapt="corall")
    with pytest.raises(WrongUse, match=r"adapt is about images"):
        TrainConfig(adapt="ot")
    with pytest.raises(WrongUse, match=r"restyle is about simulated images"):
        replace(LOOKS, restyle="fourier")
    sim = replace(LOOKS, recipe="sim-only")
    with pytest.raises(WrongUse, match="needs real data"):
        train(signposts, out=tmp_path / "p", config=replace(sim, adapt="coral"))
    with pytest.raises(WrongUse, match="restyle needs real images"):
        train(signposts, out=tmp_path / "p", config=replace(sim, restyle="fourier"))
    with pytest.raises(WrongUse, match="photographs are for restyling"):
        train(signposts, out=tmp_path / "p", config=sim, photos=tmp_path)
    with pytest.raises(WrongUse, match="no use for the real data"):
        train(signposts, signposts, out=tmp_path / "p", config=sim)
    assert not (tmp_path / "p").exists()


def test_images_of_any_size_are_averaged_by_overlap():
    rng = np.random.default_rng(4)
    for height, width, side in ((12, 8, 4), (10, 7, 4), (9, 9, 3)):
        frames = rng.integers(0, 256, (2, height, width, 3), np.uint8)
        rows, columns = area_weights(height, side).astype(float), area_weights(width, side).astype(float)
        exact = np.einsum("sh,nhwc,tw->nstc", rows, frames.astype(float), columns)
        assert np.abs(downsample(frames, side) - exact).max() <= 0.5 + 1e-3


def test_decoding_is_announced_once(tmp_path):
    data = point(tmp_path / "real", robot=Signpost(), cameras=("front",))
    config = replace(TINY, recipe="real-only", cameras=("front",), image_side=8)
    for out, wanted in (
        ("first", [f"{data.root}: decoding {data.num_frames} images of front, this once"]),
        ("second", []),
    ):
        said = []
        train(real=data, out=tmp_path / out, config=config, log=said.append)
        assert said == wanted
