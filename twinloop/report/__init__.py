"""Render results as images, HTML and text; no statistics are computed here."""
