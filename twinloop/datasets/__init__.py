"""Episodes on disk: a LeRobot v3.0 dataset with provenance, labels and checksums beside it."""
