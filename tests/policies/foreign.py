"""A foreign policy for tests: a Python class in degrees, and the map that makes it act on an SO-101."""

import textwrap

TWIN = "so101_pick_place"
ARM = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll")
BODY = """
    GOAL = np.degrees([0.1, -0.4, 0.5, 1.2, 0.3])[::-1]
    class Reach:
        '''In degrees, from the wrist to the shoulder, the gripper in per cent: two actions towards a goal.'''
        stateless = True
        def reset(self): pass
        def infer(self, inputs):
            at = inputs["state"].astype(float)
            first = at[:5] + 0.2 * (GOAL - at[:5])
            second = first + 0.2 * (GOAL - first)
            return {"actions": np.array([[*first, 50.0], [*second, 50.0]])}
"""
POS = ", ".join(f"{name}.pos" for name in reversed(ARM))
TARGETS = ", ".join(f"{name}.target" for name in reversed(ARM))
MAP = f"""
policy: python:reach.py:Reach
twin: {TWIN}
inputs:
  state: {{from: observation.state, elements: [{POS}], unit: deg}}
actions:
- {{elements: [{TARGETS}], unit: deg}}
- {{gripper: gripper.target, open: 100, closed: 0}}
"""


def write_policy(folder, body=BODY, old=("", ""), change=("", ""), more=""):
    """Write the class and its map, with one place of each changed, and return the map's file."""
    (folder / "reach.py").write_text("import numpy as np\n" + textwrap.dedent(body).replace(*old))
    (folder / "reach.yaml").write_text(MAP.replace(*change) + more)
    return folder / "reach.yaml"
