"""Interface maps: read and written, and what is wrong with one is said with its place."""

import pytest

from twinloop.errors import MapError
from twinloop.policies.mapping.interface_map import load_interface_map, parse_interface_map
from twinloop.yaml_models import format_model

GOOD = """
policy: onnx:walk.onnx
inputs:
  state: {from: observation.state, unit: deg}
  all: {parts: [{from: observation.velocity}, {constant: [0.5, 0]}, {last_action: true}]}
  image: {camera: front, size: [224, 224], range: [0, 1]}
  prompt: {task: true}
actions:
- {elements: [a.target, b.target], unit: deg}
- {gripper: g.target, open: 1, closed: 0}
history: [-2, 0]
"""


def test_a_map_that_is_written_reads_back_equal():
    found = parse_interface_map(GOOD)
    assert parse_interface_map(format_model(found)) == found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("unit: deg}", "units: deg}"), "(?s)inputs.state.units is not a key.*did you mean 'unit'"),
        (("camera: front", "camera: front, fitt: x"), "(?s)inputs.image.fitt .*did you mean 'fit'"),
        (("open: 1, ", ""), "actions.1.open is missing"),
        (("elements: [a.target", "elments: [a.target"), "(?s)actions.0.elments .*did you mean 'elements'"),
        (("constant: [0.5, 0]", "constant: 1, size: 2"), "inputs.all.parts.1.size is not a key"),
        (("{task: true}", "{task: true, text: x}"), "inputs.prompt: give either task: true or text"),
        (("unit: deg}", "unit: degg}"), "inputs.state.unit.*did you mean 'deg'"),
        (("unit: deg}", "scale: 0}"), "inputs.state.scale: a factor of 0"),
        (("history: [-2, 0]", "history: [0, 2]"), "oldest first, the last is 0"),
        (("open: 1", "open: 0"), "open and closed must differ"),
        (("policy: onnx", "poliy: onnx"), "(?s)poliy is not a key.*did you mean 'policy'"),
        (("size: [224, 224]", "size: [224, 99999]"), "inputs.image.size.1"),
    ],
)
def test_a_wrong_map_is_answered_with_its_place_and_the_nearest_right_key(change, message):
    with pytest.raises(MapError, match=message):
        parse_interface_map(GOOD.replace(*change, 1))


def test_a_map_names_the_file_beside_it(tmp_path):
    (tmp_path / "walk.onnx").touch()
    (tmp_path / "walk.yaml").write_text(GOOD)
    assert load_interface_map(tmp_path / "walk.yaml").policy == f"onnx:{tmp_path}/walk.onnx"


def test_a_guess_that_nobody_confirmed_is_refused_with_its_place_and_reason():
    doubtful = GOOD.replace("closed: 0", "closed: 0, confidence: 0.6, because: both ends are as frequent")
    with pytest.raises(MapError, match=r"actions.1 \(0.6, both ends are as frequent\)"):
        parse_interface_map(doubtful).require_confirmed("the map")
    parse_interface_map(doubtful.replace("0.6", "0.95")).require_confirmed("the map")
