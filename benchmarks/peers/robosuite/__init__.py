"""robosuite in `.venv-robosuite`."""

from benchmarks.peers.environment import Peer

PEER = Peer("robosuite", "robosuite")
