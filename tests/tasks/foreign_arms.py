"""Models of arms as others name them: small, but with the joints, actuators and grippers of the originals."""

from twinloop.twins.user_model import make_twin_from_model

UR5E_JOINTS = ("shoulder_pan_joint", "shoulder_lift_joint", "elbow_joint")
UR5E_JOINTS += ("wrist_1_joint", "wrist_2_joint", "wrist_3_joint")
UR5E = ("shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3")
LINKAGE = ("driver", "coupler", "spring_link", "follower")
PANDA_JOINTS = tuple(f"joint{i}" for i in range(1, 8))
SO101 = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
YAM = ("base_yaw", "upper_pitch", "lower_pitch", "forearm_roll", "hand_pitch", "hand_roll")


def _hinge(name, inner="", limit=3.0):
    return (
        f'<body name="{name}_link" pos="0 0 0.1"><joint name="{name}" axis="0 1 0" armature="0.5" range="-{limit} {limit}"/>'
        f'<geom type="capsule" size="0.02" fromto="0 0 0 0 0 0.1" contype="0" conaffinity="0"/>{inner}</body>'
    )


def _linkage(side):
    joints = [f"{side}_{part}_joint" for part in LINKAGE]
    inner = ""
    for name in reversed(joints):
        inner = _hinge(name, inner, limit=0.9)
    return inner


def _slides():
    return "".join(
        f'<body name="finger{i}"><joint name="finger_joint{i}" type="slide" axis="0 {sign} 0" range="0 0.04"/>'
        '<geom type="box" size="0.01 0.01 0.02" contype="0" conaffinity="0"/></body>'
        for i, sign in ((1, 1), (2, -1))
    )


def _model(joints, actuators, hand="", tendon="", hand_actuator=""):
    chain = hand
    for name in reversed(joints):
        chain = _hinge(name, chain)
    servos = "".join(
        f'<position name="{actuator}" joint="{joint}" kp="50" kv="5" ctrlrange="-3 3"/>'
        for actuator, joint in zip(actuators, joints, strict=True)
    )
    return (
        f'<mujoco model="arm"><compiler angle="radian" autolimits="true"/><worldbody>{chain}</worldbody>'
        f"<tendon>{tendon}</tendon><actuator>{servos}{hand_actuator}</actuator></mujoco>"
    )


def _tendon(first, second):
    return (
        f'<fixed name="split"><joint joint="{first}" coef="0.5"/><joint joint="{second}" coef="0.5"/></fixed>'
    )


MODELS = {
    "ur5e_2f85": _model(
        UR5E_JOINTS,
        UR5E,
        _linkage("left") + _linkage("right"),
        _tendon("left_driver_joint", "right_driver_joint"),
        '<position name="fingers_actuator" tendon="split" kp="5" ctrlrange="0 0.8"/>',
    ),
    "panda": _model(
        PANDA_JOINTS,
        tuple(f"actuator{i}" for i in range(1, 8)),
        _slides(),
        _tendon("finger_joint1", "finger_joint2"),
        '<position name="actuator8" tendon="split" kp="5" ctrlrange="0 0.04"/>',
    ),
    "so101": _model(SO101, SO101),
    "yam": _model(YAM, tuple(f"{name}_servo" for name in YAM)),
}


def make_arm(name, folder):
    """A twin of one of the models."""
    path = folder / f"{name}.xml"
    path.write_text(MODELS[name])
    return make_twin_from_model(path)
