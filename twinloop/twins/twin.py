"""`Twin`: a robot cell as a value. It is never edited in place: `with_values` gives a new version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import mujoco

from twinloop.episode import Camera
from twinloop.errors import InvalidTwin, UnknownName
from twinloop.twins.parameter import Parameter
from twinloop.twins.patch import ModelPatch


@dataclass(frozen=True)
class Twin:
    """A robot cell: an MJCF model, its named parameters, rates, cameras and the roles its parts play.

    `roles` says which part of the model does what, so that a task need not know names: `object` and `target` (bodies),
    `tool` (a site between the fingers), `gripper` (an actuator), `table` (a body). `home` maps joints to the pose in
    which an episode starts. `distractors` are free bodies used only when the scene is cluttered. `parent` is the
    content hash of the twin this one was made from.
    """

    name: str
    mjcf: str
    parameters: tuple[Parameter, ...] = ()
    version: str = "1"
    assets: Mapping[str, bytes] = field(default_factory=dict)
    control_hz: float = 50.0
    cameras: tuple[Camera, ...] = ()
    home: Mapping[str, float] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    distractors: tuple[str, ...] = ()
    robot: str = ""
    task: str = ""
    description: str = ""
    parent: str | None = None

    def __post_init__(self) -> None:
        names = [parameter.name for parameter in self.parameters]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidTwin(f"twin {self.name!r} names a parameter twice", got=", ".join(twice))
        if not self.control_hz > 0:
            raise InvalidTwin(f"twin {self.name!r}: the control rate must be positive", got=self.control_hz)

    @cached_property
    def content_hash(self) -> str:
        """A 128-bit name of everything that shapes behaviour; version and parent are left out."""
        digest = hashlib.blake2b(digest_size=16)
        words: dict[str, Any] = {
            "name": self.name,
            "mjcf": self.mjcf,
            "parameters": [_numbers_as_floats(asdict(parameter)) for parameter in self.parameters],
            "control_hz": self.control_hz,
            "cameras": [asdict(camera) for camera in self.cameras],
            "home": _numbers_as_floats(dict(self.home)),
            "roles": dict(self.roles),
            "distractors": self.distractors,
            "robot": self.robot,
            "task": self.task,
        }
        digest.update(json.dumps(words, sort_keys=True).encode())
        for name in sorted(self.assets):
            digest.update(f"\0{name}\0".encode())
            digest.update(self.assets[name])
        return digest.hexdigest()

    def parameter(self, name: str) -> Parameter:
        """The parameter called `name`, or an error that names the nearest one."""
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        raise UnknownName(f"parameter of twin {self.name}", name, [p.name for p in self.parameters])

    def has(self, name: str) -> bool:
        """Whether the twin has a parameter called `name`."""
        return any(parameter.name == name for parameter in self.parameters)

    def role(self, name: str) -> str:
        """The part of the model that plays the role `name`."""
        if name not in self.roles:
            raise UnknownName(f"role in twin {self.name}", name, self.roles)
        return self.roles[name]

    @property
    def nominal(self) -> dict[str, float | str]:
        """Every parameter's nominal value."""
        return {parameter.name: parameter.nominal for parameter in self.parameters}

    def values(self, changes: Mapping[str, float | str] | None = None) -> dict[str, float | str]:
        """The nominal values with `changes`, each checked against its parameter."""
        for name, value in (changes or {}).items():
            self.parameter(name).check(value)
        return {**self.nominal, **(changes or {})}

    def with_values(
        self,
        changes: Mapping[str, float | str] | None = None,
        /,
        *,
        version: str | None = None,
        **more: float | str,
    ) -> Twin:
        """A new version of this twin with other nominal values.

        The version is the given one, or this one's followed by the first digits of the new content hash.
        """
        changes = {**(changes or {}), **more}
        values = self.values(changes)
        parameters = tuple(replace(p, nominal=values[p.name]) for p in self.parameters)
        changed = replace(self, parameters=parameters, parent=self.content_hash)
        base = self.version.split("+")[0]
        return replace(changed, version=version or f"{base}+{changed.content_hash[:8]}")

    def make_model(self, values: Mapping[str, float | str] | None = None) -> mujoco.MjModel:
        """Compile the MJCF and write the nominal values with `values` into the result."""
        model = self.compile_as_written()
        self.patch.apply_to_model(model, self.values(values))
        return model

    def compile_as_written(self) -> mujoco.MjModel:
        """Compile the MJCF, parameters ignored."""
        try:
            return mujoco.MjModel.from_xml_string(self.mjcf, dict(self.assets))
        except (ValueError, mujoco.FatalError) as error:
            raise InvalidTwin(
                f"the model of twin {self.name!r} does not compile",
                got=str(error),
                remedy="fix the MJCF; `python -m mujoco.viewer --mjcf=FILE` shows it",
            ) from error

    @cached_property
    def patch(self) -> ModelPatch:
        """The parameters resolved against the compiled model; made once, applied often."""
        return ModelPatch(self.compile_as_written(), self.parameters)

    @property
    def physics_dt_s(self) -> float:
        """The physics time step."""
        return float(self.patch.model.opt.timestep)

    @property
    def substeps(self) -> int:
        """Physics steps per control step."""
        count = round(1.0 / (self.control_hz * self.physics_dt_s))
        if count < 1 or abs(count * self.control_hz * self.physics_dt_s - 1.0) > 1e-6:
            raise InvalidTwin(
                f"twin {self.name!r}: a control step is not a whole number of physics steps",
                got=f"{self.control_hz:g} Hz control, {self.physics_dt_s:g} s physics",
                remedy="choose a control rate whose period is a multiple of the time step",
            )
        return count


def check_twin(twin: Twin) -> None:
    """Raise unless the twin compiles and everything it names is in its model."""
    model = twin.patch.model
    twin.patch.apply_to_model(twin.compile_as_written(), twin.nominal)
    _ = twin.substeps
    kinds = {"object": "body", "target": "body", "table": "body", "tool": "site", "gripper": "actuator"}
    named = [("camera", camera.name) for camera in twin.cameras]
    named += [("joint", name) for name in twin.home]
    named += [("body", name) for name in twin.distractors]
    named += [(kinds[role], name) for role, name in twin.roles.items() if role in kinds]
    for kind, name in named:
        try:
            getattr(model, kind)(name)
        except KeyError as error:
            raise InvalidTwin(
                f"twin {twin.name!r} names a {kind} its model does not have", got=name
            ) from error


def _numbers_as_floats(value: Any) -> Any:
    """1 and 1.0 are the same nominal value and must hash alike."""
    if isinstance(value, dict):
        return {key: _numbers_as_floats(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_numbers_as_floats(part) for part in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
