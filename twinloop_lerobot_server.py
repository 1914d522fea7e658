"""Serve a LeRobot checkpoint by openpi's WebSocket protocol: `python -m twinloop_lerobot_server CHECKPOINT --port 8000`.

This file runs in LeRobot's environment and needs nothing of Twinloop: copy it there, and `pip install msgpack websockets`. Written for
LeRobot 0.4.4 (`make_pre_post_processors`, `predict_action_chunk`, `select_action`).

A client gets metadata when it connects, and actions in the dataset's units for each request: one dictionary with the checkpoint's own
names, `observation.state` (size,), `observation.images.CAMERA` (height, width, 3) uint8, and `prompt` for policies that take a task.
`reset: SEED` begins an episode; a policy that keeps nothing between calls takes `batch: N` beside arrays with a first axis of N. A
policy that looks at several steps, or smooths over chunks, gives one action at a time, and serves one client at a time.

Messages are bounded and hold numbers only; nothing is unpickled. Other machines are let in with a token in TWINLOOP_POLICY_TOKEN.
"""

import argparse
import contextlib
import hashlib
import hmac
import json
import os
import re
import signal
import sys
import threading
import time
from math import prod
from pathlib import Path

import msgpack
import numpy as np
import torch
from lerobot import __version__ as lerobot_version
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve

TOKEN = "TWINLOOP_POLICY_TOKEN"
MIN_TOKEN_CHARACTERS = 16
MAX_BATCH = 256
MAX_CLIENTS = 32
SPARE_BYTES = 1 << 16
NUMBERS = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248])")


class BadRequest(Exception):
    """What a client sent is no observation; the message says why."""


class Checkpoint:
    """A policy with its processors, asked by one thread at a time."""

    def __init__(self, folder: Path, device: str, dataset: Path | None) -> None:
        self.config = PreTrainedConfig.from_pretrained(folder)
        self.config.device = device
        self.policy = get_policy_class(self.config.type).from_pretrained(folder, config=self.config)
        self.before, self.after = make_pre_post_processors(
            self.config, str(folder), preprocessor_overrides={"device_processor": {"device": device}}
        )
        steps = getattr(self.config, "n_obs_steps", 1)
        self.by_step = steps > 1 or getattr(self.config, "temporal_ensemble_coeff", None) is not None
        self.stateless = not self.by_step and self.config.type == "act"  # others draw noise
        self.images = {
            name: f.shape for name, f in self.config.input_features.items() if "VISUAL" in str(f.type)
        }
        self.numbers = {
            name: f.shape for name, f in self.config.input_features.items() if name not in self.images
        }
        self.lock = threading.Lock()
        self.policy.reset()
        blank = {name: np.zeros(shape, np.float32) for name, shape in self.numbers.items()}
        blank |= {name: np.zeros((*shape[1:], shape[0]), np.uint8) for name, shape in self.images.items()}
        chunk = self.act(blank | {"prompt": ""}, 0)
        self.policy.reset()
        self.metadata = self._describe(folder, dataset, len(chunk))

    @property
    def max_message_bytes(self) -> int:
        """The longest message that the policy has any use for."""
        one = sum(8 * prod(shape) for shape in self.numbers.values()) + sum(map(prod, self.images.values()))
        return SPARE_BYTES + one * (
            MAX_BATCH if self.stateless and not self.images else 16 if self.stateless else 1
        )

    def act(self, request: dict, seed: int) -> np.ndarray:
        """Actions (T, A), or (N, T, A) for a batch, in the dataset's units."""
        count = request.get("batch") if self.stateless else None
        if count is not None and (type(count) is not int or not 1 <= count <= MAX_BATCH):
            raise BadRequest(f"batch: expected a whole number from 1 to {MAX_BATCH}")
        batch = self._read(request, count)
        with self.lock, torch.inference_mode():
            torch.manual_seed(seed)
            batch = self.before(batch)
            chunk = (
                self.policy.select_action(batch)[:, None]
                if self.by_step
                else self.policy.predict_action_chunk(batch)
            )
            actions = self.after(chunk.reshape(-1, chunk.shape[-1])).reshape(*chunk.shape[:2], -1)
        found = np.asarray(actions.to("cpu", torch.float32).numpy())
        if not np.isfinite(found).all():
            raise BadRequest("the policy's actions are not finite")
        return found if count is not None else found[0]

    def _read(self, request: dict, count: int | None) -> dict:
        """The tensors that the policy's processors take, with a first axis of episodes."""
        first, batch = () if count is None else (count,), {}
        for name, shape in self.numbers.items():
            values = require_array(request, name, "fiub", (*first, *shape)).astype(np.float32)
            if not np.isfinite(values).all():
                raise BadRequest(f"{name} is not finite")
            batch[name] = torch.from_numpy(values.reshape(count or 1, *shape))
        for name, (channels, height, width) in self.images.items():
            frames = require_array(request, name, "u", (*first, height, width, channels))
            tensor = torch.from_numpy(frames.reshape(count or 1, height, width, channels).copy())
            batch[name] = tensor.permute(0, 3, 1, 2).contiguous().to(torch.float32) / 255
        task = request.get("prompt", "")
        tasks = task if isinstance(task, list) else [task] * (count or 1)
        if len(tasks) != (count or 1) or not all(isinstance(text, str) for text in tasks):
            raise BadRequest("prompt: expected text")
        return {**batch, "task": tasks, "robot_type": ""}

    def _describe(self, folder: Path, dataset: Path | None, chunk: int) -> dict:
        """What a client gets when it connects; names and rate come from the dataset that the checkpoint was trained on."""
        info = read_dataset_info(folder, dataset)
        features = info.get("features", {})

        def vector(name: str, shape: tuple[int, ...]) -> dict:
            names = features.get(name, {}).get("names") or []
            elements = (
                [str(one) for one in names] if isinstance(names, list) and len(names) == prod(shape) else []
            )
            return {"size": prod(shape), "elements": elements, "units": []}

        return {
            "server": f"lerobot {lerobot_version}",
            "name": f"{self.config.type}-{fingerprint(folder)[:6]}",
            "id": fingerprint(folder),
            "robot_type": str(info.get("robot_type") or "unknown"),
            "rate_hz": info.get("fps"),
            "observations": {name: vector(name, shape) for name, shape in self.numbers.items()},
            "history": [0],
            "cameras": {name: {"height": shape[1], "width": shape[2]} for name, shape in self.images.items()},
            "actions": vector("action", tuple(self.config.output_features["action"].shape)),
            "chunk": chunk,
            "n_action_steps": 1
            if self.by_step
            else min(chunk, getattr(self.config, "n_action_steps", chunk)),
            "stateful": not self.stateless,
            "accepts": ["reset", "batch"] if self.stateless else ["reset"],
        }


class Server:
    """Answers clients, each in a thread of its own."""

    def __init__(self, checkpoint: Checkpoint, token: str) -> None:
        self.checkpoint, self.token, self.clients = checkpoint, token, 0
        self.room = 1 if checkpoint.by_step else MAX_CLIENTS

    def admit(self, connection, request):
        """Answer health checks, and refuse clients without the token; None lets a client in."""
        if request.path == "/healthz":
            return connection.respond(200, "OK\n")
        given, expected = request.headers.get("Authorization") or "", f"Api-Key {self.token}"
        if self.token and not hmac.compare_digest(given.encode(errors="replace"), expected.encode()):
            return connection.respond(401, f"the token is wrong or missing: set {TOKEN}\n")
        if self.clients >= self.room:
            return connection.respond(503, f"{self.room} clients already\n")
        return None

    def attend(self, connection) -> None:
        """Answer one client until it hangs up."""
        self.clients += 1
        try:
            if self.clients > self.room:
                return
            if self.checkpoint.by_step:
                self.checkpoint.policy.reset()
            self._talk(connection)
        except ConnectionClosed:
            pass
        finally:
            self.clients -= 1

    def _talk(self, connection) -> None:
        connection.send(msgpack.packb(self.checkpoint.metadata))
        seed = asked = 0
        for message in connection:
            try:
                request = unpack(message)
                if "reset" in request:
                    seed, asked = request.pop("reset"), 0
                    if type(seed) is not int or not 0 <= seed < 2**63:
                        raise BadRequest("reset: expected a seed from 0 to 2**63 - 1")
                    if self.checkpoint.by_step:
                        self.checkpoint.policy.reset()
                    if not request:
                        connection.send(msgpack.packb({"reset": True}))
                        continue
                began = time.perf_counter()
                drawn = hashlib.blake2b(f"{seed} {asked}".encode(), digest_size=7).digest()
                actions = self.checkpoint.act(request, int.from_bytes(drawn, "big"))
                asked += 1
                timing = {"infer_ms": 1e3 * (time.perf_counter() - began)}
                connection.send(msgpack.packb({"actions": pack_array(actions), "server_timing": timing}))
            except BadRequest as error:
                connection.send(str(error))
            except (RuntimeError, ValueError, KeyError, TypeError, IndexError) as error:  # the policy's own
                connection.send(f"the policy failed: {type(error).__name__}: {str(error).splitlines()[0:1]}")


def unpack(message: bytes | str) -> dict:
    """A request: a dictionary by name, with arrays of numbers."""
    if not isinstance(message, bytes):
        raise BadRequest("expected a msgpack dictionary of arrays and text by name")
    try:
        found = msgpack.unpackb(
            message,
            object_hook=read_array,
            max_array_len=4096,
            max_map_len=256,
            max_ext_len=0,
            strict_map_key=True,
        )
    except BadRequest:
        raise
    except (ValueError, TypeError, KeyError, RecursionError, msgpack.UnpackException) as error:
        raise BadRequest(f"a message cannot be read: {type(error).__name__}") from error
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise BadRequest("expected a msgpack dictionary of arrays and text by name")
    return found


def read_array(found: dict):
    """The array that a map stands for, or the map; sizes are checked against the bytes that came."""
    if b"__ndarray__" not in found:
        return found
    data, dtype, shape = found.get(b"data"), found.get(b"dtype"), found.get(b"shape")
    if not isinstance(dtype, str) or not NUMBERS.fullmatch(dtype) or not isinstance(data, bytes):
        raise BadRequest("an array is not made of numbers")
    if (
        not isinstance(shape, list)
        or len(shape) > 6
        or not all(type(size) is int and size >= 0 for size in shape)
    ):
        raise BadRequest("an array has no shape")
    if prod(shape) * np.dtype(dtype).itemsize != len(data):
        raise BadRequest("an array has another size than its shape says")
    return np.frombuffer(data, dtype).reshape(shape)


def pack_array(array: np.ndarray) -> dict:
    """An array as openpi writes it."""
    array = np.ascontiguousarray(array)
    return {b"__ndarray__": True, b"data": array.tobytes(), b"dtype": array.dtype.str, b"shape": array.shape}


def require_array(request: dict, name: str, kinds: str, shape: tuple[int, ...]) -> np.ndarray:
    """The array of this name, of the shape that the policy takes."""
    values = request.get(name)
    if not isinstance(values, np.ndarray) or values.dtype.kind not in kinds or values.shape != shape:
        got = f"{values.dtype} {values.shape}" if isinstance(values, np.ndarray) else type(values).__name__
        raise BadRequest(f"{name}: got {got}, expected {'uint8' if kinds == 'u' else 'numbers'} {shape}")
    return values


def read_dataset_info(folder: Path, dataset: Path | None) -> dict:
    """`meta/info.json` of the dataset, which says names and rate; found by the checkpoint's train_config.json unless given."""
    if dataset is None:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            dataset = Path(json.loads((folder / "train_config.json").read_text())["dataset"]["root"])
    if dataset is None or not (dataset / "meta/info.json").is_file():
        return {}
    return json.loads((dataset / "meta/info.json").read_text())


def fingerprint(folder: Path) -> str:
    """A hash of the files that decide how the policy acts."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(folder.glob("*")):
        if path.suffix in (".json", ".safetensors") and path.name != "train_config.json":
            digest.update(path.name.encode() + hashlib.blake2b(path.read_bytes()).digest())
    return digest.hexdigest()


def main() -> int:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="twinloop_lerobot_server", description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path, help="folder with config.json and model.safetensors")
    parser.add_argument("--port", type=int, default=8000, help="0 picks one")
    parser.add_argument("--host", default="127.0.0.1", help="another than this machine's own needs a token")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dataset", type=Path, help="folder of the dataset, for names and rate")
    options, token = parser.parse_args(), os.environ.get(TOKEN, "")
    if not (options.checkpoint / "config.json").is_file():
        parser.error(
            f"{options.checkpoint} is no checkpoint: expected a folder with config.json (.../pretrained_model)"
        )
    if token and len(token) < MIN_TOKEN_CHARACTERS:
        parser.error(f"the token in {TOKEN} is too short: expected {MIN_TOKEN_CHARACTERS} characters or more")
    if options.host not in ("127.0.0.1", "::1", "localhost") and not token:
        parser.error(f"other machines are let in with a token only: export {TOKEN}=$(openssl rand -hex 16)")
    checkpoint = Checkpoint(options.checkpoint, options.device, options.dataset)
    server = Server(checkpoint, token)
    with serve(
        server.attend, options.host, options.port, process_request=server.admit, origins=[None], compression=None,
        max_size=checkpoint.max_message_bytes, max_queue=2, open_timeout=5.0, ping_interval=60.0, ping_timeout=300.0,
    ) as listener:  # fmt: skip
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: threading.Thread(target=listener.shutdown).start())
        address = f"ws://{options.host}:{listener.socket.getsockname()[1]}"
        said = {
            "policy": f"openpi:{address}",
            "name": checkpoint.metadata["name"],
            "id": checkpoint.metadata["id"],
        }
        print(json.dumps(said), flush=True)
        listener.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
