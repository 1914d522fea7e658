"""Physics engines: many environments of one robot cell, each with its own parameters, stepped side by side.

Importing this package registers the built-in engines; those that are optional are imported when they are made.
"""

from twinloop.engines import mujoco_batch, world_engine
from twinloop.engines.differences import cannot_vary, require_engine
from twinloop.engines.protocol import (
    DEFAULT_ENGINE,
    ENGINES,
    Diverged,
    Engine,
    EngineOptions,
    EngineRenderer,
    Trajectories,
    make_engine,
    most_environments,
)

__all__ = [
    "DEFAULT_ENGINE",
    "ENGINES",
    "Diverged",
    "Engine",
    "EngineOptions",
    "EngineRenderer",
    "Trajectories",
    "cannot_vary",
    "make_engine",
    "most_environments",
    "mujoco_batch",
    "require_engine",
    "world_engine",
]
