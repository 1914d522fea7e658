"""Our own policies: networks, their files, and their export."""
