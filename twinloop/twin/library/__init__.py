"""Built-in twins; importing this package registers them."""

from twinloop.twin.library import benches, franka, pendulums, so101
from twinloop.twin.library.registry import TWINS

__all__ = ["TWINS", "benches", "franka", "pendulums", "so101"]
