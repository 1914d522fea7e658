"""Apply an exported randomization to ManiSkill's own Panda and a cube, and print what SAPIEN then holds.

Both are built without what one sees, because that needs a graphics card.

write_quantities.py RANDOMIZATION.py VALUES.json
"""

import importlib.util
import json
import re
import sys
import tempfile
from pathlib import Path

import gymnasium
import numpy as np
import sapien
from mani_skill import PACKAGE_ASSET_DIR
from mani_skill.agents.base_agent import BaseAgent
from mani_skill.agents.controllers import PDJointPosControllerConfig
from mani_skill.agents.registration import register_agent
from mani_skill.envs.sapien_env import BaseEnv
from mani_skill.utils.registration import register_env

JOINTS = [f"panda_joint{i}" for i in range(1, 8)]
FOLDER = tempfile.mkdtemp()


def bare_panda() -> str:
    """The Panda's URDF without visuals."""
    source = Path(PACKAGE_ASSET_DIR) / "robots/panda/panda_v2.urdf"
    text = re.sub(r"<visual>.*?</visual>", "", source.read_text(), flags=re.DOTALL)
    text = re.sub(r'filename="(?!/)', f'filename="{source.parent}/', text)
    file = Path(FOLDER) / "panda.urdf"
    file.write_text(text)
    return str(file)


@register_agent()
class BarePanda(BaseAgent):
    uid = "bare_panda"
    urdf_path = bare_panda()

    @property
    def _controller_configs(self):
        return {"pd_joint_pos": {"arm": PDJointPosControllerConfig(JOINTS, None, None, 1e3, 1e2, 100.0)}}


@register_env("TwinCell-v1", max_episode_steps=50)
class Cell(BaseEnv):
    SUPPORTED_ROBOTS = ("bare_panda",)

    def __init__(self, *args, robot_uids="bare_panda", **kwargs):
        super().__init__(*args, robot_uids=robot_uids, **kwargs)

    def _load_scene(self, options):
        builder = self.scene.create_actor_builder()
        builder.add_box_collision(half_size=[0.02] * 3)
        builder.initial_pose = sapien.Pose([0.5, 0, 0.02])
        builder.build(name="cube")

    def _initialize_episode(self, env_idx, options):
        self.agent.reset(np.zeros(self.agent.robot.max_dof))

    def evaluate(self):
        return {}

    def _get_obs_extra(self, info):
        return {}


def main(code: str, values_file: str) -> None:
    spec = importlib.util.spec_from_file_location("randomization", code)
    randomization = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(randomization)
    randomization.NAMES.update({f"joint{i}": f"panda_joint{i}" for i in range(1, 8)}, object="cube")
    randomization.ENTITIES["object"] = "cube"
    env = gymnasium.make(
        "TwinCell-v1",
        obs_mode="state",
        reward_mode="none",
        sim_backend="physx_cpu",
        render_backend="none",
        num_envs=1,
    )
    env.reset(seed=0)
    cube = body(env)
    before = np.array(cube.inertia)
    values = {name: np.array(v)[:1] for name, v in json.loads(Path(values_file).read_text()).items()}
    randomization.write(env, values)
    joints = env.unwrapped.agent.robot.joints_map
    held = {f"joint{i}": joints[f"panda_joint{i}"]._objs[0] for i in range(1, 8)}
    shape = cube.collision_shapes[0].physical_material
    found = {
        "joints": {
            name: [float(j.armature[0]), j.stiffness, j.damping, j.force_limit] for name, j in held.items()
        },
        "mass_kg": cube.mass,
        "inertia_ratio": (np.array(cube.inertia) / before).tolist(),
        "com_m": np.array(cube.cmass_local_pose.p).tolist(),
        "friction": [shape.static_friction, shape.dynamic_friction],
    }
    draws = [randomization.randomize_twin(env, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    for _ in range(20):
        env.step(env.action_space.sample() * 0.0)
    found["repeats"] = all(np.array_equal(draws[0][n], draws[1][n]) for n in draws[0])
    found["differs"] = any(not np.array_equal(draws[0][n], draws[2][n]) for n in draws[0])
    print(json.dumps(found))


def body(env):
    """The cube's physics."""
    return (
        env.unwrapped.scene.actors["cube"]
        ._objs[0]
        .find_component_by_type(sapien.physx.PhysxRigidDynamicComponent)
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
