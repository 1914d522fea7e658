"""Data quality: checks of recorded episodes, each a pure function; findings may block later stages."""
