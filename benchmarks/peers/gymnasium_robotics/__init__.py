"""gymnasium-robotics in `.venv-gymnasium_robotics`."""

from benchmarks.peers.environment import Peer

PEER = Peer("gymnasium-robotics", "gymnasium_robotics")
