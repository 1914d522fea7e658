"""Robot cells as values: `Twin`, `Parameter`, the built-in library, and how values reach a model.

twin = load_twin("franka_pick_place")
model = twin.make_model({"object_mass_kg": 0.2})            # one MjModel
batch = mujoco.batch.Batch(twin.make_model(), nsim, nthread)
writer = BatchWriter(twin.patch, batch, varying=["object_mass_kg"])
writer.write({"object_mass_kg": masses})                    # one value per simulation, never compounding
start = initial_state(twin, values, nsim)                   # qpos, ctrl, mocap_pos
textures = apply_appearance(twin, model, draw)                 # lights, cameras, textures of a rendered model
"""

from twinloop.twins.appearance import (
    SHARED_POSE,
    apply_appearance,
    camera_parameter,
    camera_parameters,
    has_aligned_camera,
    move_camera,
)
from twinloop.twins.compare import Difference, compare_twins
from twinloop.twins.folder import save_twin
from twinloop.twins.load import find_twin, list_twins, load_twin
from twinloop.twins.parameter import DIMENSIONS, STAGES, Dimension, Parameter, Stage, Target
from twinloop.twins.patch import BatchWriter, ModelPatch
from twinloop.twins.scene import InitialState, initial_state
from twinloop.twins.time_step import with_time_step
from twinloop.twins.twin import Twin, check_twin
from twinloop.twins.user_model import make_twin_from_model

__all__ = [
    "DIMENSIONS",
    "SHARED_POSE",
    "STAGES",
    "BatchWriter",
    "Difference",
    "Dimension",
    "InitialState",
    "ModelPatch",
    "Parameter",
    "Stage",
    "Target",
    "Twin",
    "apply_appearance",
    "camera_parameter",
    "camera_parameters",
    "check_twin",
    "compare_twins",
    "find_twin",
    "has_aligned_camera",
    "initial_state",
    "list_twins",
    "load_twin",
    "make_twin_from_model",
    "move_camera",
    "save_twin",
    "with_time_step",
]
