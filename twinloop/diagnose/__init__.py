"""Why a policy that works in its twin fails on the robot: success points lost to each gap dimension, or "unknown".

`twinloop.diagnose(...)` is `twinloop.diagnose.run.diagnose`.
"""

from twinloop.verb import make_callable

make_callable(__name__)
