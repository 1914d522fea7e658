"""Propose the interface map of a foreign policy: from what it says of itself, the names and sizes of a dataset, and recorded actions.

Every line that is not certain carries its confidence and the reason. A draft is then compared with recorded actions: a correction
that explains them better is taken over, and where the actions agree, the guesses that led to them count as confirmed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np

from twinloop.datasets.reader import Dataset
from twinloop.episode import Camera, Schema, Signal
from twinloop.errors import PolicyGone, WrongUse, first_line
from twinloop.policies.backends.protocol import Backend
from twinloop.policies.conventions.check import InterfaceCheck, OnProgress, check_interface
from twinloop.policies.conventions.recorded import is_observed
from twinloop.policies.mapping.certain import find_certain_map
from twinloop.policies.mapping.claims import Claim, Claims, read_claims
from twinloop.policies.mapping.interface_map import (
    Action,
    ConstantInput,
    GripperAction,
    ImageInput,
    Input,
    InterfaceMap,
    JointAction,
    LastActionInput,
    PoseAction,
    TextInput,
    VectorInput,
    VectorPart,
)
from twinloop.tasks.joint_names import JointNames
from twinloop.twins import Twin

CERTAIN = 0.97
"""Elements or signals of the same name and size."""
LIKELY = 0.8
"""The only thing of this size, or a name that usually means it."""
POSSIBLE = 0.5
"""One of several things of this size."""
BLIND = 0.2
"""A convention that is common where nothing is known."""
CONFIRMED = 0.95
"""What led to actions that agree with recorded ones."""
AGREES = 0.35
"""Actions agree with recorded ones where they differ by less than this many spreads of these."""

MEANINGS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("env", "object", "target", "goal"), "observation.environment_state"),
    (("vel", "qvel", "speed"), "observation.velocity"),
    (("effort", "torque", "current", "load"), "observation.effort"),
    (("state", "qpos", "joint", "joints", "proprio", "agent"), "observation.state"),
)
"""Words in the names of inputs, and the signal that they usually mean."""


@dataclass(frozen=True)
class Proposal:
    """A proposed map, and how the policy's actions compare with recorded ones under it.

    Where nothing was compared, `check` is None and `not_compared` says why.
    """

    interface_map: InterfaceMap
    check: InterfaceCheck | None
    not_compared: str = ""


def propose_interface_map(
    backend: Backend,
    address: str,
    dataset: Dataset,
    twin: Twin | None = None,
    *,
    seed: int = 0,
    on_progress: OnProgress = lambda done, total: None,
) -> Proposal:
    """Propose the interface map of a foreign policy.

    Args:
        backend: The policy.
        address: Its address, for the map.
        dataset: Recorded episodes of the robot that the policy is to act on.
        twin: The robot's twin, for poses and the gripper's range.
        seed: Random seed for the rows that are compared.
        on_progress: Called with corrections tried and corrections in total.

    Returns:
        The map, with a confidence at every guess; of a policy that declares its map, that one.

    Raises:
        WrongUse: Nothing can be guessed about the policy's actions.
    """
    certain = find_certain_map(address, backend.metadata)
    draft = certain or draft_interface_map(
        address, read_claims(backend.metadata), backend.metadata, dataset.schema
    )
    if twin is not None:
        draft = draft.model_copy(update={"twin": twin.name})
    if any(one.confidence == 0.0 for one in draft.inputs.values()):
        return Proposal(draft, None, "there is an input that nothing was found for")
    try:
        check = check_interface(backend, draft, dataset, twin, seed=seed, on_progress=on_progress)
    except PolicyGone as gone:  # what it is given is not what it wants: the draft is all there is
        return Proposal(draft, None, first_line(gone))
    if certain is not None:
        return Proposal(draft, check)
    corrected = check.corrected or draft
    error = check.error if check.found is None else check.found.error
    if error < AGREES:
        because = f"actions differ from the recorded ones by {error:.2f} of their spread"
        corrected = _confirm(corrected, because)
    return Proposal(corrected, check)


def draft_interface_map(
    address: str, claims: Claims, metadata: Mapping[str, Any], schema: Schema
) -> InterfaceMap:
    """Guess every line of a map from names and sizes."""
    inputs = {claim.name: _guess_input(claim, claims, metadata, schema) for claim in claims.inputs}
    if not inputs:
        inputs = _usual_inputs(schema)
    return InterfaceMap(
        policy=address,
        rate_hz=None if claims.rate_hz == schema.rate_hz else claims.rate_hz,
        inputs=inputs,
        history=claims.history or (0,),
        actions=_guess_actions(claims.action, metadata, schema.signal("action")),
        n_action_steps=claims.n_action_steps,
    )


def _guess_input(claim: Claim, claims: Claims, metadata: Mapping[str, Any], schema: Schema) -> Input:
    if claim.kind == "text":
        return TextInput(task=True, confidence=CERTAIN, because="its name and type")
    if claim.kind == "image":
        images = [one for one in claims.inputs if one.kind == "image"]
        return _guess_camera(claim, images, schema.cameras)
    if terms := _names(metadata.get("observation_names")):
        return _guess_terms(terms, metadata, schema)
    return _guess_vector(claim, schema)


def _guess_camera(claim: Claim, images: Sequence[Claim], cameras: Sequence[Camera]) -> ImageInput:
    """The camera of the same name, the only one, or the one at the same place in the list."""
    if not cameras:
        raise WrongUse(
            f"the policy wants images ({claim.name}), and the dataset has no cameras",
            remedy="name a dataset with cameras: generate --cameras, record --camera",
        )
    words = _words(claim.name)
    named = [camera for camera in cameras if set(_words(camera.name)) <= set(words)]
    if named:
        camera, confidence, because = max(named, key=lambda one: len(one.name)), CERTAIN, "the same name"
    elif len(cameras) == len(images) == 1:
        camera, confidence, because = cameras[0], LIKELY, "the only camera"
    else:
        place = min(list(images).index(claim), len(cameras) - 1)
        camera, confidence, because = cameras[place], POSSIBLE, "the same place in the list of cameras"
    shape = claim.shape[-3:]
    layout: Literal["hwc", "chw"] = "chw" if len(shape) == 3 and shape[0] == 3 and shape[2] != 3 else "hwc"
    sides = (shape[1:] if layout == "chw" else shape[:2]) if len(shape) == 3 else ()
    guess = ImageInput(
        camera=camera.name,
        size=(int(sides[0]), int(sides[1])) if len(sides) == 2 and None not in sides else None,  # type: ignore[arg-type]
        layout=layout,
        confidence=min(confidence, LIKELY) if claim.is_float else confidence,
        because=because + ("; floats are usually from 0 to 1" if claim.is_float else ""),
    )
    return guess.model_copy(update={"value_range": (0.0, 1.0)}) if claim.is_float else guess


def _guess_vector(claim: Claim, schema: Schema) -> Input:
    """The signal of the same elements, name or size, a part of one, or several signals that have the size together."""
    vectors = [signal for signal in schema.signals if is_observed(signal)]
    tail = _words(claim.name)
    named = [one for one in vectors if (tail and _words(one.name)[-len(tail) :] == tail) or _ends(tail, one)]
    meant = [name for words, name in MEANINGS if set(words) & set(tail)]
    likely = [*named, *(one for one in vectors if one.name in meant and one not in named)]
    for signal in (*likely, *(one for one in vectors if one not in likely)) if claim.elements else ():
        if elements := _match(signal.elements, claim.elements):
            unit = {"unit": claim.units} if claim.units not in ((), signal.units) else {}
            return _part(
                signal.name, elements=elements, confidence=CERTAIN, because="the same elements", **unit
            )
    fitting = [signal for signal in vectors if claim.size in (None, signal.size)]
    for signal in likely:
        if signal in fitting:
            confidence, because = (
                (CERTAIN, "the same name and size") if signal in named else (LIKELY, "its name and size")
            )
            return _whole_signal(signal, confidence, because)
    for signal in likely:
        angles = tuple(e for e, unit in zip(signal.elements, signal.units, strict=False) if unit == "rad")
        if len(angles) == claim.size:
            return _part(
                signal.name, elements=angles, confidence=POSSIBLE, because="its name, and as many angles"
            )
    if fitting:
        only = len(fitting) == 1
        because = "the only signal of this size" if only else "one of several signals of this size"
        return _whole_signal(fitting[0], LIKELY if only else POSSIBLE, because)
    for count in range(2, min(len(vectors), 5) + 1):
        for several in combinations(vectors, count):
            if sum(signal.size for signal in several) == claim.size:
                return VectorInput(
                    parts=tuple(
                        _whole_signal(one, POSSIBLE, "together they have this size") for one in several
                    )
                )
    because = "no signal has this size: write what it means"
    return ConstantInput(constant=(0.0,) * (claim.size or 1), confidence=0.0, because=because)


def _ends(words: Sequence[str], signal: Signal) -> bool:
    """Whether the name of an input ends like that of a signal."""
    own = _words(signal.name)
    return bool(own) and list(words[-len(own) :]) == own


def _guess_terms(terms: Sequence[str], metadata: Mapping[str, Any], schema: Schema) -> Input:
    """An observation of a policy from RL: the terms that its trainer names, one after the other."""
    joints = _names(metadata.get("joint_names"))
    rest = _numbers(metadata.get("default_joint_pos"), len(joints))
    parts: list[VectorPart | ConstantInput | LastActionInput] = []
    for term in terms:
        kind = next((one for one in ("joint_pos", "joint_vel", "action") if one in term), "")
        source = {"joint_pos": "observation.state", "joint_vel": "observation.velocity"}.get(kind)
        signal = next((one for one in schema.signals if one.name == source), None)
        elements = _match(signal.elements, joints) if signal is not None else ()
        if signal is not None and elements:
            offset = tuple(-value for value in rest) if kind == "joint_pos" and rest else (0.0,)
            parts.append(
                _part(
                    signal.name,
                    elements=elements,
                    offset=offset,
                    confidence=LIKELY,
                    because=f"the term {term}",
                )
            )
        elif kind == "action":
            parts.append(LastActionInput(last_action=True, confidence=LIKELY, because=f"the term {term}"))
        else:
            parts.append(
                ConstantInput(
                    constant=(0.0,), confidence=0.0, because=f"the term {term}: write what it means"
                )
            )
    return VectorInput(parts=tuple(parts), confidence=min(one.confidence or 0.0 for one in parts))


def _usual_inputs(schema: Schema) -> dict[str, Input]:
    """Names that servers of vision-language-action policies commonly use, for a policy that says nothing."""
    because = "the policy does not say what it wants; this is a usual name"
    inputs: dict[str, Input] = {
        "observation/state": _part("observation.state", confidence=BLIND, because=because),
        "prompt": TextInput(task=True, confidence=BLIND, because=because),
    }
    for index, camera in enumerate(schema.cameras):
        name = "observation/image" if index == 0 else f"observation/{camera.name}_image"
        inputs[name] = ImageInput(
            camera=camera.name, size=(224, 224), fit="pad", confidence=BLIND, because=because
        )
    return inputs


def _guess_actions(claim: Claim | None, metadata: Mapping[str, Any], action: Signal) -> tuple[Action, ...]:
    """Commands of the joints that are named, all of ours where the number agrees, or a pose and a gripper."""
    elements = action.elements or tuple(f"{index}" for index in range(action.size))
    if claim is not None and claim.elements and (matched := _match(elements, claim.elements)):
        scale = _numbers(metadata.get("action_scale"), len(matched))
        rest = _numbers(metadata.get("default_joint_pos"), len(matched))
        kept: dict[str, Any] = {}
        if scale and all(scale):  # mjlab: command = default + action_scale * action
            kept["scale"] = tuple(1.0 / value for value in scale)
            kept["offset"] = tuple(
                -at / by for at, by in zip(rest or (0.0,) * len(scale), scale, strict=True)
            )
        if claim.units not in ((), action.units):
            kept["unit"] = claim.units
        return (JointAction(elements=matched, confidence=CERTAIN, because="the same elements", **kept),)
    size = claim.size if claim is not None else None
    if size in (None, action.size):
        confidence = LIKELY if size else POSSIBLE
        return (JointAction(elements=elements, confidence=confidence, because="as many as our commands"),)
    gripper = next((one for one in elements if "gripper" in one), None)
    if size in (6, 7):
        because = "six numbers are often a change of the tool's pose, a seventh the gripper"
        pose = PoseAction(
            pose="tool",
            rotation="rotation_vector",
            relative_to="chunk_start",
            confidence=BLIND,
            because=because,
        )
        if size == 6 or gripper is None:
            return (pose,)
        return (pose, GripperAction(gripper=gripper, open=1.0, closed=0.0, confidence=BLIND, because=because))
    raise WrongUse(
        "what the policy's actions mean cannot be guessed",
        got=f"{size} numbers",
        expected=f"{action.size}, as our commands, or names",
        remedy="write the map by hand; its reference is in docs/how-to/foreign-policies.md",
    )


def _confirm(given: InterfaceMap, because: str) -> InterfaceMap:
    """The map with guesses that were right counted as confirmed; what was guessed blindly stays a guess."""

    def confirmed(part: Any) -> Any:
        update: dict[str, Any] = {}
        if isinstance(part, VectorInput):
            update["parts"] = tuple(confirmed(one) for one in part.parts)
        if part.confidence is not None and part.confidence < CONFIRMED:
            update |= {"confidence": CONFIRMED, "because": f"{part.because}; {because}".lstrip("; ")}
        return part.model_copy(update=update)

    inputs = {name: confirmed(part) for name, part in given.inputs.items()}
    actions = tuple(confirmed(part) for part in given.actions)
    return given.model_copy(update={"inputs": inputs, "actions": actions})


def _whole_signal(signal: Signal, confidence: float, because: str) -> VectorPart:
    return _part(signal.name, elements=signal.elements, confidence=confidence, because=because)


def _part(source: str, **values: Any) -> VectorPart:
    return VectorPart.model_validate({"from": source, **values})


def _match(ours: Sequence[str], theirs: Sequence[str]) -> tuple[str, ...]:
    """Our elements in their order, by the one rule for names of joints; empty unless each has its own."""
    if not ours:
        return ()
    places = JointNames(tuple(ours)).match(tuple(theirs), len(theirs))
    if None in places or len(set(places)) < len(places):
        return ()
    return tuple(ours[place] for place in places if place is not None)


def _words(name: str) -> list[str]:
    return [
        word
        for word in re.split(r"[^a-z0-9]+", name.lower())
        if word and word not in ("observation", "observations", "images", "obs")
    ]


def _names(value: object) -> tuple[str, ...]:
    return (
        tuple(value) if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value) else ()
    )


def _numbers(value: object, count: int) -> tuple[float, ...]:
    """So many finite numbers; one stands for all. Empty where it is something else."""
    values = [value] * count if isinstance(value, int | float) else value
    if not isinstance(values, list | tuple) or not all(isinstance(one, int | float) for one in values):
        return ()
    numbers = tuple(float(one) for one in (values * count if len(values) == 1 else values))
    return numbers if len(numbers) == count and np.isfinite(numbers).all() else ()
