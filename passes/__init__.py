"""Passes, which rewrite graphs: `pipeline` has their order, `interface` says what one is."""
