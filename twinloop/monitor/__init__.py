"""What deployed episodes say: does it still succeed, has anything moved, what was it, and what to do next.

`twinloop.monitor(...)` is `twinloop.monitor.run.monitor`.
"""

from twinloop.verb import make_callable

make_callable(__name__)
