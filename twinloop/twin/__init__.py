"""Robot cells as values: `Twin`, `Parameter`, the built-in library, and how values reach a model.

twin = load_twin("franka_pick_place")
model = twin.make_model({"object_mass_kg": 0.2})            # one MjModel
batch = mujoco.batch.Batch(twin.make_model(), nsim, nthread)
writer = BatchWriter(twin.patch, batch, varying=["object_mass_kg"])
writer.write({"object_mass_kg": masses})                    # one value per simulation, never compounding
start = initial_state(twin, values, nsim)                   # qpos, ctrl, mocap_pos
textures = apply_picture(twin, model, draw)                 # lights, cameras, textures of a rendered model
"""

from twinloop.twin.compare import Difference, compare_twins
from twinloop.twin.folder import save_twin
from twinloop.twin.load import find_twin, list_twins, load_twin
from twinloop.twin.parameter import DIMENSIONS, STAGES, Dimension, Parameter, Stage, Target
from twinloop.twin.patch import BatchWriter, ModelPatch
from twinloop.twin.picture import apply_picture
from twinloop.twin.scene import InitialState, initial_state
from twinloop.twin.twin import Twin, check_twin
from twinloop.twin.user_model import make_twin_from_model

__all__ = [
    "DIMENSIONS",
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
    "apply_picture",
    "check_twin",
    "compare_twins",
    "find_twin",
    "initial_state",
    "list_twins",
    "load_twin",
    "make_twin_from_model",
    "save_twin",
]
