"""From real episodes to a calibrated twin that knows how sure it is, and a randomization that is its uncertainty."""
