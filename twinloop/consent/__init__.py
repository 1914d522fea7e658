"""Consent: people appear under pseudonyms, uses without consent are refused, and consent can be withdrawn."""
