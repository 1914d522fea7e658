"""Run an exported randomization as an event of an mjlab environment, and print the fields that it wrote.

write_fields.py MODEL.xml RANDOMIZATION.py VALUES.json
"""

import importlib.util
import json
import sys
from pathlib import Path

import mujoco
import torch
from mjlab.actuator.xml_actuator import XmlActuatorCfg
from mjlab.entity import EntityArticulationInfoCfg, EntityCfg
from mjlab.envs import ManagerBasedRlEnv, ManagerBasedRlEnvCfg
from mjlab.envs.mdp import joint_pos_rel, time_out
from mjlab.envs.mdp.actions import JointEffortActionCfg
from mjlab.managers.observation_manager import ObservationGroupCfg, ObservationTermCfg
from mjlab.managers.reward_manager import RewardTermCfg
from mjlab.managers.termination_manager import TerminationTermCfg
from mjlab.scene import SceneCfg

ENVIRONMENTS = 64


def main(model_file: str, code: str, values_file: str) -> None:
    spec = importlib.util.spec_from_file_location("randomization", code)
    randomization = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(randomization)
    env = ManagerBasedRlEnv(cfg=make_config(model_file, randomization.EVENTS), device="cpu")
    env.reset()
    drawn = fields(env, randomization)
    values = {name: torch.tensor(v) for name, v in json.loads(Path(values_file).read_text()).items()}
    count = len(next(iter(values.values())))
    randomization.write(env, torch.arange(count), values)
    written = {name: rows[:count] for name, rows in fields(env, randomization).items()}
    print(json.dumps({"written": written, "drawn": drawn}))


def fields(env, randomization) -> dict:
    """Rows of each field that the exported code names, in its order."""
    found = {}
    for name in randomization.FIELDS:
        rows = randomization.find_rows(env.sim.mj_model, name)
        found[name] = getattr(env.sim.model, name)[:, rows].tolist()
    return found


def make_config(model_file: str, events: dict) -> ManagerBasedRlEnvCfg:
    """An environment that does nothing but step the twin's model."""
    spec = mujoco.MjSpec.from_file(model_file)
    actuator = spec.actuators[0]
    robot = EntityCfg(
        spec_fn=lambda: mujoco.MjSpec.from_file(model_file),
        articulation=EntityArticulationInfoCfg(
            actuators=(XmlActuatorCfg(target_names_expr=(actuator.target,)),)
        ),
    )
    return ManagerBasedRlEnvCfg(
        decimation=2,
        scene=SceneCfg(num_envs=ENVIRONMENTS, entities={"robot": robot}),
        actions={
            "effort": JointEffortActionCfg(entity_name="robot", actuator_names=(actuator.target,), scale=1.0)
        },
        observations={"actor": ObservationGroupCfg(terms={"joints": ObservationTermCfg(func=joint_pos_rel)})},
        rewards={
            "none": RewardTermCfg(func=lambda env: torch.zeros(env.num_envs, device=env.device), weight=1.0)
        },
        terminations={"time_out": TerminationTermCfg(func=time_out, time_out=True)},
        events=dict(events),
        episode_length_s=1.0,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
