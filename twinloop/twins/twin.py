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
from twinloop.twins.model_files import check_timestep
from twinloop.twins.parameter import Parameter
from twinloop.twins.patch import ModelPatch


@dataclass(frozen=True)
class Twin:
    """A robot cell: an MJCF model with named parameters, control rate, cameras, home pose and roles.

    Args:
        name: the twin's name; versions of one cell share it.
        mjcf: the model as MJCF text; `assets` are the files it refers to, by name.
        parameters: everything that can vary or be identified.
        version: changes with every set of nominal values.
        control_hz: control rate; its period is a whole number of physics steps.
        home: joint name to the position (rad or m) at which an episode starts.
        roles: which part of the model plays which role, so that tasks need no names of their own: `object`, `target`,
            `table` (bodies), `tool` (a site between the fingers), `gripper` (an actuator).
        distractors: bodies that are used only in cluttered scenes.
        parent: content hash of the twin from which this version was made.
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
        """128-bit hash of everything that shapes behaviour: not of version, parent or descriptions."""
        digest = hashlib.blake2b(digest_size=16)
        content: dict[str, Any] = {
            "name": self.name,
            "mjcf": self.mjcf,
            "parameters": [_numbers_as_floats(asdict(p) | {"description": ""}) for p in self.parameters],
            "control_hz": self.control_hz,
            "cameras": [asdict(camera) for camera in self.cameras],
            "home": _numbers_as_floats(dict(self.home)),
            "roles": dict(self.roles),
            "distractors": self.distractors,
            "robot": self.robot,
            "task": self.task,
        }
        digest.update(json.dumps(content, sort_keys=True).encode())
        for name in sorted(self.assets):
            digest.update(f"\0{name}\0".encode())
            digest.update(self.assets[name])
        return digest.hexdigest()

    def parameter(self, name: str) -> Parameter:
        """The parameter called `name`; raises `UnknownName` with the closest match."""
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
        """All nominal values, with `changes` applied and checked against bounds and choices."""
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
        """Make a new version of this twin with other nominal values.

        Args:
            changes: parameter name to value, in the parameter's unit; also accepted as keywords.
            version: default: this version followed by the first digits of the new content hash.

        Returns:
            The new twin; its `parent` is this twin's content hash.

        Raises:
            UnknownName: the twin has no such parameter.
            InvalidTwin: a value is outside its bounds.
        """
        changes = {**(changes or {}), **more}
        values = self.values(changes)
        parameters = tuple(replace(p, nominal=values[p.name]) for p in self.parameters)
        changed = replace(self, parameters=parameters, parent=self.content_hash)
        base = self.version.split("+")[0]
        return replace(changed, version=version or f"{base}+{changed.content_hash[:8]}")

    def make_model(self, values: Mapping[str, float | str] | None = None) -> mujoco.MjModel:
        """Compile the MJCF with nominal values, except those in `values`."""
        model = self.compile_as_written()
        self.patch.apply_to_model(model, self.values(values))
        return model

    def compile_as_written(self) -> mujoco.MjModel:
        """Compile the MJCF as it is, without parameter values."""
        try:
            model = mujoco.MjModel.from_xml_string(self.mjcf, dict(self.assets))
        except (ValueError, mujoco.FatalError) as error:
            raise InvalidTwin(
                f"the model of twin {self.name!r} does not compile",
                got=str(error),
                remedy="fix the MJCF; `python -m mujoco.viewer --mjcf=FILE` shows it",
            ) from error
        check_timestep(model, f"twin {self.name!r}")
        return model

    @cached_property
    def patch(self) -> ModelPatch:
        """The parameters resolved against the compiled model."""
        return ModelPatch(self.compile_as_written(), self.parameters)

    @property
    def physics_dt_s(self) -> float:
        """Physics time step, s."""
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
    """Raise `InvalidTwin` unless the twin compiles and its model has every part that the twin names."""
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
                f"twin {twin.name!r} names a {kind} that its model does not have", got=name
            ) from error


def _numbers_as_floats(value: Any) -> Any:
    """1 and 1.0 are the same nominal value and must hash alike."""
    if isinstance(value, dict):
        return {key: _numbers_as_floats(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_numbers_as_floats(part) for part in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
