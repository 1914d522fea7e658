"""Policies: what they see and do, the networks behind them, their files, and how their action chunks are carried out."""
