"""Motions on disk, and played: by an expert, in generation and by a recorder."""

import numpy as np
import pytest

import twinloop as tl
from twinloop.errors import TwinloopError, WrongUse
from twinloop.experts import Motion, Setup, find_expert, load_motion, save_motion
from twinloop.experts.playback import fit_motion, pinned_name, provenance_name
from twinloop.robots.controllers import ExpertController
from twinloop.tasks import make_cell


@pytest.fixture
def motion():
    time_s = np.arange(2500) / 200.0
    return Motion(("motor",), 200.0, 0.3 * np.sin(time_s)[:, None])


@pytest.mark.parametrize("ending", ["npz", "csv"])
def test_a_motion_survives_the_disk(motion, tmp_path, ending):
    again = load_motion(save_motion(motion, tmp_path / f"m.{ending}"))
    assert again.digest == motion.digest and again.duration_s == 12.5
    np.testing.assert_array_equal(again.commands, motion.commands)


def test_an_expert_plays_it_at_the_control_rate_and_holds_the_end(motion, tmp_path):
    cell = make_cell(tl.load_twin("servo_pendulum"))
    slow = Motion(("motor",), 50.0, motion.commands[::4])
    file = save_motion(slow, tmp_path / "m.npz")
    expert = find_expert(f"motion:{file}")(Setup(cell, 2, 3000))
    assert expert.actor == "excitation"
    acts = np.stack([expert.act(None, np.array([step, step]))[:, 0] for step in range(3000)])
    np.testing.assert_allclose(acts[:2490, 0], motion.commands[:2490, 0], atol=2e-5)
    assert (acts[2500:] == acts[-1]).all() and (acts[:, 0] == acts[:, 1]).all()


def test_generation_plays_the_whole_motion_and_can_repeat_it(motion, tmp_path):
    file = save_motion(motion, tmp_path / "m.npz")
    made = tl.generate(
        tl.load_twin("servo_pendulum"), episodes=1, out=tmp_path / "d", workers=1, expert=f"motion:{file}"
    )
    episode = made.episode(0)
    assert len(episode) == 2500 and episode.success and episode.provenance.actor == "excitation"
    np.testing.assert_allclose(episode.signals["action"][:, 0], motion.commands[:, 0], atol=1e-6)
    assert tl.replay(made, 0).same
    save_motion(Motion(("motor",), 200.0, 0.5 * motion.commands), file)
    with pytest.raises(TwinloopError, match="not the motion it was"):
        tl.replay(made, 0)


def test_a_recorder_names_the_motion_without_the_folder(motion, tmp_path):
    file = save_motion(motion, tmp_path / "m.csv")
    controller = ExpertController(tl.load_twin("servo_pendulum"), f"motion:{file}", 12.5)
    assert controller.actor_id == f"motion:m.csv@{motion.digest}" == provenance_name(f"motion:{file}")
    assert provenance_name("chirp") == pinned_name("chirp") == "chirp"


def test_what_cannot_be_played_is_refused(motion, tmp_path):
    cell = make_cell(tl.load_twin("servo_pendulum"))
    with pytest.raises(WrongUse, match="no motion file"):
        load_motion(tmp_path / "none.npz")
    with pytest.raises(WrongUse, match=r"\.npz or a \.csv"):
        save_motion(motion, tmp_path / "m.txt")
    with pytest.raises(WrongUse, match="available: motor"):
        fit_motion(Motion(("elbow",), 200.0, motion.commands), cell, 10)
    with pytest.raises(WrongUse, match="leaves the range of motor"):
        fit_motion(Motion(("motor",), 200.0, 100.0 * motion.commands), cell, 500)
    with pytest.raises(WrongUse, match="spaces"):
        pinned_name(f"motion:{tmp_path}/a b.npz")
    for text in (
        "time_s,motor\n0,1\n",
        "time_s,motor\n0,1\n1,x\n",
        "t,motor\n0,1\n1,1\n",
        "",
        "time_s,motor\n0,1\n1,1\n5,1\n",
    ):
        (tmp_path / "bad.csv").write_text(text)
        with pytest.raises(TwinloopError, match="cannot be read as a motion"):
            load_motion(tmp_path / "bad.csv")
    (tmp_path / "bad.npz").write_bytes(b"nothing")
    with pytest.raises(TwinloopError, match="cannot be read as a motion"):
        load_motion(tmp_path / "bad.npz")
    with pytest.raises(WrongUse, match="finite"):
        Motion(("motor",), 200.0, np.full((3, 1), np.nan))
