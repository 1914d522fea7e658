"""Episodes on disk: a LeRobot v3.0 data set with provenance, labels and checksums beside it."""
