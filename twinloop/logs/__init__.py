"""Convert logs in other formats to datasets: readers, the log map, `ingest`."""
