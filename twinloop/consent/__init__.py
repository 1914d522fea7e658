"""Who agreed to what: people appear as pseudonyms, uses without agreement are refused, and agreement can be withdrawn."""
