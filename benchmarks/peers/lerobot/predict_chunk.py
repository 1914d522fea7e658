"""A checkpoint as LeRobot itself runs it: `predict_chunk.py CHECKPOINT OBSERVATIONS.npz` prints the chunk of each row as JSON."""

import json
import sys

import numpy as np
import torch
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from lerobot.policies.utils import prepare_observation_for_inference

checkpoint, observations = sys.argv[1], np.load(sys.argv[2])
config = PreTrainedConfig.from_pretrained(checkpoint)
config.device = "cpu"
policy = get_policy_class(config.type).from_pretrained(checkpoint, config=config)
before, after = make_pre_post_processors(config, checkpoint)
chunks = []
for row in range(len(observations[observations.files[0]])):
    policy.reset()
    observation = {name: observations[name][row] for name in observations.files}
    batch = before(prepare_observation_for_inference(observation, torch.device("cpu"), "", ""))
    actions = []
    for _ in range(
        config.n_action_steps
    ):  # as in an episode: the chunk is kept, and given one action at a time
        actions.append(after(policy.select_action(dict(batch)))[0].tolist())
    chunks.append(actions)
print(json.dumps({"chunks": chunks}))
