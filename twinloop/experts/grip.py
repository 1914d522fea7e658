"""How a gripper grasps, where that differs between robots."""

from __future__ import annotations

from dataclasses import dataclass

from twinloop.tasks import Cell


@dataclass(frozen=True)
class Grip:
    """`offset_m` is where the object should be along the tool's x axis when the hand comes down.

    `opening_fraction` is the fraction to which the gripper opens. `above_m` is how far above object and target the tool
    travels. `sag_per_s` is how fast the command is raised where the joints hang below it: servos without gravity
    compensation need it, stiff ones do not.
    """

    offset_m: float = 0.0
    opening_fraction: float = 1.0
    above_m: float = 0.1
    sag_per_s: float = 0.0


GRIPS = {
    # One jaw is fixed, 8 mm from the tool's centre; the arm reaches no higher than 6 cm above its outer objects, and
    # its servos hold their load with an error of a few degrees.
    "so101": Grip(offset_m=0.009, opening_fraction=0.45, above_m=0.05, sag_per_s=2.0),
}


def find_grip(cell: Cell) -> Grip:
    """The grip of a cell's robot."""
    return GRIPS.get(cell.twin.robot, Grip())
