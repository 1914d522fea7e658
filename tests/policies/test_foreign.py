"""Other people's code, unmodified and in environments of its own, on the other side of the wire."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers import lerobot, openpi, vla_eval
from tests.policies.servers import make_certificate, started
from tests.policies.test_packing import CORPUS
from tests.policies.test_serve import SECRET, ask, dial
from tests.terminal import twinloop
from tests.test_docs import BLOCK
from twinloop.errors import PolicyGone
from twinloop.policies.backends.protocol import open_backend
from twinloop.policies.backends.websocket import TOKEN
from twinloop.policies.latency import draw_observations

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/serve.md"
IMAGE = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)


def installed(peer):
    if reason := peer.install():
        pytest.skip(reason)
    return peer


def test_openpis_client_runs_our_policy(tiny_policy, tmp_path):
    peer = installed(openpi.PEER)
    folder, states = tiny_policy.save(tmp_path / "tiny"), tmp_path / "states.npz"
    observation = draw_observations(tiny_policy.interface, len(tiny_policy.execution.history), 4)
    np.savez(states, **observation)
    command = [sys.executable, "-m", "twinloop", "serve", str(folder), "--port", "0", "--json"]
    with started(command, env=os.environ | {TOKEN: SECRET}) as said:
        answer = peer.run("client.py", said["policy"].removeprefix("openpi:"), states, SECRET)
    tiny_policy.reset(0, real=True)
    expected = [
        tiny_policy.infer({name: values[row] for name, values in observation.items()}) for row in range(4)
    ]
    assert np.array_equal(np.array(answer["chunks"], np.float32), expected), "bit by bit"
    assert np.array_equal(np.array(answer["again"], np.float32), expected[0])
    assert answer["metadata"]["id"] == tiny_policy.id and answer["infer_ms"] > 0
    assert len(answer["errors"]) == 1 and "the policy observes something else" in answer["errors"][0]


def test_our_backend_asks_a_server_with_openpis_encoding():
    peer = installed(openpi.PEER)
    with started([peer.venv / "bin/python", openpi.__path__[0] + "/server.py"]) as said:
        backend = open_backend(said["policy"])
        assert backend.metadata == {"model": "affine", "reset_pose": [0.0, 0.5], "action_dim": 2}
        backend.reset(3, "pick")
        state = np.array([1.0, 2.0], np.float32)
        answer = backend.infer({"observation/state": state, "observation/image": IMAGE, "prompt": "pick"})
        assert np.array_equal(answer["actions"], np.array([7, IMAGE.mean()]) + np.arange(3)[:, None])
        assert np.array_equal(answer["state"], state)
        many = backend.infer_batch(
            {
                "observation/state": np.tile(state, (50, 1)) + np.arange(50, dtype=np.float32)[:, None],
                "observation/image": np.tile(IMAGE, (50, 1, 1, 1)),
                "prompt": ["pick"] * 50,
            }
        )
        assert np.array_equal(many["actions"][:, 0, 0], 7 + 2.0 * np.arange(50))
        with pytest.raises(PolicyGone, match="the server reports an error: KeyError: 'prompt'"):
            backend.infer({"observation/state": state, "observation/image": IMAGE})
        backend.reset(4, "pick")
        assert (
            backend.infer({"observation/state": state, "observation/image": IMAGE, "prompt": ""})[
                "actions"
            ].size
            == 6
        )
        backend.close()


def test_our_backend_asks_a_model_server_of_vla_eval():
    peer = installed(vla_eval.PEER)
    ask = {"images/front": IMAGE, "states": np.array([1.0, 2.0], np.float32), "task_description": "pick"}
    with started([peer.venv / "bin/python", vla_eval.__path__[0] + "/server.py"]) as said:
        first = open_backend(said["policy"])
        second = first.open_session()
        assert first.metadata["model_server"] == "Affine" and first.fingerprint == second.fingerprint
        steps = []
        for backend, seed in ((first, 0), (second, 1)):
            backend.reset(seed, "pick")
        for backend in (first, first, second):
            actions = backend.infer(ask)["actions"]
            assert np.allclose(actions[0, :3], [3.0, IMAGE.mean(), 4.0])
            steps.append(int(actions[0, 3]))
        assert steps == [0, 1, 0], "each connection counts its own episode"
        with pytest.raises(PolicyGone, match="observation_failed: KeyError"):
            first.infer({"images/front": IMAGE})
        first.reset(2, "pick")
        assert first.infer(ask)["actions"][0, 3] == 0
        first.close()
        second.close()


@pytest.fixture(scope="module")
def act_checkpoint(tmp_path_factory):
    """An ACT policy that LeRobot trained for a few steps on episodes of ours."""
    if reason := lerobot.install():
        pytest.skip(reason)
    from twinloop.generation.run import generate

    folder = tmp_path_factory.mktemp("lerobot")
    (folder / "cell.yaml").write_text(
        "twin: franka_pick_place\nrandomization: {environment: {object_offset_x_m: [-0.05, 0.05]}}\n"
    )
    generate(folder / "cell.yaml", out=folder / "sim", episodes=3, seed=3, workers=1)
    lerobot.train(
        folder, "--dataset.repo_id=local/sim", "--dataset.root=sim", "--policy.type=act", "--policy.device=cpu",
        "--policy.push_to_hub=false", "--policy.chunk_size=50", "--policy.n_action_steps=50", "--output_dir=runs/act",
        "--steps=3", "--batch_size=4", "--num_workers=0", "--eval_freq=0", "--policy.dim_model=32", "--policy.n_heads=2",
        "--policy.dim_feedforward=64",
    )  # fmt: skip
    return folder / "runs/act/checkpoints/last/pretrained_model"


def test_a_lerobot_checkpoint_is_served_from_lerobots_environment(act_checkpoint, tmp_path):
    twinloop("policy", "lerobot-server", "--out", tmp_path / "server.py", cwd=tmp_path)
    python = lerobot.VENV / "bin/python"
    command = [python, tmp_path / "server.py", act_checkpoint, "--port", "0", "--device", "cpu"]
    command += ["--dataset", act_checkpoint.parents[4] / "sim"]  # as on the page
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with started(command, env=environment | {TOKEN: SECRET}, cwd=tmp_path) as said:
        with pytest.MonkeyPatch.context() as patch:
            with pytest.raises(PolicyGone, match="status 401"):
                open_backend(said["policy"])
            patch.setenv(TOKEN, SECRET)
            backend = open_backend(said["policy"])
        metadata = backend.metadata
        assert (metadata["rate_hz"], metadata["chunk"], metadata["stateful"]) == (50, 50, False)
        assert metadata["observations"]["observation.state"]["elements"][:2] == ["joint1.pos", "joint2.pos"]
        assert metadata["actions"]["elements"][-1] == "gripper.target"
        rng = np.random.default_rng(0)
        rows = {
            name: rng.normal(0.0, 0.3, (3, about["size"])).astype(np.float32)
            for name, about in metadata["observations"].items()
        }
        backend.reset(0, "")
        together = backend.infer_batch(rows)["actions"]
        alone = backend.infer({name: values[1] for name, values in rows.items()})["actions"]
        with pytest.raises(PolicyGone, match=r"observation\.state: got NoneType, expected numbers"):
            backend.infer({})
        backend.close()
    np.savez(tmp_path / "rows.npz", **rows)
    expected = np.array(lerobot.run("predict_chunk.py", act_checkpoint, tmp_path / "rows.npz")["chunks"])
    assert np.allclose(together, expected, atol=1e-5) and np.allclose(alone, expected[1], atol=1e-5)


def test_the_messages_of_the_corpus_do_not_end_lerobots_server(act_checkpoint):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [
        lerobot.VENV / "bin/python",
        ROOT / "twinloop_lerobot_server.py",
        act_checkpoint,
        "--port",
        "0",
    ]
    with started(command, env=environment) as said, dial(said["policy"].removeprefix("openpi:")) as client:
        client.recv(timeout=20)
        for message in CORPUS.values():
            assert isinstance(ask(client, message), str)
        assert ask(client, {"reset": 3}) == {"reset": True}


def test_the_commands_of_the_page_serve_a_policy_to_openpis_client(tiny_policy, tmp_path):
    """docs/how-to/serve.md as it stands: its first command, and its Python in openpi's environment; the port is a free one."""
    peer = installed(openpi.PEER)
    tiny_policy.save(tmp_path / "policies/first")
    commands, program = (blocks(kind) for kind in ("sh", "py"))
    assert commands[0] == "twinloop serve policies/first --port 8000\n"
    words = commands[0].replace("8000", "0 --json").split()[1:]
    with started([sys.executable, "-m", "twinloop", *words], cwd=tmp_path) as said:
        port = said["policy"].rpartition(":")[2]
        steps = (len(tiny_policy.execution.history),) if len(tiny_policy.execution.history) > 1 else ()
        zeros = {s.name: (*steps, s.size) for s in tiny_policy.interface.observations}
        script = (
            program[0]
            .replace("8000", port)
            .replace(
                '"observation.state": state',
                f"**{{name: np.zeros(shape, np.float32) for name, shape in {zeros}.items()}}",
            )
        )
        script = f"import warnings\nwarnings.simplefilter('ignore')\nimport numpy as np\n{script}\nprint(chunk.shape, metadata['name'])"
        done = subprocess.run(
            [peer.venv / "bin/python", "-c", script], capture_output=True, text=True, timeout=120
        )
    assert done.stdout.split("\n")[0] == f"({tiny_policy.chunk}, {tiny_policy.interface.action.size}) tiny", (
        done.stderr
    )


def test_the_command_of_the_page_for_other_machines_serves_by_tls(tiny_policy, tmp_path, monkeypatch):
    tiny_policy.save(tmp_path / "policies/first")
    make_certificate(tmp_path, "server")
    _, command = next(block for block in blocks("sh") if "--certificate" in block).strip().splitlines()
    monkeypatch.setenv(TOKEN, SECRET)
    words = f"{command} --port 0 --json".replace("0.0.0.0", "127.0.0.1").split()[1:]
    with started([sys.executable, "-m", "twinloop", *words], cwd=tmp_path) as said:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
        backend = open_backend(said["policy"].replace("127.0.0.1", "localhost"))
        assert backend.metadata["id"] == tiny_policy.id
        backend.close()


def blocks(kind):
    return [text for found, _, text in BLOCK.findall(PAGE.read_text()) if found == kind]
