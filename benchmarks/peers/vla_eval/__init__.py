"""vla-eval in `.venv-vla_eval`."""

from benchmarks.peers.environment import Peer

PEER = Peer("vla-eval", "vla_eval")
