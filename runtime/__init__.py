"""Runs programs: plan, compile, cache, run.  `run.model` has the model that callers hold."""
