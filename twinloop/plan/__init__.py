"""What to record next, how much of it, what it costs and what it should bring.

`twinloop.plan(...)` is `twinloop.plan.run.plan`.
"""

from twinloop.verb import make_callable

make_callable(__name__)
