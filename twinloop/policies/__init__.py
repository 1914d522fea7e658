"""Policies: what they see and do, the networks behind them, their files, and how their action chunks are carried out."""

from twinloop.policies import groot, openpi, vla_eval  # registers the addresses of policy servers

__all__ = ["groot", "openpi", "vla_eval"]
