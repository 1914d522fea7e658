"""Parameters that several joints of a twin have: which belong together, and what they are called together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twinloop.twins.declare import moving_joints, to_identifier
from twinloop.twins.parameter import Parameter
from twinloop.twins.twin import Twin


def list_joints(twin: Twin) -> list[str]:
    """The joints and actuators of a twin as its parameters name them, in the model's order."""
    model = twin.patch.model
    names = [*moving_joints(model), *(model.actuator(index).name for index in range(model.nu))]
    known = list(dict.fromkeys(to_identifier(name) for name in names))
    return [name for name in known if any(_joint_of(p.name, known) == name for p in twin.parameters)]


def group_by_joint(twin: Twin, parameters: Sequence[Parameter]) -> list[dict[str, Parameter]]:
    """Parameters by joint, one entry for each quantity that joints have.

    Args:
        twin: Whose joints are looked for in the names of parameters.
        parameters: Those to group.

    Returns:
        For each quantity, the parameter of every joint that has it; a parameter of no joint is alone, under "".
    """
    joints = list_joints(twin)
    groups: dict[tuple[str, str], dict[str, Parameter]] = {}
    for parameter in parameters:
        joint = _joint_of(parameter.name, joints)
        quantity = parameter.name[len(joint) :]
        groups.setdefault((quantity, parameter.dimension), {})[joint] = parameter
    return list(groups.values())


def name_group(group: Mapping[str, Parameter]) -> str:
    """The name that parameters of several joints share: <joint>_friction_nm."""
    joint, parameter = next(iter(group.items()))
    return f"<joint>{parameter.name[len(joint) :]}"


def describe_group(group: Mapping[str, Parameter]) -> str:
    """Their description, with <joint> where they differ."""
    texts = [parameter.description.split() for parameter in group.values()]
    joined = [words[0] if len(set(words)) == 1 else _joint_word(words) for words in zip(*texts, strict=False)]
    return " ".join(joined)


def _joint_word(words: Sequence[str]) -> str:
    return "<joint>'s" if all(word.endswith("'s") for word in words) else "<joint>"


def _joint_of(name: str, joints: Sequence[str]) -> str:
    """The joint whose name a parameter's name begins with, the longest if several do; "" if none does."""
    return max((joint for joint in joints if name.startswith(f"{joint}_")), key=len, default="")
