"""Operators of StableHLO, which name every dimension and do not broadcast."""
