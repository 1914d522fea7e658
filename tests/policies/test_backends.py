"""Policies in this process: ONNX files, TorchScript files and Python classes, through the same door."""

import sys
import textwrap

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from twinloop.errors import PolicyGone, UnknownName, WrongUse
from twinloop.policies.backends.protocol import open_backend
from twinloop.policies.mapping.certain import find_certain_map
from twinloop.testing.backends import FakeBackend, check_backend


def write_onnx(path, batch="batch", memory=False, metadata=()):
    """actions = obs * [1, 2] (+ h), and h_out = h_in + 1."""
    obs = helper.make_tensor_value_info("obs", TensorProto.FLOAT, [batch, 2])
    made = helper.make_tensor_value_info("actions", TensorProto.FLOAT, [batch, 2])
    weights = numpy_helper.from_array(np.array([1.0, 2.0], np.float32), "w")
    one = numpy_helper.from_array(np.array([[1.0, 1.0]], np.float32), "one")
    nodes = [helper.make_node("Mul", ["obs", "w"], ["scaled"])]
    inputs, outputs = [obs], [made]
    if memory:
        inputs.append(helper.make_tensor_value_info("h_in", TensorProto.FLOAT, [1, 2]))
        outputs.append(helper.make_tensor_value_info("h_out", TensorProto.FLOAT, [1, 2]))
        nodes += [helper.make_node("Add", ["scaled", "h_in"], ["actions"]), helper.make_node("Add", ["h_in", "one"], ["h_out"])]  # fmt: skip
    else:
        nodes.append(helper.make_node("Identity", ["scaled"], ["actions"]))
    model = helper.make_model(
        helper.make_graph(nodes, "policy", inputs, outputs, [weights, one]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )
    for key, value in dict(metadata).items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.save(model, path)
    return f"onnx:{path}"


def test_an_onnx_model_answers_one_and_many(tmp_path):
    backend = open_backend(write_onnx(tmp_path / "p.onnx"))
    assert backend.infer({"obs": np.array([3.0, 4.0])})["actions"].tolist() == [3.0, 8.0]
    many = backend.infer_batch({"obs": np.array([[3.0, 4.0], [5.0, 6.0]])})["actions"]
    assert many.tolist() == [[3.0, 8.0], [5.0, 12.0]]
    assert backend.open_session() is backend, "it keeps nothing between calls"


def test_an_onnx_model_for_one_robot_is_not_asked_about_many(tmp_path):
    backend = open_backend(write_onnx(tmp_path / "p.onnx", batch=1))
    assert not hasattr(backend, "infer_batch")
    assert backend.infer({"obs": np.array([3.0, 4.0])})["actions"].tolist() == [3.0, 8.0]


def test_the_memory_of_a_recurrent_model_is_its_episodes_own(tmp_path):
    first = open_backend(write_onnx(tmp_path / "p.onnx", batch=1, memory=True))
    assert not hasattr(first, "infer_batch")
    second = first.open_session()
    zero = {"obs": np.zeros(2)}
    assert [first.infer(zero)["actions"][0] for _ in range(3)] == [0, 1, 2]
    assert second.infer(zero)["actions"][0] == 0
    first.reset(0, "")
    assert first.infer(zero)["actions"][0] == 0


def test_metadata_of_mjlab_and_isaac_lab_is_read(tmp_path):
    written = {"joint_names": "hip,knee", "default_joint_pos": "0.1,-0.5", "action_scale": "0.25,0.25"}
    (tmp_path / "IO_descriptors.yaml").write_text("observations: {policy: [{name: joint_pos, shape: [2]}]}")
    metadata = open_backend(write_onnx(tmp_path / "p.onnx", metadata=written)).metadata
    assert metadata["joint_names"] == ["hip", "knee"] and metadata["default_joint_pos"] == [0.1, -0.5]
    assert metadata["io_descriptors"]["observations"]["policy"][0]["name"] == "joint_pos"
    assert metadata["inputs"]["obs"]["shape"] == ["batch", 2]


def test_a_model_may_hold_its_own_interface_map(tmp_path):
    written = {"interface_map": "inputs: {obs: {from: observation.state}}\nactions: [{elements: [a.target]}]"}
    address = write_onnx(tmp_path / "p.onnx", metadata=written)
    found = find_certain_map(address, open_backend(address).metadata)
    assert found.policy == address and found.actions[0].elements == ("a.target",)
    with pytest.raises(WrongUse, match="is not YAML"):
        open_backend(write_onnx(tmp_path / "q.onnx", metadata={"interface_map": "{"}))


def test_another_file_has_another_fingerprint(tmp_path):
    one = open_backend(write_onnx(tmp_path / "a.onnx")).fingerprint
    assert open_backend(write_onnx(tmp_path / "b.onnx")).fingerprint == one
    assert open_backend(write_onnx(tmp_path / "c.onnx", batch=1)).fingerprint != one


def test_what_is_no_model_is_refused(tmp_path):
    (tmp_path / "p.onnx").write_bytes(b"no model")
    with pytest.raises(WrongUse, match="no ONNX model"):
        open_backend(f"onnx:{tmp_path}/p.onnx")
    with pytest.raises(WrongUse, match="is not a file"):
        open_backend("onnx:nowhere.onnx")
    backend = open_backend(write_onnx(tmp_path / "q.onnx"))
    with pytest.raises(WrongUse, match=r"(?s)is given no obs.*name each of them"):
        backend.infer({"state": np.zeros(2)})
    with pytest.raises(PolicyGone, match="does not run"):
        backend.infer({"obs": np.zeros(3)})


class Doubles(torch.nn.Module):
    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return torch.mul(obs, 2.0)


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1, 1))

    @torch.jit.export
    def reset(self) -> None:
        self.count.zero_()

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        self.count.add_(1.0)
        return obs + self.count


class Writes(torch.nn.Module):
    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        torch.save(obs, "written-by-a-policy")
        return obs


def script(module, path):
    torch.jit.save(torch.jit.script(module), str(path))
    return f"torchscript:{path}"


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_torchscript_module_answers(tmp_path):
    backend = open_backend(script(Doubles(), tmp_path / "p.pt"))
    assert backend.infer({"obs": np.array([3.0, 4.0], np.float32)})["actions"].tolist() == [6.0, 8.0]
    with pytest.raises(WrongUse, match="is given no obs"):
        backend.infer({"state": np.zeros(2)})


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_torchscript_module_with_reset_has_a_state_for_each_episode(tmp_path):
    first = open_backend(script(Counts(), tmp_path / "p.pt"))
    second, zero = first.open_session(), {"obs": np.zeros(1, np.float32)}
    assert [first.infer(zero)["actions"][0] for _ in range(2)] == [1, 2]
    assert second.infer(zero)["actions"][0] == 1
    first.reset(0, "")
    assert first.infer(zero)["actions"][0] == 1


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_torchscript_program_that_writes_files_is_refused_before_it_is_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WrongUse, match="does more than compute; got save"):
        open_backend(script(Writes(), tmp_path / "p.pt"))
    assert not (tmp_path / "written-by-a-policy").exists()
    (tmp_path / "q.pt").write_bytes(b"no module")
    with pytest.raises(WrongUse, match="no TorchScript module"):
        open_backend(f"torchscript:{tmp_path}/q.pt")


def write_class(path, body):
    path.write_text("import numpy as np\n" + textwrap.dedent(body))
    return f"python:{path}"


def test_a_python_class_keeps_each_episode_to_itself(tmp_path, monkeypatch):
    address = write_class(tmp_path / "p.py", """
        class Counts:
            def __init__(self): self.count = 0
            def reset(self, seed): self.count = seed
            def infer(self, inputs):
                self.count += 1
                return {"actions": inputs["x"] + self.count}
    """)  # fmt: skip
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    first = open_backend(f"{address}:Counts")
    assert [path.name for path in tmp_path.iterdir()] == ["p.py"], "nothing is written beside it"
    second = first.open_session()
    first.reset(10, "")
    assert first.infer({"x": np.zeros(1)})["actions"].tolist() == [11]
    assert second.infer({"x": np.zeros(1)})["actions"].tolist() == [1]


def test_what_a_python_class_does_wrong_is_said_with_its_line(tmp_path):
    address = write_class(tmp_path / "p.py", """
        class Breaks:
            def reset(self): pass
            def infer(self, inputs):
                return {"actions": inputs["missing"]}
        class Mute:
            def reset(self): pass
    """)  # fmt: skip
    with pytest.raises(PolicyGone, match=r"(?s)Breaks.infer raised KeyError: 'missing'.*p.py, line 6"):
        open_backend(f"{address}:Breaks").infer({"x": np.zeros(1)})
    with pytest.raises(WrongUse, match="no method infer"):
        open_backend(f"{address}:Mute")
    with pytest.raises(UnknownName, match="did you mean 'Breaks'"):
        open_backend(f"{address}:Break")
    with pytest.raises(WrongUse, match="python:MODULE:CLASS"):
        open_backend("python:nothing")
    with pytest.raises(WrongUse, match="cannot be imported"):
        open_backend("python:no_such_module:A")


STATE = np.array([0.25, -0.5], np.float32)
STATELESS = """
    class Doubles:
        stateless = True
        def reset(self): pass
        def infer(self, inputs): return {"actions": 2 * inputs["obs"][None]}
        def infer_batch(self, inputs): return {"actions": 2 * inputs["obs"][:, None]}
"""


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_every_backend_in_this_process_conforms(tmp_path):
    addresses = [
        write_onnx(tmp_path / "batched.onnx"),
        write_onnx(tmp_path / "single.onnx", batch=1),
        write_onnx(tmp_path / "recurrent.onnx", batch=1, memory=True),
        script(Doubles(), tmp_path / "doubles.pt"),
        script(Counts(), tmp_path / "counts.pt"),
        f"{write_class(tmp_path / 'p.py', STATELESS)}:Doubles",
    ]
    for address in addresses:
        check_backend(open_backend(address), {"obs": STATE})
    check_backend(FakeBackend(), {"state": STATE})


class _Endless(FakeBackend):
    """Never begins an episode."""

    def reset(self, seed, task):
        pass

    def open_session(self):
        return _Endless()


def test_the_check_finds_conversations_that_are_mixed_up():
    with pytest.raises(AssertionError, match="answers the same"):
        check_backend(_Endless(), {"state": STATE})
