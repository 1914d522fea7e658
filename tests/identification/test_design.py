"""Designed motions: within limits, better than a chirp, and as good as they say."""

import json
import sys
from itertools import combinations_with_replacement

import mujoco
import numpy as np
import pytest

from twinloop.cli import main
from twinloop.errors import UnknownName, WrongUse
from twinloop.experts import load_motion
from twinloop.experts.excitation import home_qpos
from twinloop.identification.design import design_excitation, pick
from twinloop.identification.information import Gauge
from twinloop.identification.limits import Rehearsal, make_limits
from twinloop.identification.scale import make_scales
from twinloop.identification.segments import draw_genes, lay_out
from twinloop.identification.slopes import linearize
from twinloop.identification.solve import solve
from twinloop.report.identification_plots import draw_motion
from twinloop.tasks import make_cell
from twinloop.twins import load_twin

from .worlds import record

NAMES = ["motor_friction_nm", "motor_damping_nms_rad", "motor_armature_kgm2", "action_delay_s"]
QUICK = {"generations": 2, "brood": 8, "threads": 1}


@pytest.fixture(scope="module")
def twin():
    return load_twin("servo_pendulum")


@pytest.fixture(scope="module")
def design(twin):
    return design_excitation(twin, NAMES, 4.0, seed=1, **QUICK)


def test_a_designed_motion_tells_more_than_a_chirp_within_the_same_limits(design, twin):
    assert design.gain > 2.0
    for motion in (design.motion, design.chirp):
        speed, torque = played(twin, motion)
        assert speed <= 1.5 and torque <= 0.9 * 0.7124
        assert np.abs(motion.commands).max() <= 0.4 + 1e-9
        assert np.abs(np.diff(motion.commands, axis=0)).max() * 200.0 <= 1.5 + 1e-9
    assert design.peaks.speed_rad_s == pytest.approx(played(twin, design.motion)[0], rel=1e-6)


def test_it_starts_and_ends_at_rest_at_home(design):
    rows = design.motion.commands
    assert len(rows) == 800
    np.testing.assert_allclose(rows[[0, -1]], 0.0, atol=1e-9)
    assert np.abs(np.diff(rows, axis=0)[[0, -1]]).max() < 1e-4


@pytest.mark.slow
def test_the_same_seed_gives_the_same_motion(twin, design):
    again = design_excitation(twin, NAMES, 4.0, seed=1, **QUICK)
    assert again.motion.digest == design.motion.digest
    assert design_excitation(twin, NAMES[:1], 2.0, seed=2, **QUICK).motion.digest != design.motion.digest


def test_readings_of_the_motion_scatter_estimates_as_expected(twin, design):
    """Noise put on the simulated readings moves a least squares estimate by what the design says, over many draws."""
    cell = make_cell(twin)
    gauge = Gauge(cell, make_scales(twin, NAMES), len(NAMES), None, 1)
    problem = gauge._problem(design.motion.commands[None], starts=False)
    jacobian = linearize(problem, solve(problem, gauge.places, endings=())).jacobian.reshape(-1, len(NAMES))
    rng = np.random.default_rng(0)
    quantum = 0.001534
    clean = problem.predictor.recordings[0].readings
    errors = []
    for _ in range(200):
        shifted = clean + quantum * (rng.random(clean.shape) - 0.5)
        noisy = np.round(shifted / quantum) * quantum - clean
        errors.append(np.linalg.lstsq(jacobian, (noisy / gauge.noise).reshape(-1), rcond=None)[0])
    found = np.std(errors, axis=0)
    for index, expected in enumerate(design.expected):
        slope = problem.scales[index].slope(float(gauge.places[index]))
        # A dithered step scatters by sqrt(2) of an undithered one; starts projected out make up the rest.
        assert 1.96 * found[index] * slope / np.sqrt(2) == pytest.approx(expected.half_width, rel=0.5)


def test_a_silent_parameter_is_called_so(twin):
    names = ["motor_damping_nms_rad", "action_delay_s", "observation_delay_s"]
    made = design_excitation(twin, names, 2.0, generations=1, brood=4, threads=1)
    assert set(made.unidentifiable) == {"action_delay_s", "observation_delay_s"}
    (confusion,) = made.confusions
    assert set(confusion.names) == {"action_delay_s", "observation_delay_s"}
    alone = design_excitation(twin, names[:2], 2.0, nuisance=names[2:], generations=1, brood=4, threads=1)
    assert alone.unidentifiable == ("action_delay_s",)


def test_information_of_an_arm_is_that_of_its_own_recording(twin):
    """Against differences of whole simulations, made apart from the gauge."""
    commands = np.zeros((200, 1)) + 0.3 * np.sin(np.arange(200)[:, None] * 0.03)
    gauge = Gauge(make_cell(twin), make_scales(twin, ["motor_damping_nms_rad"]), 1, 1e-3, 1)
    (made,) = gauge.parts(commands[None])
    (scale,) = make_scales(twin, ["motor_damping_nms_rad"])
    runs = []
    for value in (0.00326, 0.00406):
        truth = {"motor_damping_nms_rad": value}
        runs.append(record(twin, truth, 0, noise=0.0, seconds=1.0, commands=commands))
    slope = np.subtract(*(run.signals["observation.state"] for run in runs)) / (0.00326 - 0.00406)
    expected = np.sum((slope * scale.slope(float(scale.inward(0.00366))) / 1e-3) ** 2)
    assert made[0, 0] == pytest.approx(expected, rel=0.05)


def test_exchange_finds_the_best_set_of_few():
    rng = np.random.default_rng(3)
    roots = rng.standard_normal((9, 3, 2))
    information = roots @ roots.transpose(0, 2, 1)

    def volume(many):
        return np.linalg.slogdet(many + 1e-3 * np.eye(3))[1]

    best = max(
        volume(information[list(which)].sum(axis=0)[None])[0]
        for which in combinations_with_replacement(range(9), 3)
    )
    picked = pick(information, 3, volume)
    assert volume(information[picked].sum(axis=0)[None])[0] == pytest.approx(best, rel=1e-6)


def test_segments_keep_command_limits_whatever_the_gene():
    limits = make_limits(make_cell(load_twin("so101_pick_place")))
    genes = np.concatenate([draw_genes(np.random.default_rng(0), 30, 6), np.zeros((1, 6, 14))])
    made = lay_out(genes, 250, 0.02, limits)
    assert (np.abs(made) <= limits.reach + 1e-9).all()
    assert np.abs(np.diff(made, axis=1)).max() / 0.02 <= limits.speed_rad_s + 1e-9
    assert np.abs(np.diff(made, 2, axis=1)).max() / 0.02**2 <= limits.acceleration_rad_s2 + 1e-9


def test_an_arm_is_kept_off_the_table_and_below_its_torque():
    twin = load_twin("so101_pick_place")
    cell = make_cell(twin)
    limits = make_limits(cell, reach=1.0)
    rehearsal = Rehearsal(cell, limits, threads=1)
    lift = cell.actuators.index("shoulder_lift")
    time_s = np.arange(round(2 * twin.control_hz)) / twin.control_hz
    signals = np.zeros((2, len(time_s), len(cell.actuators)))
    bump = np.sin(np.pi * time_s / 2) ** 2
    signals[0, :, lift], signals[1, :, lift] = 0.05 * bump, 1.0 * bump
    made, refused = rehearsal.shrink(signals.copy())
    assert not refused.any()
    np.testing.assert_array_equal(made[0], signals[0])
    assert np.abs(made[1]).max() < 0.9, "the arm would have gone into the table"
    assert touches(cell, rehearsal.home + signals[1]) and not touches(cell, rehearsal.home + made[1])


def test_wrong_words_are_refused(twin):
    with pytest.raises(WrongUse, match="no parameter"):
        design_excitation(twin, [])
    with pytest.raises(UnknownName, match="motor_friction_nm"):
        design_excitation(twin, ["motor_fricton_nm"])
    with pytest.raises(WrongUse, match="2 to 600 s"):
        design_excitation(twin, NAMES, 0.5)
    with pytest.raises(WrongUse, match="no actuator that a motion could move"):
        design_excitation(load_twin("cube_toss"), ["object_mass_kg"])
    with pytest.raises(WrongUse, match="reach"):
        make_limits(make_cell(twin), reach=2.0)


def test_the_command_designs_writes_and_reports(tmp_path, monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["twinloop", "excite", "--twin", "servo_pendulum", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        return code, capsys.readouterr()

    quick = ("--seconds", 2, "--generations", 1, "--threads", 1)
    out, plot = tmp_path / "motion.csv", tmp_path / "motion.png"
    code, said = run("--parameters", NAMES[0], *quick, "--out", out, "--plot", plot, "--json")
    assert code == 0
    made = json.loads(said.out)
    assert made["expected"][0]["name"] == NAMES[0] and made["expected"][0]["low"] < 0.01283
    assert load_motion(out).digest == made["motion"] and plot.stat().st_size > 1000
    code, said = run("--parameters", NAMES[0], *quick)
    assert code == 0 and "times smaller than with a chirp" in said.out and NAMES[0] in said.out
    assert run("--parameters", "motor_fricton_nm")[0] == 2
    assert run("--parameters", NAMES[0], "--out", "motion.txt")[0] == 2
    assert run("--parameters", NAMES[0], "--reach", 3)[0] == 2
    assert run("--parameters", NAMES[0], "--noise", -1)[0] == 2


def test_a_motion_is_drawn(design, tmp_path):
    assert draw_motion(design, tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(WrongUse, match="PNG"):
        draw_motion(design, tmp_path / "m.svg")


def played(twin, motion):
    """Top speed and torque of the motion, stepped by hand."""
    model = twin.make_model()
    data = mujoco.MjData(model)
    speed = torque = 0.0
    for row in motion.commands:
        data.ctrl[:] = row
        for _ in range(twin.substeps):
            mujoco.mj_step(model, data)
            speed, torque = max(speed, abs(data.qvel[0])), max(torque, abs(data.actuator_force[0]))
    return speed, torque


def touches(cell, commands):
    """Whether the arm touches the table while it follows the commands, stepped by hand."""
    model = cell.twin.make_model()
    data = mujoco.MjData(model)
    data.qpos[:] = home_qpos(cell)[0]
    table = model.geom("table").id
    robot = model.body(cell.robot_root).id
    for row in commands:
        data.ctrl[:] = row
        for _ in range(cell.twin.substeps):
            mujoco.mj_step(model, data)
        for pair in data.contact.geom:
            bodies = model.body_rootid[model.geom_bodyid[pair]]
            if table in pair and robot in bodies:
                return True
    return False
