"""Built-in twins; importing this package registers them."""

from twinloop.twin.library import franka
from twinloop.twin.library.registry import TWINS

__all__ = ["TWINS", "franka"]
