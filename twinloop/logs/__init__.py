"""Real recordings in other people's formats become episodes: readers, the map that names channels, `ingest`."""
