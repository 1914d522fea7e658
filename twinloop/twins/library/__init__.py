"""Built-in twins; importing this package registers them."""

from twinloop.twins.library import benches, franka, pendulums, so101
from twinloop.twins.library.registry import TWINS

__all__ = ["TWINS", "benches", "franka", "pendulums", "so101"]
