"""The stand-in for reality: a robot cell in another engine, in its own process, behind a socket.

Nothing outside this folder may import from it or read the reality files: a client sends commands and gets readings, as
from a real robot. `twinloop.robots.remote` is the client, and `python -m twinloop.robots.standin` is the server.
"""
