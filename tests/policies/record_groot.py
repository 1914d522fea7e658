"""Writes corpus/groot/*.msgpack: messages as Isaac GR00T's server and client encode them.

They are made from the encoding in `gr00t/policy/server_client.py` (NVIDIA/Isaac-GR00T, N1.6): msgpack, arrays as
`{"__ndarray_class__": True, "as_npy": <np.save>}`, modality configs as `{"__ModalityConfig_class__": True, "as_json": ...}`; with
msgpack and NumPy alone, so that nothing of Twinloop's checks itself. Run it from the repository: python -m tests.policies.record_groot
"""

import io
from pathlib import Path

import msgpack
import numpy as np

FOLDER = Path(__file__).with_name("corpus") / "groot"


def encode(value):
    if isinstance(value, np.ndarray):
        file = io.BytesIO()
        np.save(file, value, allow_pickle=False)
        return {"__ndarray_class__": True, "as_npy": file.getvalue()}
    return value


def config(delta_indices, keys):
    fields = {"delta_indices": delta_indices, "modality_keys": keys, "sin_cos_embedding_keys": None}
    return {"__ModalityConfig_class__": True, "as_json": fields}


def messages():
    rng = np.random.default_rng(7)
    arm, gripper = rng.normal(size=(2, 16, 5)).astype(np.float32), rng.random((2, 16, 1)).astype(np.float32)
    observation = {
        "video": {"front": (np.arange(2 * 4 * 6 * 3) % 256).astype(np.uint8).reshape(2, 1, 4, 6, 3)},
        "state": {"single_arm": np.arange(10, dtype=np.float32).reshape(2, 1, 5)},
        "language": {"task": [["pick the cube"], ["pick the cube"]]},
    }
    return {
        "ping": {"status": "ok", "message": "Server is running"},
        "config": {
            "video": config([0], ["front"]),
            "state": config([0], ["single_arm", "gripper"]),
            "action": config(list(range(16)), ["single_arm", "gripper"]),
            "language": config([0], ["task"]),
        },
        "request": {"endpoint": "get_action", "data": {"observation": observation, "options": None}},
        "actions": [{"gripper": gripper, "single_arm": arm}, {}],
        "reset": {},
        "unauthorized": {"error": "Unauthorized: Invalid API token"},
        "failed": {"error": "Video key 'front' must be in observation"},
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, message in messages().items():
        (FOLDER / f"{name}.msgpack").write_bytes(msgpack.packb(message, default=encode))
