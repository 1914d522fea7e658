"""The door for physics engines: many environments of one robot cell, each with its own parameters, stepped side by side.

An engine is made by name, `make_engine("mujoco", cell, count=8, ...)`; another package adds one with an entry point in the
group `twinloop.engines`. `twinloop.testing.engines.check_engine` checks that it keeps to this page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from twinloop.episode import Array
from twinloop.plugins import Registry
from twinloop.tasks import Cell, Start, Truth

Values = Mapping[str, Any]
"""Values of the twin's parameters by name, one for each environment."""

DEFAULT_ENGINE = "mujoco"


@dataclass(frozen=True)
class Diverged:
    """Environments `ids` (n,) whose simulation left the finite numbers, with the state (n, ...) before the step that did it."""

    ids: Array
    qpos: Array
    qvel: Array
    ctrl: Array


@dataclass(frozen=True)
class Trajectories:
    """States after each physics step of open-loop simulation: qpos (n, steps, nq), qvel (n, steps, nv).

    `effort` (n, steps, nu) are actuator forces, None unless asked for. Rows of environments that `diverged` (n,) mean nothing.
    """

    qpos: Array
    qvel: Array
    diverged: Array
    effort: Array | None = None


@dataclass(frozen=True)
class EngineOptions:
    """What an engine must be able to do; leaving things out makes it faster.

    - `contacts`: `truth` measures contacts between robot, object and table.
    - `gear_friction`: friction of drives depends on speed and load, where the twin says so.
    - `switched_servos`: `roll` may switch servos off.
    """

    contacts: bool = True
    gear_friction: bool = True
    switched_servos: bool = False


class EngineRenderer(Protocol):
    """Renders recorded states through the cell's cameras, with their imperfections."""

    def paint(self, values: Values, seed: int, qpos: Array, mocap: Array) -> dict[str, Array]:
        """Frames (T, height, width, 3) uint8 by camera for states (T, nq) of one episode."""

    def paint_newest(self, values: Values, seed: int, qpos: Array, mocap: Array) -> dict[str, Array]:
        """The frames (height, width, 3) of the last state only, equal to the last ones of `paint`."""

    def close(self) -> None:
        """Free what the renderer holds."""


class Engine(Protocol):
    """`count` environments of a cell. What an environment does depends on its own parameters, state and commands alone.

    Environments are named by their numbers, `ids` (n,). Results do not depend on the number of threads, nor on what ran in an
    environment before. State arrays are read through the properties and written through `set_state`.
    """

    cell: Cell
    count: int

    @property
    def name(self) -> str:
        """The name that the engine is registered under."""

    @property
    def version(self) -> str:
        """The version of the physics library."""

    @property
    def qpos(self) -> Array:
        """Positions (count, nq)."""

    @property
    def qvel(self) -> Array:
        """Velocities (count, nv)."""

    @property
    def ctrl(self) -> Array:
        """The last commands (count, nu)."""

    @property
    def mocap(self) -> Array:
        """Positions of bodies that are placed by hand (count, nmocap, 3), such as a target."""

    @property
    def object_inertia_m2(self) -> Array:
        """Principal moments of inertia of the object over its mass, (count, 3)."""

    def load(self, ids: Array, values: Values, start: Start) -> None:
        """Begin episodes: set parameters to `values` (n,) each, the others to nominal, and the state to `start`."""

    def set_state(self, ids: Array, qpos: Array, qvel: Array, ctrl: Array) -> None:
        """Set positions (n, nq), velocities (n, nv) and commands (n, nu)."""

    def step(self, ids: Array, controls: Array) -> Diverged | None:
        """Simulate one control step.

        Args:
            ids: Environments (n,).
            controls: One command for the whole step (n, 1, nu), or one for each physics step (n, substeps, nu).

        Returns:
            The environments that diverged; they are back in the state before the step.
        """

    def roll(
        self,
        ids: Array,
        values: Values,
        start: tuple[Array, Array],
        controls: Array,
        *,
        enabled: Array | None = None,
        effort: bool = False,
    ) -> Trajectories:
        """Simulate open loop from given states: what identification fits and gap replay compares.

        Args:
            ids: Environments (n,).
            values: Parameters, (n,) each; the others are nominal.
            start: Positions (n, nq) and velocities (n, nv).
            controls: A command for each physics step, (n, steps, nu).
            enabled: When servos are on, (n, steps); default: always. Needs `EngineOptions.switched_servos`.
            effort: Record actuator forces too.
        """

    def truth(self) -> Truth:
        """Measure everything, contacts included, in every environment; the arrays are copies."""

    def push_object(self, ids: Array, force_n: Array) -> None:
        """Apply forces (n, 3) in the world frame to the object's centre of mass, until they are set again."""

    def set_gravity(self, ids: Array, gravity_m_s2: Array) -> None:
        """Set the acceleration (n, 3) of everything, until it is set again or the environment is loaded."""

    def make_renderer(self, cameras: tuple[str, ...]) -> EngineRenderer:
        """Make a renderer for some of the cell's cameras."""


@runtime_checkable
class ShowsMechanics(Protocol):
    """An engine that shows its own kinematics and statics, for conformance checks."""

    def mass_centres(self, environment: int) -> dict[int, Array]:
        """Where the engine itself has the bodies' centres of mass (3,) in m, by body."""

    def gravity_torques(self, environment: int) -> dict[int, float]:
        """The torques in N m, or forces in N, against gravity, by degree of freedom."""


class MakeEngine(Protocol):
    """Makes an engine; what is registered."""

    def __call__(
        self, cell: Cell, count: int, threads: int, varying: Iterable[str], options: EngineOptions
    ) -> Engine:
        """See `make_engine`."""


ENGINES: Registry[MakeEngine] = Registry("engine", "engines")


def most_environments(name: str) -> int | None:
    """How many environments of an engine are worth stepping together; None for as many as there are.

    Raises:
        UnknownName: No engine has this name.
    """
    most: int | None = getattr(ENGINES.get(name), "max_environments", None)
    return most


def make_engine(
    name: str,
    cell: Cell,
    count: int,
    threads: int = 1,
    varying: Iterable[str] = (),
    options: EngineOptions | None = None,
) -> Engine:
    """Make an engine by name.

    Args:
        name: A registered engine, such as `mujoco`.
        cell: The robot cell that every environment holds.
        count: Environments.
        threads: Threads to step them with, 0 for as many as there are cores; results do not depend on it.
        varying: Names of the parameters whose values differ between environments.
        options: What the engine must be able to do; default: everything but switching servos.

    Raises:
        UnknownName: No engine has this name.
    """
    return ENGINES.get(name)(cell, count, threads, varying, options or EngineOptions())
