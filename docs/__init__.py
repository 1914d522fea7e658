"""Makes the command reference; the pages themselves are Markdown."""
