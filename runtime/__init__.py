"""Runs programs: plan, compile, cache, run.  Callers hold a model of `run.compiled_model`."""
