"""From trials to a verdict: evidence, statistics and decision are three things, each stored.

`twinloop.gate(...)` is `twinloop.gate.run.gate`.
"""

from twinloop.verb import make_callable

make_callable(__name__)
