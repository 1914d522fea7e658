"""Who acts when data is generated: scripted experts and excitation signals, batched.

Importing this package registers the built-in experts.
"""

from twinloop.experts import pick_and_place
from twinloop.experts.protocol import EXPERTS, Expert, Setup
from twinloop.experts.reading import Reading

__all__ = ["EXPERTS", "Expert", "Reading", "Setup", "pick_and_place"]
