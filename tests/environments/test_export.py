"""A twin goes out to other people's evaluators, and other people's environments come in."""

import ast
import json
import os
import socket
import subprocess
import tomllib
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import yaml

import twinloop as tl
from benchmarks.peers.environment import Peer
from tests.terminal import run_command as twinloop_command
from twinloop.environments.lerobot import LerobotEnv
from twinloop.errors import UnknownName, WrongUse
from twinloop.policies.interface import make_interface
from twinloop.policies.protocol import Execution
from twinloop.robots import GymnasiumRobot
from twinloop.testing.robots import check_robot

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent


class Point(gymnasium.Env):
    """A point on a line that velocities move; at one it has arrived. Somebody else's environment."""

    metadata = {"render_modes": [], "render_fps": 10}  # noqa: RUF012

    def __init__(self, says=True):
        self.observation_space = gymnasium.spaces.Dict(
            {"agent_pos": gymnasium.spaces.Box(-9, 9, (1,), np.float64), "pixels": gymnasium.spaces.Dict(
                {"top": gymnasium.spaces.Box(0, 255, (4, 6, 3), np.uint8)})}
        )  # fmt: skip
        self.action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
        self.says = says

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-0.5, 0.5)
        return self._see(), {}

    def step(self, action):
        self.place += 0.1 * float(action[0])
        arrived = self.place >= 1.0
        return self._see(), 0.0, arrived, False, {"is_success": arrived} if self.says else {}

    def _see(self):
        return {"agent_pos": np.array([self.place]), "pixels": {"top": np.zeros((4, 6, 3), np.uint8)}}


class Push:
    """Always the same velocity."""

    def __init__(self, description, velocity):
        self.name, self.id, self.execution = f"push-{velocity}", str(velocity), Execution()
        self.interface = make_interface(description.schema(), ["observation.state"], "the point")
        self.velocity = velocity

    def reset(self, seed):
        pass

    def infer(self, observation):
        return np.array([[self.velocity]], np.float32)


@pytest.fixture
def point():
    gymnasium.register("elsewhere/Point-v0", entry_point=Point, max_episode_steps=20)
    yield "gym:elsewhere/Point-v0"
    del gymnasium.registry["elsewhere/Point-v0"]


def test_a_foreign_environment_is_a_robot_and_judges_policies(point):
    check_robot(tl.open_robot(point))
    with tl.connected(tl.open_robot(point)) as robot:
        description = robot.description
        assert description.standin and description.lockstep and description.time_limit_s == pytest.approx(2.1)
        assert [camera.name for camera in description.cameras] == ["top"]
        fast, slow = tl.evaluate_in_turns(
            [Push(description, 1.0), Push(description, 0.1)], tl.RobotEnvironment(robot), episodes=4, seed=3
        )
    assert fast.success_rate == 1.0 and slow.success_rate == 0.0 and slow.failures == {"time_limit": 4}
    assert fast.where == "gym-elsewhere/Point-v0" and fast.standin


def test_an_environment_that_never_says_whether_it_succeeded_judges_nothing(point):
    with tl.connected(GymnasiumRobot("elsewhere/Point-v0", says=False)) as robot:
        (found,) = tl.evaluate_in_turns(
            [Push(robot.description, 1.0)], tl.RobotEnvironment(robot), episodes=1
        )
    assert found.judged == ()


def test_a_twin_by_way_of_gymnasium_keeps_its_names_and_units():
    with tl.connected(tl.open_robot("gym:twinloop/franka_reach-v0")) as robot:
        description = robot.description
        assert description.twin == "franka_reach" and description.rate_hz == 50.0
        assert description.action.elements[0] == "joint1.target" and description.action.units[0] == "rad"
        assert description.time_limit_s == pytest.approx(4.0)


class Stay:
    """Stays where it is."""

    name, id, execution = "stay", "stay-1", Execution()

    def __init__(self, description):
        self.interface = make_interface(description.schema(), ["observation.state"], "the arm")

    def reset(self, seed):
        pass

    def infer(self, observation):
        return observation["observation.state"][None]


@pytest.mark.slow
def test_a_policy_that_never_succeeds_there_is_refused(tmp_path):
    rules = tl.Rules(threshold=0.8, max_trials=15)
    with tl.connected(tl.open_robot("gym:twinloop/franka_reach-v0")) as robot:
        verdict = tl.gate(
            Stay(robot.description),
            tl.load_twin("franka_reach"),
            tl.GateConfig(scenes=20, rules=rules),
            robot=robot,
            out=tmp_path / "gate",
        )
    assert verdict.decision == "refuse" and verdict.standin


def test_what_cannot_be_used_says_why(point):
    with pytest.raises(WrongUse, match="Gymnasium cannot make 'nowhere/Nothing-v0'"):
        tl.open_robot("gym:nowhere/Nothing-v0").connect()
    code, _, error = twinloop_command("evaluate", "p", "--env", "mujoco:Ant")
    assert code == 2 and "expected gym:ENV_ID" in error
    code, _, error = twinloop_command("evaluate", "p", "--env", point, "--robot", "standin:mild")
    assert code == 2 and "exclude each other" in error


def test_lerobots_names_are_those_of_its_evaluation():
    environment = LerobotEnv("franka_reach", cameras=("front",), render_mode="rgb_array")
    observation, _ = environment.reset(seed=1)
    assert environment.observation_space.contains(observation)
    assert observation["agent_pos"].shape == (8,) and observation["environment_state"].shape == (3,)
    assert observation["pixels"]["front"].shape == (128, 128, 3)
    assert environment._max_episode_steps == 199 and environment.task_description == "Reach the target."
    assert environment.step(environment.action_space.sample())[4]["is_success"] is False
    environment.close()


def test_the_lerobot_package_names_the_twin_and_parses(tmp_path):
    code, out, _ = twinloop_command(
        "twin", "export", tmp_path / "out", "--to", "lerobot-env", "--twin", "franka_reach", "--cameras", "front"
    )  # fmt: skip
    assert code == 0 and "wrote franka_reach for lerobot-env" in out
    package = tmp_path / "out/lerobot_env_franka_reach"
    ast.parse((package / "__init__.py").read_text())
    assert tl.load_twin(package / "twin").content_hash == tl.load_twin("franka_reach").content_hash
    tl.load_randomization(package / "randomization.yaml")
    project = tomllib.loads((tmp_path / "out/pyproject.toml").read_text())
    assert project["project"]["name"] == package.name


def test_the_vla_eval_config_names_the_twin(tmp_path):
    tl.export_twin(tl.load_twin("franka_reach"), "vla-eval", tmp_path / "out")
    (entry,) = yaml.safe_load((tmp_path / "out/vla_eval.yaml").read_text())["benchmarks"]
    assert tl.load_twin(entry["params"]["twin"]).name == "franka_reach" and entry["max_steps"] == 199


def test_an_export_is_whole_or_not_there(tmp_path):
    twin = tl.load_twin("franka_reach")
    with pytest.raises(UnknownName, match=r"lerobot-env, .*vla-eval"):
        tl.export_twin(twin, "openpi", tmp_path / "out")
    with pytest.raises(UnknownName, match="camera"):
        tl.export_twin(twin, "vla-eval", tmp_path / "out", cameras=["side"])
    assert not list(tmp_path.iterdir())
    (tmp_path / "out").mkdir()
    with pytest.raises(WrongUse, match="exists already"):
        tl.export_twin(twin, "vla-eval", tmp_path / "out")


def in_peer(peer, program, *words, path):
    """Run an unmodified program of a peer's environment, with Twinloop and `path` to import from."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{path}",
        "HF_HUB_OFFLINE": "1",
        "MUJOCO_GL": "egl",
    }
    command = [peer.venv / "bin" / program, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900, cwd=path)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
def test_lerobot_eval_tries_its_own_policy_in_a_twin(tmp_path):
    peer = Peer("LeRobot", "lerobot")
    if not (peer.venv / "bin/lerobot-eval").exists():
        pytest.skip("LeRobot is not installed: make .venv-lerobot")
    tl.export_twin(tl.load_twin("franka_reach"), "lerobot-env", tmp_path / "package", cameras=["front"])
    in_peer(peer, "python", HERE / "elsewhere/make_act.py", tmp_path / "act", path=tmp_path)
    in_peer(
        peer, "lerobot-eval", f"--policy.path={tmp_path / 'act'}", "--policy.device=cpu",
        "--env.type=franka_reach", "--env.discover_packages_path=lerobot_env_franka_reach",
        "--eval.n_episodes=2", "--eval.batch_size=2", f"--output_dir={tmp_path / 'out'}",
        path=tmp_path / "package",
    )  # fmt: skip
    found = json.loads((tmp_path / "out/eval_info.json").read_text())
    assert found["overall"]["n_episodes"] == 2 and found["overall"]["pc_success"] == 0.0
    assert len(list((tmp_path / "out/videos").rglob("*.mp4"))) == 2


@pytest.mark.slow
def test_vla_eval_tries_a_policy_server_in_a_twin(tmp_path):
    peer = Peer("vla-eval", "vla_eval")
    if reason := peer.install():
        pytest.skip(reason)
    tl.export_twin(tl.load_twin("franka_reach"), "vla-eval", tmp_path / "bench")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = [peer.venv / "bin/python", HERE / "elsewhere/serve_still.py", "--address", f"127.0.0.1:{port}"]
    with subprocess.Popen(server, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            in_peer(
                peer, "vla-eval", "run", "--config", tmp_path / "bench/vla_eval.yaml",
                "--server-url", f"ws://127.0.0.1:{port}", "--benchmark-field", "episodes_per_task=2",
                "--output-dir", tmp_path / "out", path=tmp_path,
            )  # fmt: skip
        finally:
            process.terminate()
    (aggregate,) = (tmp_path / "out").glob("*_aggregate.json")
    assert aggregate.name == "franka_reach_aggregate.json"
    (task,) = json.loads(aggregate.read_text())["tasks"]
    assert [episode["steps"] for episode in task["episodes"]] == [199, 199]
