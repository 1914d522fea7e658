"""Scripted experts and excitation signals, batched.

Importing this package registers the built-in experts.
"""

from twinloop.experts import excitation, passive, pick_and_place, push, random_actions, reach
from twinloop.experts.playback import Motion, find_expert, load_motion, save_motion
from twinloop.experts.protocol import EXPERTS, Expert, ImageExpert, Setup, default_expert
from twinloop.experts.reading import Reading

__all__ = [
    "EXPERTS",
    "Expert",
    "ImageExpert",
    "Motion",
    "Reading",
    "Setup",
    "default_expert",
    "excitation",
    "find_expert",
    "load_motion",
    "passive",
    "pick_and_place",
    "push",
    "random_actions",
    "reach",
    "save_motion",
]
