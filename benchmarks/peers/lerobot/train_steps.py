"""Train LeRobot's ACT policy for a few steps on a dataset, through LeRobot's own training function.

    python train_steps.py DATASET_DIR [--steps 4]

Runs inside the virtualenv made by install.sh, on the CPU and without network. The policy is ACT with a small
transformer and an untrained backbone; the dataset, the normalization from its statistics, the sampler and the
loop are LeRobot's. Prints one JSON object and exits 1 if a loss or a gradient is not finite.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import sys
import tempfile
import warnings
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"
warnings.filterwarnings("ignore", message="Failed to load image Python extension")

CHUNK = 16


def train(root: Path, steps: int, batch_size: int) -> dict:
    from lerobot.configs.default import DatasetConfig
    from lerobot.configs.train import TrainPipelineConfig
    from lerobot.policies.act.configuration_act import ACTConfig
    from lerobot.scripts import lerobot_train

    history, seen = [], {}
    update_policy = lerobot_train.update_policy

    def recorded(tracker, policy, batch, *rest, **options):
        tracker, output = update_policy(tracker, policy, batch, *rest, **options)
        history.append({"loss": tracker.loss.val, "grad_norm": tracker.grad_norm.val})
        seen.update({key: list(value.shape) for key, value in batch.items() if hasattr(value, "shape")})
        return tracker, output

    policy = ACTConfig(
        chunk_size=CHUNK,
        n_action_steps=CHUNK,
        pretrained_backbone_weights=None,
        dim_model=32,
        n_heads=2,
        dim_feedforward=64,
        n_encoder_layers=1,
        n_vae_encoder_layers=1,
        latent_dim=8,
        device="cpu",
        push_to_hub=False,
    )
    lerobot_train.update_policy = recorded
    with tempfile.TemporaryDirectory(prefix="lerobot-train-") as folder:
        config = TrainPipelineConfig(
            dataset=DatasetConfig(repo_id="local/train", root=str(root)),
            policy=policy,
            output_dir=Path(folder) / "run",
            steps=steps,
            batch_size=batch_size,
            num_workers=0,
            eval_freq=0,
            save_checkpoint=False,
        )
        lerobot_train.train(config)
    return {"steps": history, "batch": seen}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=4)
    arguments = parser.parse_args()
    sys.argv = sys.argv[:1]  # LeRobot reads the command line again

    import torch

    torch.set_num_threads(1)
    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory(prefix="lerobot-cache-", ignore_cleanup_errors=True) as cache:
        os.environ.setdefault("HF_DATASETS_CACHE", cache)
        result = train(arguments.dataset, arguments.steps, arguments.batch_size)
    numbers = [number for step in result["steps"] for number in step.values()]
    result["ok"] = len(result["steps"]) == arguments.steps and all(math.isfinite(n) for n in numbers)
    print(json.dumps(result, indent=2))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
