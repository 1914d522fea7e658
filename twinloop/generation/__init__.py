"""From a twin to episodes: randomize, simulate behind imperfect hardware, record."""
