"""Twins as Gymnasium environments: `gymnasium.make("twinloop/franka_pick_place-v0")`, or `make_vec` for many at once.

Importing this package registers them; so does `import twinloop` when Gymnasium has been imported before.
"""

from twinloop.environments.registration import register_environments

register_environments()
