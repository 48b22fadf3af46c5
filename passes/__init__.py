"""Passes, which rewrite graphs: `pipeline` has their order, `base` their interface."""
