"""From real episodes to a calibrated twin that knows how sure it is, and a randomization that is its uncertainty.

`twinloop.identify(...)` is `twinloop.identify.run.identify`.
"""

from twinloop.verb import make_callable

make_callable(__name__)
