"""What the stages of the loop do: each fills a folder, goes on with what an interrupted run left there, and says what it found.

Earlier stages come as `Done`: a folder and what was found. Nothing here knows which stage comes next; `loop.py` puts them in order.
"""

from twinloop.steps.models import (
    anchored,
    calibrate,
    calibrated,
    cover,
    explain,
    keep,
    learn,
    matching,
    measure,
    propose,
    simulate,
)
from twinloop.steps.robot import Station, demonstrate, excite, reach, try_out, try_until_failure, watch
from twinloop.steps.verdicts import decide, film, release, rival_of, take_over

__all__ = [
    "Station",
    "anchored",
    "calibrate",
    "calibrated",
    "cover",
    "decide",
    "demonstrate",
    "excite",
    "explain",
    "film",
    "keep",
    "learn",
    "matching",
    "measure",
    "propose",
    "reach",
    "release",
    "rival_of",
    "simulate",
    "take_over",
    "try_out",
    "try_until_failure",
    "watch",
]
