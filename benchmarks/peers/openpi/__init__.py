"""openpi's client package in `.venv-openpi`: it needs NumPy 1."""

from benchmarks.peers.environment import Peer

PEER = Peer("openpi-client", "openpi")
