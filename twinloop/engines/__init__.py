"""Physics engines: many environments of one robot cell, each with its own parameters, stepped side by side.

Importing this package registers the built-in engine.
"""

from twinloop.engines import mujoco_batch
from twinloop.engines.protocol import (
    DEFAULT_ENGINE,
    ENGINES,
    Diverged,
    Engine,
    EngineOptions,
    EngineRenderer,
    Trajectories,
    make_engine,
)

__all__ = [
    "DEFAULT_ENGINE",
    "ENGINES",
    "Diverged",
    "Engine",
    "EngineOptions",
    "EngineRenderer",
    "Trajectories",
    "make_engine",
    "mujoco_batch",
]
