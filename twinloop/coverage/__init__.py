"""Where real data lies outside what simulation covers, in the words of the data.

`twinloop.coverage(...)` is `twinloop.coverage.run.coverage`.
"""

from twinloop.verb import make_callable

make_callable(__name__)
