"""Other people's tools that we measure ourselves against, each in a virtual environment of its own."""
