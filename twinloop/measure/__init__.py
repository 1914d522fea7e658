"""One estimator for each physical quantity, as functions of recorded traces; the packages above compare, they do not estimate."""
