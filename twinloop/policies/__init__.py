"""Policies: the door (`protocol`, `interface`), what executes and serves them, our own networks, and those of others.

A policy of somebody else is a backend, an address and what answers there (`backends`), under an interface map (`mapping`);
`conventions` finds out what the map should say. Importing this package registers the built-in kinds of address; what runs them is
loaded when one is opened.
"""

from twinloop.policies import backends

__all__ = ["backends"]
