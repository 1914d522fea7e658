"""Tasks: initial state, phases, success and failure reasons of an episode.

Tasks are batched: every array has one row per environment. Importing this package registers the built-in tasks.
"""

from twinloop.tasks import excite, pick_and_place, push, reach, toss
from twinloop.tasks.cell import Cell, make_cell
from twinloop.tasks.protocol import TASKS, Judgement, RewardedTask, Start, Task, make_task
from twinloop.tasks.truth import Touch, Truth

__all__ = [
    "TASKS",
    "Cell",
    "Judgement",
    "RewardedTask",
    "Start",
    "Task",
    "Touch",
    "Truth",
    "excite",
    "make_cell",
    "make_task",
    "pick_and_place",
    "push",
    "reach",
    "toss",
]
