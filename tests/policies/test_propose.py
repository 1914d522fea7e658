"""Proposed interface maps: right where the policy or its actions say so, with a confidence where it is a guess."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.policies.tracker import JOINTS, SCHEMA, Tracker, record_tracker
from tests.terminal import twinloop
from twinloop.datasets.reader import Dataset
from twinloop.episode import Array
from twinloop.errors import MapError, WrongUse
from twinloop.policies.conventions.propose import draft_interface_map, propose_interface_map
from twinloop.policies.mapping.claims import read_claims
from twinloop.policies.mapping.interface_map import load_interface_map
from twinloop.policies.mapping.mapped import MappedPolicy

PORTS = {
    "inputs": {
        "state": {"shape": [4], "type": "tensor(float)"},
        "object": {"shape": [4], "type": "tensor(float)"},
        "left": {"shape": [16, 16, 3], "type": "uint8"},
        "right": {"shape": [16, 16, 3], "type": "uint8"},
    },
    "actions": {"size": 4},
}


class DegreeTracker(Tracker):
    """The tracker in degrees, with a gripper in metres; it says only the shapes of what it takes and gives."""

    def __init__(self) -> None:
        super().__init__()
        self.metadata = PORTS

    def infer(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        state = np.append(np.radians(inputs["state"][:3]), inputs["state"][3])
        actions = super().infer({**inputs, "state": state})["actions"]
        return {"actions": np.column_stack([np.degrees(actions[:, :3]), 0.08 * actions[:, 3]])}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return record_tracker(tmp_path_factory.mktemp("tracker") / "data")


def test_degrees_are_found_by_comparing_actions_and_then_count_as_confirmed(recorded: Dataset) -> None:
    found = propose_interface_map(DegreeTracker(), "python:mine:Policy", recorded)
    content = found.interface_map.model_dump(by_alias=True, exclude_defaults=True)
    assert content["inputs"]["state"]["unit"] == content["actions"][0]["unit"] == ("deg", "deg", "deg", "m")
    assert content["inputs"]["object"]["from"] == "observation.environment_state"
    assert not found.interface_map.doubtful()
    MappedPolicy(DegreeTracker(), found.interface_map, SCHEMA)


def test_elements_scales_and_offsets_that_a_trainer_wrote_into_the_file_are_taken_over() -> None:
    metadata = {
        "joint_names": ["elbow_joint", "pan_joint", "lift_joint", "gripper_joint"],
        "default_joint_pos": [0.1, 0.2, 0.3, 0.0],
        "action_scale": [0.5],
        "observation_names": ["joint_pos", "actions"],
        **PORTS,
        "inputs": {"obs": {"shape": [1, 8], "type": "tensor(float)"}},
    }
    draft = draft_interface_map("onnx:walk.onnx", read_claims(metadata), metadata, SCHEMA)
    content = draft.model_dump(by_alias=True, exclude_defaults=True)
    order = [JOINTS[place] for place in (2, 0, 1, 3)]
    (action,) = content["actions"]
    assert action["elements"] == tuple(f"{joint}.target" for joint in order)
    assert action["scale"] == (2.0,) * 4 and action["offset"] == pytest.approx((-0.2, -0.4, -0.6, 0.0))
    joints, last = content["inputs"]["obs"]["parts"]
    assert joints["elements"] == tuple(f"{joint}.pos" for joint in order)
    assert joints["offset"] == (-0.1, -0.2, -0.3, -0.0) and last["last_action"] is True


def test_an_input_that_names_its_elements_and_no_units_has_ours() -> None:
    elements = [f"{joint}.pos" for joint in reversed(JOINTS)]
    metadata = {"observations": {"joints": {"size": 4, "elements": elements}}, "actions": {"size": 4}}
    draft = draft_interface_map("python:mine:Policy", read_claims(metadata), metadata, SCHEMA)
    content = draft.inputs["joints"].model_dump(by_alias=True, exclude_defaults=True)
    assert content["elements"] == tuple(elements) and "unit" not in content


def test_a_policy_that_says_nothing_gets_usual_names_that_are_not_used_unconfirmed() -> None:
    draft = draft_interface_map("openpi:ws://127.0.0.1:1", read_claims({}), {}, SCHEMA)
    assert set(draft.inputs) == {
        "observation/state",
        "observation/image",
        "observation/right_image",
        "prompt",
    }
    assert set(draft.doubtful()) >= {"inputs.prompt", "actions.0"}
    with pytest.raises(MapError, match="nobody has confirmed"):
        MappedPolicy(Tracker(), draft, SCHEMA)


def test_an_input_that_no_signal_fits_is_left_to_the_user_and_nothing_is_compared(recorded: Dataset) -> None:
    backend = Tracker()
    backend.metadata = {"inputs": {"latent": {"shape": [31]}}, "actions": {"size": 4}}
    found = propose_interface_map(backend, "python:mine:Policy", recorded)
    assert found.check is None and "inputs.latent" in found.interface_map.doubtful()


def test_a_policy_that_does_not_answer_to_the_draft_gets_a_draft_all_the_same(recorded: Dataset) -> None:
    found = propose_interface_map(Tracker(), "python:mine:Policy", recorded)
    assert found.check is None and found.not_compared and "inputs.prompt" in found.interface_map.doubtful()


def test_actions_that_mean_nothing_here_are_refused() -> None:
    with pytest.raises(WrongUse, match="cannot be guessed"):
        draft_interface_map("x:y", read_claims({"actions": {"size": 23}}), {}, SCHEMA)


@pytest.mark.parametrize(
    "claimed", [{"inputs": 3}, {"inputs": {"a": None}}, {"actions": [1]}, {"history": "x"}]
)
def test_metadata_that_is_no_metadata_is_left_out(claimed: dict[str, Any]) -> None:
    assert read_claims(claimed).inputs == ()


def test_the_commands_write_a_map_and_name_the_line_that_is_wrong(recorded: Dataset, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from tests.policies.test_propose import DegreeTracker\n"
        "class Policy(DegreeTracker):\n    def reset(self):\n        pass\n"
    )
    address, data = f"python:{tmp_path}/mine.py:Policy", str(recorded.root)
    file = tmp_path / "map.yaml"
    assert "16 x 16 x 3" in twinloop("policy", "map", address, "--dataset", data, cwd=tmp_path)
    twinloop("policy", "map", address, "--dataset", data, "--propose", "--map", file, cwd=tmp_path)
    assert load_interface_map(file).policy == address
    twinloop("policy", "check", file, "--dataset", data, cwd=tmp_path)
    file.write_text(file.read_text().replace("unit: [deg, deg, deg, m]", "unit: [rad, rad, rad, m]"))
    wrong = twinloop("policy", "check", file, "--dataset", data, "--json", cwd=tmp_path, code=1)
    assert json.loads(wrong[: wrong.rindex("}") + 1])["found"]["fault"] == "degrees for radians"
