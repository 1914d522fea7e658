"""The workspace in a browser, and the library in JSON over HTTP; computes nothing of its own."""
