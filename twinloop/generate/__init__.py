"""From a twin to episodes: randomize, simulate behind imperfect hardware, record.

`twinloop.generate(...)` is `twinloop.generate.run.generate`.
"""

from twinloop.verb import make_callable

make_callable(__name__)
