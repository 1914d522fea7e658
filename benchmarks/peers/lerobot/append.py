"""Go on recording with LeRobot in a dataset that is there already, then open the whole of it again.

    python append.py DATASET_DIR --episodes 2 --frames 15

Runs inside the virtualenv made by install.sh, without network. Prints how many episodes and frames LeRobot then finds.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import warnings
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"
warnings.filterwarnings("ignore", message="Failed to load image Python extension")


def record(root: Path, episodes: int, frames: int) -> None:
    import numpy as np
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("local/append", root=root)
    automatic = {"timestamp", "frame_index", "episode_index", "index", "task_index"}
    for _ in range(episodes):
        for row in range(frames):
            frame = {
                name: np.full(feature["shape"], row, feature["dtype"])
                for name, feature in dataset.features.items()
                if name not in automatic
            }
            dataset.add_frame(frame | {"task": "continue"})
        dataset.save_episode()
    dataset.finalize()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--episodes", type=int, default=2)
    parser.add_argument("--frames", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lerobot-append-", ignore_cleanup_errors=True) as cache:
        os.environ["HF_DATASETS_CACHE"] = cache
        from lerobot.datasets.lerobot_dataset import LeRobotDataset

        record(arguments.dataset, arguments.episodes, arguments.frames)
        dataset = LeRobotDataset("local/append", root=arguments.dataset)
        assert len(dataset.hf_dataset) == len(dataset)
        print(json.dumps({"episodes": dataset.num_episodes, "frames": dataset.num_frames}))


if __name__ == "__main__":
    main()
