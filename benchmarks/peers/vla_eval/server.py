"""A model server of vla-eval; prints its address, and serves until it is ended."""

import json

import anyio
import numpy as np
from vla_eval.model_servers.predict import PredictModelServer
from vla_eval.model_servers.serve import serve_async
from vla_eval.specs import DimSpec


class Affine(PredictModelServer):
    """Actions from state, image and task, and the step within the episode, so that each is seen to arrive."""

    def predict(self, obs, ctx):
        if "states" not in obs:
            raise KeyError("states")
        image = obs["images"]["front"]
        assert image.dtype == np.uint8
        return {
            "actions": np.array([obs["states"].sum(), image.mean(), len(obs["task_description"]), ctx.step])
        }

    def get_action_spec(self):
        return {"joints": DimSpec("joints", 4, "joint_positions")}

    def get_observation_spec(self):
        return {"state": DimSpec("state", 2, "joint_positions")}


async def main():
    async with anyio.create_task_group() as group:
        port = await group.start(serve_async, Affine(), "127.0.0.1", 0)
        print(json.dumps({"policy": f"vla-eval:ws://127.0.0.1:{port}"}), flush=True)


anyio.run(main)
