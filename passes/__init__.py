"""Passes rewrite graphs; `pipeline` has them in order, `base` has their contract."""
