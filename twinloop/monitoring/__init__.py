"""What deployed episodes say: does it still succeed, has anything moved, what was it, and what to do next."""
