"""Force, torque and inertial sensors of a twin's model: which numbers they are, and as which signals they are recorded."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco

from twinloop.episode import Signal

_KINDS = {
    mujoco.mjtSensor.mjSENS_FORCE: ("force", "N"),
    mujoco.mjtSensor.mjSENS_TORQUE: ("torque", "N·m"),
    mujoco.mjtSensor.mjSENS_GYRO: ("gyro", "rad/s"),
    mujoco.mjtSensor.mjSENS_ACCELEROMETER: ("accelerometer", "m/s²"),
}


@dataclass(frozen=True)
class Sensors:
    """All sensors of one kind in a cell: `addresses` of their axes in MuJoCo's `sensordata`, `elements` to name them."""

    kind: str
    unit: str
    addresses: tuple[int, ...]
    elements: tuple[str, ...]

    @property
    def signal(self) -> Signal:
        """How the readings of these sensors are recorded."""
        return Signal(f"observation.{self.kind}", (len(self.elements),), (self.unit,), elements=self.elements)


def find_sensors(model: mujoco.MjModel) -> tuple[Sensors, ...]:
    """The sensors of a model by kind, in the order force, torque, gyro, accelerometer."""
    found = []
    for kind, (word, unit) in _KINDS.items():
        addresses: list[int] = []
        elements: list[str] = []
        for index in range(model.nsensor):
            if model.sensor_type[index] == kind:
                start = int(model.sensor_adr[index])
                name = model.sensor(index).name or f"{word}_{index + 1}"
                addresses += range(start, start + 3)
                elements += [f"{name}.{axis}" for axis in "xyz"]
        if addresses:
            found.append(Sensors(word, unit, tuple(addresses), tuple(elements)))
    return tuple(found)
