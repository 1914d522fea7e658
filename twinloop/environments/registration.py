"""The ids of the environments; what they are made of is imported when one is made."""

from __future__ import annotations

from twinloop.errors import MissingExtra

BUILT_IN = (
    "cart_pole",
    "double_pendulum",
    "franka_pick_place",
    "franka_push",
    "franka_reach",
    "furuta_pendulum",
    "servo_pendulum",
    "so101",
    "so101_pick_place",
)
"""Built-in twins with something to control."""

ANY = "Twin-v0"
"""The environment of any twin: `gymnasium.make("twinloop/Twin-v0", twin=NAME_OR_FOLDER)`."""


def register_environments() -> None:
    """Register `twinloop/NAME-v0` for each built-in twin, and `twinloop/Twin-v0`; a second call changes nothing."""
    try:
        from gymnasium.envs.registration import register, registry
    except ModuleNotFoundError as error:
        raise MissingExtra("a twin as an environment", "gymnasium", "gym") from error

    for name in (*BUILT_IN, None):
        environment = f"twinloop/{ANY if name is None else f'{name}-v0'}"
        if environment not in registry:
            register(
                environment,
                entry_point="twinloop.environments.single:TwinEnv",
                vector_entry_point="twinloop.environments.vector:TwinVectorEnv",
                kwargs={} if name is None else {"twin": name},
            )
