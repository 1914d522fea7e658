"""Runs where LeRobot is: an ACT policy that has learned nothing, saved as LeRobot saves checkpoints."""

import sys

import torch
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy
from lerobot.policies.factory import make_pre_post_processors

SIZES = {"observation.state": 8, "observation.environment_state": 3, "action": 8}
TYPES = {"observation.state": FeatureType.STATE, "observation.environment_state": FeatureType.ENV}


def main() -> None:
    torch.manual_seed(0)
    config = ACTConfig(
        input_features={name: PolicyFeature(kind, (SIZES[name],)) for name, kind in TYPES.items()},
        output_features={"action": PolicyFeature(FeatureType.ACTION, (SIZES["action"],))},
        chunk_size=20,
        n_action_steps=20,
        dim_model=64,
        n_heads=2,
        dim_feedforward=64,
        n_encoder_layers=1,
        device="cpu",
        push_to_hub=False,
    )
    ACTPolicy(config).save_pretrained(sys.argv[1])
    ends = {"mean": torch.zeros, "std": torch.ones, "min": torch.zeros, "max": torch.ones}
    stats = {name: {what: make(size) for what, make in ends.items()} for name, size in SIZES.items()}
    for processor in make_pre_post_processors(config, dataset_stats=stats):
        processor.save_pretrained(sys.argv[1])


if __name__ == "__main__":
    main()
